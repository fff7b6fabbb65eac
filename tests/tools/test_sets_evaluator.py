"""One verdict over several sets of inputs: all must be right, and a wrong one is named."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from triton_agent.tools.errors import UsageError
from triton_agent.tools.evaluate.merged_sets import mean_of
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, SetsEvaluator, evaluator_for
from triton_agent.tools.problem.input_spec import parse_sets
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Finding, Interval, Status
from triton_agent.tools.settings import EvaluatorSettings

SETTINGS = EvaluatorSettings(target=None)
DOUBLE = """
import torch
from torch import nn
class Double(nn.Module):
    def forward(self, x, scale=None):
        return x * 2 if scale is None else x * scale
"""
KERNEL = """
import torch, triton, triton.language as tl
from torch import nn
@triton.jit
def double(x, y, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < size), mask=at < size)
class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        size = {size}
        double[(triton.cdiv(size, 64),)](x, y, size, BLOCK=64)
        return y
"""
RIGHT = KERNEL.format(size="x.numel()")
RIGHT_WHERE_SHORT = KERNEL.format(size="min(x.numel(), 1500)")
"""Right for the main set and its variants, wrong for longer inputs."""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ProblemSpec:
    path = tmp_path_factory.mktemp("double") / "double.py"
    path.write_text(DOUBLE)
    return parse_problem(f"{path}:Double", sets=parse_sets(["f32[5,20]@3", "f32[1,7]", "wide=f32[3,700]"]))


@pytest.fixture(scope="module")
def evaluator(spec: ProblemSpec, nursery: Nursery) -> Iterator[AnyEvaluator]:
    with evaluator_for(spec, SETTINGS, nursery=nursery) as made:
        yield made


def test_what_is_right_at_every_set_passes_with_the_checks_of_each(evaluator: AnyEvaluator) -> None:
    verdict = evaluator.evaluate(RIGHT)
    assert verdict.status is Status.PASSED
    seen = {case.variant.partition(": ")[0] for case in verdict.accuracy}
    assert seen == {"f32[5,20]", "f32[1,7]", "wide"}
    assert verdict.problem == evaluator.spec.digest
    assert verdict.diagnosis is not None
    assert [line.partition(": ")[0] for line in verdict.diagnosis.notes[:3]] == [
        "at f32[5,20] (weight 3)",
        "at f32[1,7]",
        "at wide",
    ]


def test_the_first_set_at_which_it_is_wrong_decides_and_is_named(evaluator: AnyEvaluator) -> None:
    stages: list[str] = []
    verdict = evaluator.evaluate(RIGHT_WHERE_SHORT, stages.append)
    assert verdict.status is Status.WRONG_VALUES
    assert verdict.message.startswith("at wide: ")
    assert {stage.partition(": ")[0] for stage in stages} == {"f32[5,20]", "f32[1,7]", "wide"}


def test_it_can_be_asked_at_some_sets_and_at_their_own_sizes_only(evaluator: AnyEvaluator) -> None:
    assert isinstance(evaluator, SetsEvaluator)
    verdict = evaluator.evaluate(RIGHT_WHERE_SHORT, as_given=True, names=["f32[5,20]", "f32[1,7]"])
    assert verdict.status is Status.PASSED
    assert {case.variant for case in verdict.accuracy} == {"f32[5,20]: as given", "f32[1,7]: as given"}


def test_what_is_no_kernel_is_told_once(evaluator: AnyEvaluator) -> None:
    verdict = evaluator.evaluate("class ModelNew: ...")
    assert verdict.status is not Status.PASSED
    assert verdict.message.startswith("at f32[5,20]: ")
    assert evaluator.evaluate("nothing").finding is Finding.NO_MODEL


def test_facts_tell_of_every_set_and_the_main_one_stands_for_all(evaluator: AnyEvaluator, spec: ProblemSpec) -> None:
    facts = evaluator.facts
    assert "3 sets of inputs: f32[5,20] (weight 3); f32[1,7]; wide" in facts.notes[0]
    assert "wide: as given" in facts.variants and facts.digest == spec.digest
    assert len(facts.numbers) == len(facts.graphs)
    shapes = [tuple(next(iter(graph["inputs"].values()))["shape"]) for graph in facts.graphs]
    assert shapes[0] == (5, 20) and {(1, 7), (3, 700)} <= set(shapes)


def test_a_set_that_the_original_does_not_take_is_named(tmp_path: Path, nursery: Nursery) -> None:
    path = tmp_path / "product.py"
    path.write_text("from torch import nn\nclass Product(nn.Linear): pass\n")
    target = f"{path}:Product"
    spec = parse_problem(target, init="16, 16", sets=parse_sets(["f32[8,16]", "i64[4,16]"]))
    with pytest.raises(UsageError, match=r"at i64\[4,16\]: "):
        SetsEvaluator(spec, SETTINGS, nursery=nursery)


def test_saved_sets_with_other_numbers_of_arguments_are_refused(tmp_path: Path, nursery: Nursery) -> None:
    import torch

    path = tmp_path / "double.py"
    path.write_text(DOUBLE)
    torch.save([torch.rand(4)], tmp_path / "one.pt")
    torch.save([torch.rand(4), torch.rand(4)], tmp_path / "two.pt")
    texts = [str(tmp_path / "one.pt"), str(tmp_path / "two.pt")]
    spec = parse_problem(f"{path}:Double", sets=parse_sets(texts))
    with pytest.raises(UsageError, match="sets of different arguments: one has "):
        SetsEvaluator(spec, SETTINGS, nursery=nursery)


def test_the_mean_weighs_and_is_no_surer_than_its_parts() -> None:
    half, double = (Interval(median=m, low=m * 0.9, high=m * 1.1) for m in (0.5, 2.0))
    assert mean_of([(1, half), (1, double)]).median == pytest.approx(1.0)
    assert mean_of([(1, half), (3, double)]).median == pytest.approx(math.sqrt(2))
    even = mean_of([(1, double)] * 5)
    assert (even.low, even.median, even.high) == pytest.approx((1.8, 2.0, 2.2))
    assert mean_of([(1, double), (1, Interval(median=1.0, low=0.0, high=2.0))]).low == 0.0

"""Reading a problem: which facts are computed once and reused, and which only on request."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from triton_agent.tools.answers.checks import Answer, measure
from triton_agent.tools.cases.directed import DIRECTED
from triton_agent.tools.cases.layouts import LAYOUTS
from triton_agent.tools.cases.plan import Case, Plan
from triton_agent.tools.cases.state_cases import AFTER_OTHERS
from triton_agent.tools.checker.prepare import prepare_plan
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.processes.tensors import nested_tensors
from triton_agent.tools.reference import facts
from triton_agent.tools.reference.reference import Reference, load
from triton_agent.tools.reference.reference_runs import OriginalRuns
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth import expectation
from triton_agent.tools.truth.expectation import PACKED_BESIDE_BYTES, Expectation, OriginalFailed, behaviour, expect

PROBLEM = """
import torch
ROWS, COLUMNS = 6, 40
class Model(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(columns)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
def get_init_inputs():
    return [COLUMNS]
"""


@pytest.fixture
def spec(tmp_path: Path) -> ProblemSpec:
    (tmp_path / "problem.py").write_text(PROBLEM)
    return parse_problem(str(tmp_path / "problem.py"))


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    function = getattr(owner, name)

    def call(*args: Any, **named: Any) -> Any:
        calls.append(named)
        return function(*args, **named)

    monkeypatch.setattr(owner, name, call)
    return calls


def cases_of(plan: Plan) -> list[Any]:
    return [case for trial in plan.trials for case in trial.cases]


def test_the_truth_is_found_once_for_each_case(spec: ProblemSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = counted(monkeypatch, expectation, "run_lifted")
    plan = prepare_plan(spec, EvaluatorSettings())
    assert len(plan.trials) > 1 and {case.train for case in cases_of(plan)} == {True, False}
    assert sum(named["nudge"] is None for named in runs) == len(cases_of(plan))


def test_inputs_are_drawn_anew_for_every_case_but_not_to_look_at_modes_or_graphs(
    spec: ProblemSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = counted(monkeypatch, Reference, "make_inputs")
    plan = prepare_plan(spec, EvaluatorSettings(shapes="given"))
    (trial,) = plan.trials
    changed = [case for case in trial.cases if case.distribution == "one element changed"]
    sizes = 1  # that the problem is small enough is found by a run
    directed = [case for case in trial.cases if case.distribution in (*DIRECTED, *LAYOUTS)]
    assert len(draws) >= sizes + len(trial.cases) - len(changed) and directed
    contents = {str(nested_tensors(case.expectation.packed_inputs.unpack())[0].double()) for case in trial.cases}
    assert len(contents) == len(trial.cases)


def test_the_answer_by_old_parameters_is_made_when_asked_for(spec: ProblemSpec) -> None:
    plan = prepare_plan(spec, EvaluatorSettings(shapes="given"))
    trial = plan.trials[plan.main]
    plain = (
        "module as constructed",
        "positive parameters",
        "rows of zeros",
        "NaN in parameters",
        "times 30",
        "others negative",
        "others positive",
    )
    later = (case for case in trial.cases if case.version and case.distribution != AFTER_OTHERS)
    late = [case for case in later if not case.name.endswith(plain)]
    assert late and all(case.stale is None for case in trial.cases if not case.version)
    original = load(spec).make_model(trial.build_seed)
    read_in_training = dict(original.named_parameters()).keys()
    for case in late:
        before, now = (trial.states[version].unpack() for version in (case.version - 1, case.version))
        changed = {name for name in now if not torch.equal(now[name], before[name])}
        original.load_state_dict(before)
        assert case.stale is not None
        stale = case.stale()
        assert stale is not None and stale is case.stale(), "made twice"
        with torch.no_grad():
            expected = original.train(case.train)(*case.expectation.packed_inputs.unpack())
        torch.testing.assert_close(stale.outputs[0].yard.original, expected, equal_nan=True)
        differs = not torch.allclose(stale.outputs[0].yard.truth, case.expectation.outputs[0].yard.truth)
        assert differs or (case.train and not changed & read_in_training), "statistics are not read in training"


@pytest.mark.parametrize(("forward", "differs"), [("self.norm(x)", True), ("x * self.norm.weight", False)])
def test_graphs_in_training_are_recorded_everywhere_where_the_main_one_differs(
    forward: str, differs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM.replace("self.norm(x)", forward))
    recorded = counted(monkeypatch, facts, "extract")
    found = prepare_plan(parse_problem(str(tmp_path / "problem.py")), EvaluatorSettings(remedies=False)).facts
    assert len(found["graphs"]) > len(found["variants"]) > 1
    assert len(found["train_graphs"]) == (len(found["graphs"]) if differs else 0)
    assert len(recorded) == len(found["graphs"]) * 2 if differs else len(found["graphs"]) + 1


class Fails(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("not with these parameters")


def test_an_original_that_fails_with_old_parameters_leaves_the_verdict_as_it_was(spec: ProblemSpec) -> None:
    packed = prepare_plan(spec, EvaluatorSettings(shapes="given")).trials[0].cases[0].expectation.packed_inputs
    runs = OriginalRuns(reference=load(spec), settings=EvaluatorSettings())
    assert runs.when_asked(Fails(), packed, {}, train=False)() is None
    with pytest.raises(OriginalFailed, match="not with these parameters"):
        runs.behaviour(Fails(), packed)


class Overwriting(torch.nn.Module):
    """Writes to its input and returns a view of it."""

    def forward(self, x: torch.Tensor, same: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)[0] + same[0]


@pytest.mark.parametrize("columns", [4, PACKED_BESIDE_BYTES // 8])
@pytest.mark.parametrize("leaf", [True, False])
def test_the_originals_runs_see_what_was_given_and_not_what_one_of_them_wrote(columns: int, leaf: bool) -> None:
    x = torch.arange(3.0 * columns).reshape(3, columns).requires_grad_(not leaf)
    x, before = (x if leaf else x + 0), x.detach().clone()
    assert x.is_leaf == leaf
    found = expect(Overwriting(), [x, x])
    assert torch.equal(x, before)
    x = before
    assert torch.equal(found.inputs_after[0], 2 * x) and torch.equal(found.inputs_after[1], 2 * x)
    assert torch.equal(found.outputs[0].yard.original, 4 * x[0])
    assert torch.equal(found.outputs[0].yard.truth, 4 * x[0].double())
    assert torch.equal(found.packed_inputs.unpack()[0], x)
    assert behaviour(Overwriting(), found.packed_inputs).outputs[0].equal(4 * x[0])


class Padded(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to_padded_tensor(0.0) * 2


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_inputs_that_torch_cannot_copy_are_unpacked_anew() -> None:
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert expect(Padded(), [x]).outputs[0].yard.original.tolist() == [[2, 2, 0], [2, 2, 2]]


class Counting(torch.nn.Module):
    """Counts its calls in an array that belongs to the caller."""

    def forward(self, x: torch.Tensor, calls: Any) -> torch.Tensor:
        calls += 1
        return x * 2


def test_what_the_original_writes_into_arrays_is_nobody_elses() -> None:
    calls = numpy.zeros(1)
    found = expect(Counting(), [torch.ones(2, 3), calls])
    assert calls[0] == 0 and found.packed_inputs.unpack()[1][0] == 0


def test_nothing_is_packed_any_more_once_the_original_has_failed() -> None:
    with pytest.raises(OriginalFailed, match="not with these parameters"):
        expect(Fails(), [-torch.ones(64, PACKED_BESIDE_BYTES // 32)])
    assert not [thread for thread in threading.enumerate() if thread.name == "packing"]


RARELY_DROPPED = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.01)
    def forward(self, x):
        return self.drop(x)
def get_inputs():
    return [torch.randn(3000)]
"""


def test_a_mode_that_is_left_out_is_left_out_at_all_sizes(tmp_path: Path) -> None:
    """Two calls with a single element agree by chance."""
    path = tmp_path / "problem.py"
    path.write_text(RARELY_DROPPED)
    plan = prepare_plan(parse_problem(str(path)), EvaluatorSettings())
    assert any(case.expectation.inputs_after[0].numel() == 1 for trial in plan.trials for case in trial.cases)
    assert not any(case.train for trial in plan.trials for case in trial.cases)


class Squashed(torch.nn.Module):
    """Tells apart only products near zero, such as those in which large terms cancel."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(18, 8, generator=torch.Generator().manual_seed(0)) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.weight)


def cancelling(seed: int) -> torch.Tensor:
    """Return rows of small products, and one in which large terms cancel."""
    generator, weight = torch.Generator().manual_seed(seed), Squashed().weight[:, 0].double()
    rows = 0.3 * torch.randn(800, 18, generator=generator)
    rows[7] = 4 * torch.randn(18, generator=generator)
    rows[7, -1] += (0.2 - rows[7].double() @ weight) / weight[-1]
    return rows


def test_an_error_that_two_draws_do_not_show_is_compared_with_more_before_it_is_refused(spec: ProblemSpec) -> None:
    runs = OriginalRuns(reference=load(spec), settings=EvaluatorSettings())

    def limits(seed: int) -> tuple[Expectation, float, float]:
        first = runs.expect(Squashed(), [cancelling(seed)], {}, brief=True)
        assert first.brief and first.closer is not None
        second = first.closer()
        assert second.closer is not None
        third = second.closer()
        assert third.closer is None
        low, high = (it.outputs[0].yard.limits.allowed["max"] for it in (second, third))  # type: ignore[union-attr]
        return first, low, high

    first, low, high = next(found for found in map(limits, range(20)) if found[2] > 1.5 * found[1])
    yard = first.outputs[0].yard

    def failure(error: float) -> Failed | None:
        answer = yard.original.clone()
        answer[7, 0] = yard.truth[7, 0] + error * yard.truth.abs().max()
        case = Case(name="case", variant="", distribution="", expectation=first)
        return measure(case, Answer(tree=first.tree, tensors=(answer,)))[1]

    assert failure((low + high) / 2) is None
    assert failure(1.1 * high) is not None


class Entropy(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share = torch.softmax(x, -1)
        return (share * share.log()).sum(-1)


def test_results_below_the_normal_numbers_may_be_taken_as_zero(spec: ProblemSpec) -> None:
    runs = OriginalRuns(reference=load(spec), settings=EvaluatorSettings())
    x = torch.zeros(3, 4)
    x[1, 2] = 92.0  # the other shares of this row are 1e-40
    expectation = runs.expect(Entropy(), [x], {}, brief=True)
    case = Case(name="case", variant="", distribution="", expectation=expectation)
    right = expectation.outputs[0].yard.original
    assert torch.isfinite(right).all()

    def fails(row: int, value: float) -> bool:
        answer = right.clone()
        answer[row] = value
        return measure(case, Answer(tree=expectation.tree, tensors=(answer,)))[1] is not None

    assert not fails(1, math.nan) and not fails(1, float(right[1]))
    assert fails(1, 1.0) and fails(0, math.nan) and fails(0, 0.0)


class Divergence(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logs = torch.log_softmax(x, -1)
        return -(logs.exp() * logs).sum(-1)


def test_an_output_that_hangs_on_results_below_the_normal_numbers_may_be_zero(spec: ProblemSpec) -> None:
    runs = OriginalRuns(reference=load(spec), settings=EvaluatorSettings())
    x = torch.tensor([[0.0, -92.0, -93.0, -95.0]])  # shares of 1e-40, times their logarithms
    expectation = runs.expect(Divergence(), [x], {}, brief=True)
    case = Case(name="case", variant="", distribution="", expectation=expectation)

    def fails(value: float) -> bool:
        answer = torch.full((1,), value)
        return measure(case, Answer(tree=expectation.tree, tensors=(answer,)))[1] is not None

    assert not fails(0.0) and not fails(float(expectation.outputs[0].yard.original))
    assert fails(1e-35) and fails(1.0)


@pytest.mark.parametrize("failures", [1, 2])
def test_a_case_without_float64_is_left_out_if_others_have_it(
    spec: ProblemSpec, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """A full card may fail the float64 run; the reference's own outputs would then judge candidates too strictly."""
    reference = load(spec)
    runs, model = OriginalRuns(reference=reference, settings=EvaluatorSettings()), reference.make_model(0)
    inputs = reference.make_inputs(0)
    assert runs.expect(model, inputs, {}, brief=True).lifted
    function, left = expectation.run_lifted, failures

    def failing(*args: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        return None if left >= 0 else function(*args, **named)

    monkeypatch.setattr(expectation, "run_lifted", failing)
    if failures == 1:
        assert runs.expect(model, inputs, {}, brief=True).lifted
    else:
        with pytest.raises(OriginalFailed, match="float64"):
            runs.expect(model, inputs, {}, brief=True)

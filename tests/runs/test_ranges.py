"""Ranges of sizes: valid requests, plans fitted to tapes, and a file that runs the reference outside the range."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from tests.agent.tables import passed
from tests.runs import reported_run
from tests.runs import shipped_samples as samples
from tests.runs.commands import call as command
from tests.runs.pages import Outline
from tests.runs.test_shipping import run_python

import triton_agent
from triton_agent.runs.report.page import render_report
from triton_agent.runs.report.view import RunView
from triton_agent.runs.ship import call_form
from triton_agent.runs.ship.artefact import forced, ship
from triton_agent.runs.ship.plan_file import file_of
from triton_agent.runs.ship.ranges.brackets import Bracket, clipped, is_inside, span, stretches, to_judge
from triton_agent.runs.ship.ranges.ranged_plans import RangedPlans, ranged_plans
from triton_agent.runs.ship.ranges.ranging import Tracing
from triton_agent.tools.errors import UsageError
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.evaluate.merged_sets import passed_at_all
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.problem.size_range import SizeRange, measured, parse_range, points
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.reference.reference import load
from triton_agent.tools.results import Status
from triton_agent.tools.settings import EvaluatorSettings

PROBLEM = """
import torch
from torch import nn
class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width))
    def forward(self, x):
        return x * self.weight
class Softmax(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
"""
SCALE = """
import torch, triton, triton.language as tl
from torch import nn
@triton.jit
def scale(x, weight, y, size, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    tl.store(y + at, tl.load(x + at, mask=inside) * tl.load(weight + at % width, mask=inside), mask=inside)
class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        scale[(triton.cdiv(x.numel(), 64),)](x, self.weight, y, x.numel(), x.shape[-1], BLOCK=64)
        return y
"""
SOFTMAX = """
import torch, triton, triton.language as tl
from torch import nn
@triton.jit
def softmax(x, y, width: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * width + at, mask=at < width, other=-float("inf"))
    power = tl.exp(row - tl.max(row, 0))
    tl.store(y + tl.program_id(0) * width + at, power / tl.sum(power, 0), mask=at < width)
class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
"""
BATCH = SizeRange(low=1, high=40)


pytestmark = pytest.mark.xdist_group("ranges")  # what is made once is made in one process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranges")
    (folder / "problem.py").write_text(PROBLEM)
    return folder


@pytest.fixture(scope="module")
def scale(folder: Path) -> ProblemSpec:
    return parse_problem(f"{folder}/problem.py:Scale", init="24", inputs=["f32[8,24]"], dynamic=["batch=1..40"])


# -- what may be asked for ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("batch=1..256", SizeRange(low=1, high=256)),
        ("batch", SizeRange(low=1, high=8)),
        ("x.1=128..8_192", SizeRange(places=(("x", 1),), low=128, high=8192)),
        ("q.1, k.1 = 2..4", SizeRange(places=(("q", 1), ("k", 1)), low=2, high=4)),
    ],
)
def test_ranges_are_read(text: str, found: SizeRange) -> None:
    assert parse_range(text, batch=8) == found
    assert parse_range(str(found)) == found
    assert SizeRange.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize(
    "text", ["batch=0..4", "batch=9..4", "x=1..4", "x.1", "x.1=4", "x.1=1..99999999999", "batch=4"]
)
def test_what_is_no_range_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_range(text, batch=8)
    assert caught.value.remedy


def test_ranges_belong_to_one_call_and_to_different_dimensions(folder: Path) -> None:
    target = f"{folder}/problem.py:Softmax"
    with pytest.raises(UsageError, match="two ranges"):
        parse_problem(target, inputs=["f32[8,24]"], dynamic=["x.1=1..2", "x.1=1..3"])
    plain = parse_problem(target, inputs=["f32[8,24]"])
    ranged = parse_problem(target, inputs=["f32[8,24]"], dynamic=["x.1=1..2"])
    assert plain.digest != ranged.digest and plain.ranges == ()
    assert ProblemSpec.from_json(json.loads(json.dumps(ranged.to_json()))) == ranged


def test_a_dimension_that_is_not_there_is_named(folder: Path) -> None:
    spec = parse_problem(f"{folder}/problem.py:Softmax", inputs=["f32[8,24]"], dynamic=["y.1=1..2"])
    with pytest.raises(UsageError, match=r"no dimension y\.1") as caught:
        call_form.given_lengths(spec, call_form.find(spec))
    assert "x" in (caught.value.remedy or "")


@pytest.mark.parametrize("lengths", [(1,), (5,), (24,), (60,)])
def test_inputs_are_cut_or_extended_and_no_part_repeats(folder: Path, lengths: tuple[int]) -> None:
    spec = parse_problem(f"{folder}/problem.py:Softmax", inputs=["f32[8,24]"], dynamic=["x.1=1..60"])
    (made,) = load(dataclasses.replace(spec, lengths=lengths)).make_inputs(3)
    assert made.shape == (8, *lengths) and made.is_contiguous()
    assert made.unique().numel() == made.numel()


def test_lengths_to_judge_have_the_ends_and_differ_by_seed() -> None:
    wide = SizeRange(low=1, high=4096)
    first, second = points([wide], 20, 1), points([wide], 20, 2)
    assert first != second and {(1,), (4096,)} <= {*first} & {*second} and len({*first}) == 20
    assert measured([wide]) == [(1,), (64,), (4096,)]


# -- which lengths run the kernels -------------------------------------------------------------------------------------


def bracket(low: int, high: int) -> Bracket:
    return Bracket(low=(low,), high=(high,), modules={})


def test_kernels_run_between_neighbours_at_which_they_were_faster() -> None:
    at = [(1,), (8,), (64,), (256,)]
    assert stretches(at, at) == [((1,), (256,))]
    assert stretches(at, [(8,), (64,)]) == [((8,), (64,))]
    assert stretches(at, [(1,), (64,), (256,)]) == [((1,), (1,)), ((64,), (256,))]
    assert stretches(at, []) == []


def test_several_free_sizes_run_the_kernels_everywhere_or_nowhere() -> None:
    at = [(1, 8), (4, 16), (9, 32)]
    assert stretches(at, at) == [((1, 8), (9, 32))]
    assert stretches(at, at[:2]) == []


def test_brackets_are_cut_to_the_stretches() -> None:
    found = clipped([bracket(1, 16), bracket(17, 99)], [((8,), (40,)), ((60,), (60,))])
    assert [(one.low, one.high) for one in found] == [((8,), (16,)), ((17,), (40,)), ((60,), (60,))]
    assert is_inside((60,), found) and not is_inside((50,), found)
    assert span([BATCH], (8,), (16,)) == "batch 8 to 16"
    asked = to_judge([BATCH], found, 24, seed=1)
    assert {(8,), (16,), (17,), (40,), (60,)} <= {*asked} and all(is_inside(one, found) for one in asked)


# -- plans -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluator(scale: ProblemSpec, nursery: Nursery) -> Iterator[Evaluator]:
    with Evaluator(scale, dataclasses.replace(samples.SETTINGS), nursery=nursery) as made:
        yield made


def found_at(evaluator: Evaluator, source: str, given: tuple[int, ...] = (8,)) -> tuple[Bracket, ...]:
    spec = evaluator.spec

    def tapes(lengths: Sequence[tuple[int, ...]]) -> Sequence[object]:
        return evaluator.tapes(source, lengths).modules

    found = Tracing(spec.ranges, tapes, seed=7, chosen={}).brackets(given)  # type: ignore[arg-type]
    assert not found.left_out
    return found.brackets


@pytest.fixture(scope="module")
def brackets(evaluator: Evaluator) -> tuple[Bracket, ...]:
    return found_at(evaluator, SCALE)


@pytest.fixture(scope="module")
def text(scale: ProblemSpec, brackets: tuple[Bracket, ...]) -> str:
    plans = file_of((), scale.ranges, brackets)
    return ship(scale, plans, samples.facts(scale), draft=True)


def test_a_plan_for_a_range_computes_its_numbers_from_the_size(brackets: tuple[Bracket, ...], text: str) -> None:
    assert [(one.low, one.high) for one in brackets] == [((1,), (40,))]
    assert "1 <= (batch := x.shape[0]) <= 40" in text and "x.shape == (batch, 24)" in text
    assert "launch_scale(batch, ((batch * 24 + 63) // 64, 1, 1), x, weight, y, batch * 24, 24)" in text


def judged_at(spec: ProblemSpec, text: str, lengths: Sequence[tuple[int, ...]], nursery: Nursery) -> tuple[Status, str]:
    settings = EvaluatorSettings(target=None, modes=("eval",), lengths=tuple(lengths))
    with Evaluator(spec, settings, nursery=nursery) as judge:
        found = judge.evaluate(forced(text))
        assert all(f"batch={length}" in judge.facts.variants for (length,) in lengths)
    return found.status, found.message


def test_fitted_plans_are_right_at_lengths_that_were_not_traced(
    scale: ProblemSpec, brackets: tuple[Bracket, ...], text: str, nursery: Nursery
) -> None:
    others = [(length,) for length in range(1, 41) if (length,) not in brackets[0].modules][:8]
    assert others
    assert judged_at(scale, text, others, nursery) == (Status.PASSED, "")


def test_a_wrong_expression_is_found_where_it_is_wrong(scale: ProblemSpec, text: str, nursery: Nursery) -> None:
    """The wrong expression is right at the sizes given: 8 rows of 24 fill three blocks."""
    wrong = text.replace("(batch * 24 + 63) // 64", "batch * 24 // 64")
    assert wrong != text
    assert judged_at(scale, wrong, [(40,)], nursery)[0] is Status.PASSED
    status, message = judged_at(scale, wrong, [(40,), (5,)], nursery)
    assert status is not Status.PASSED and "batch=5" in message


def test_a_size_that_the_compiler_was_told_becomes_an_argument(folder: Path, nursery: Nursery) -> None:
    spec = parse_problem(f"{folder}/problem.py:Softmax", inputs=["f32[3,24]"], dynamic=["x.1=9..32"])
    with Evaluator(spec, samples.SETTINGS, nursery=nursery) as evaluator:
        found = found_at(evaluator, SOFTMAX)
    assert [(one.low, one.high) for one in found] == [((9,), (16,)), ((17,), (32,))]
    plans = file_of((), spec.ranges, found)
    assert "width, BLOCK: tl.constexpr" in plans and "BLOCK=16" in plans and "BLOCK=32" in plans
    assert "(x_size_1, (3, 1, 1), x, y, x_size_1)" in plans


def test_two_free_sizes_share_one_plan(folder: Path, nursery: Nursery) -> None:
    target = f"{folder}/problem.py:Softmax"
    spec = parse_problem(target, inputs=["f32[3,24]"], dynamic=["batch=2..9", "x.1=17..32"])
    with Evaluator(spec, samples.SETTINGS, nursery=nursery) as evaluator:
        found = found_at(evaluator, SOFTMAX, (3, 24))
    plans = file_of((), spec.ranges, found)
    assert "((batch, x_size_1), (batch, 1, 1), x, y, x_size_1)" in plans
    settings = EvaluatorSettings(target=None, modes=("eval",), lengths=((9, 32), (2, 17), (5, 23)))
    with Evaluator(spec, settings, nursery=nursery) as judge:
        assert judge.evaluate(plans).status is Status.PASSED
        assert "batch=5, x.1=23" in judge.facts.variants


def test_launches_that_a_kernel_is_compiled_for_otherwise_stand_apart(evaluator: Evaluator) -> None:
    """Both launches have one grid; Triton compiles the kernel separately for a number divisible by 16."""
    again = SCALE.replace(
        "        return y", "        scale[(3,)](x, self.weight, y, 191, 24, BLOCK=64)\n        return y"
    )
    again = again.replace("(triton.cdiv(x.numel(), 64),)", "(3,)")
    plans = file_of(evaluator.tapes(again).modules)
    assert "launch_scale(x, weight, y, 192, 24)" in plans and "launch_scale_2(x, weight, y, 191, 24)" in plans


def test_plans_that_turn_out_wrong_are_dropped_and_said(scale: ProblemSpec, evaluator: Evaluator) -> None:
    def write(brackets: Sequence[Bracket]) -> str:
        made = ship(scale, file_of((), scale.ranges, brackets), samples.facts(scale), draft=True)
        return made.replace("(batch * 24 + 63) // 64", "batch * 24 // 64")

    found: RangedPlans = ranged_plans(scale, evaluator, SCALE, (8,), write)
    assert found.brackets == ()
    assert any(text.startswith("batch 1 to 40: ") for text in found.left_out), found.left_out


def test_outside_of_the_range_the_reference_runs(tmp_path: Path, text: str) -> None:
    (tmp_path / "fast.py").write_text(text)
    said = run_python(
        tmp_path,
        """
import torch, fast
fast.ModelNew.use_kernels = "always"
made, calls = fast.ModelNew(24), []
original = fast.OriginalModel.forward
fast.OriginalModel.forward = lambda self, *args: calls.append(args[0].shape[0]) or original(self, *args)
with torch.no_grad():
    for rows in (1, 2, 7, 39, 40, 41, 100):
        x = torch.rand(rows, 24)
        assert torch.allclose(made(x), x * made.weight)
    made(torch.rand(24, 40).t()[:, :24])
    made(torch.rand(5, 24).double())
    made(torch.rand(3, 5, 24))
print(calls)
""",
        TRITON_INTERPRET="1",
    )
    assert said.split("\\n")[-2:][0].strip() == "[41, 100, 40, 5, 3]"


@pytest.mark.slow
def test_a_graph_of_torch_compile_takes_a_range(tmp_path: Path, text: str) -> None:
    (tmp_path / "fast.py").write_text(text)
    said = run_python(
        tmp_path,
        """
import torch, fast
fast.ModelNew.use_kernels = "always"
made = fast.ModelNew(24)
compiled = torch.compile(made, backend="aot_eager", fullgraph=True, dynamic=True)
with torch.no_grad():
    for rows in (3, 8, 17):
        x = torch.rand(rows, 24)
        assert torch.allclose(compiled(x), x * made.weight)
print("right")
""",
        TRITON_INTERPRET="1",
    )
    assert said.strip() == "right"


def test_the_report_draws_speed_over_size_and_says_what_holds_where(scale: ProblemSpec) -> None:
    spec = scale.measured_over_ranges((8,))
    assert [item.name for item in spec.sets] == ["batch=8", "batch=1", "batch=6", "batch=40"]
    found = [
        (item, evaluation) for item, evaluation in zip(spec.sets, [passed(SCALE, n) for n in (1.5, 1.2, 1.4, 2.5)])
    ]
    history = reported_run.history()
    view = dataclasses.replace(history.run.problem, spec=spec.to_json())
    history = dataclasses.replace(history, run=dataclasses.replace(history.run, problem=view))
    shown = RunView(history=history, shipped=passed_at_all(found, spec.digest), ranges=("batch 1 to 40: the kernels",))
    page = Outline(render_report(shown))
    assert not page.open
    assert "Speed-up over batch" in page.text and "batch 1 to 40: the kernels" in page.text


def test_a_shipped_file_is_loaded_as_a_class(tmp_path: Path, text: str) -> None:
    path = tmp_path / "loaded_optimized.py"
    path.write_text(text)
    made = triton_agent.load(path)(24)
    assert made.state_dict().keys() == {"weight"} and triton_agent.load(path) is type(made)
    (tmp_path / "other.py").write_text("import torch")
    for name, said in (("other.py", "not a file that optimize wrote"), ("missing.py", "cannot be read")):
        with pytest.raises(UsageError, match=said):
            triton_agent.load(tmp_path / name)


@pytest.mark.slow
def test_a_module_in_memory_is_shipped_for_a_range(tmp_path: Path) -> None:
    module, x = torch.nn.Softmax(-1).eval(), torch.rand(6, 20)
    fast = triton_agent.optimize(
        module,
        x,
        dynamic="batch",
        turns=1,
        parallel=1,
        device="cpu",
        out=tmp_path,
        store=tmp_path / "db",
        progress=False,
    )
    told = triton_agent.outcome_of(fast)
    assert told is not None and told.ranges[0].startswith("batch 1 to 6: the kernels"), told
    assert torch.equal(fast(x[:3]), module(x[:3]))


@pytest.mark.slow
def test_from_the_command_to_a_file_for_a_range(folder: Path, tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "right.py").write_text(SCALE)
    argv = [
        "optimize",
        f"{folder}/problem.py:Scale",
        "--init",
        "24",
        "--input",
        "f32[8,24]",
        "--dynamic",
        "batch=1..40",
    ]
    argv += ["--policy", f"scripted:{kernels}", "--turns", "1", "--device", "cpu", "--out", str(tmp_path / "out")]
    argv += ["--store", str(tmp_path / "db"), "--json"]
    done = subprocess.run([sys.executable, "-m", "triton_agent", *argv], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    outcome: Mapping[str, object] = json.loads(done.stdout.splitlines()[-1])
    said = outcome["ranges"]
    assert isinstance(said, list) and said[0].startswith("batch 1 to 40: the kernels; judged at 1, ")
    assert "Ranges of sizes:" in Path(str(outcome["file"])).read_text()
    assert "batch 1 to 40" in (tmp_path / "out" / "report.html").read_text()


def test_the_command_says_what_is_wrong_with_a_range(folder: Path, tmp_path: Path) -> None:
    argv = (f"{folder}/problem.py:Scale", "--init", "24", "--input", "f32[8,24]", "--store", str(tmp_path / "db"))
    with pytest.raises(UsageError, match=r"no range: 9\.\.4"):
        command("optimize", *argv, "--dynamic", "batch=9..4")
    with pytest.raises(UsageError, match="--parts"):
        command("optimize", *argv, "--dynamic", "batch=1..4", "--parts")

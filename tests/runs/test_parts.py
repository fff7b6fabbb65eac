"""Models by parts: which submodules become parts, that each part is a problem, and how they are assembled."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.runs import shipped_samples as samples
from tests.runs.commands import call
from tests.runs.test_shipping import run_python

from triton_agent.memory.store import Store
from triton_agent.runs.optimize.request import OptimizeRequest
from triton_agent.runs.optimize.whole_model import FOR_PARTS, share_of
from triton_agent.runs.parts import choosing, part_problem, survey
from triton_agent.runs.parts.assembler import next_sets
from triton_agent.runs.parts.assembly import Placed, assemble
from triton_agent.runs.parts.choosing import PartPlan
from triton_agent.runs.parts.drawing import Indescribable, case, expression
from triton_agent.runs.ship import call_form
from triton_agent.runs.ship.artefact import ship
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.ranking import Standing
from triton_agent.tools.reference.reference import load
from triton_agent.tools.results import Interval

ROOT = Path(__file__).resolve().parents[2]
MIXER = ROOT / "examples" / "mixer.py"

MODEL = '''
from dataclasses import dataclass

import torch
from torch import nn

GAIN = 3.0


class Step(nn.Module):
    def __init__(self, width, *, shift):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.shift = shift

    def forward(self, x, scale=1.0, bias=0.0):
        return torch.tanh(x * self.weight + self.shift) * GAIN * scale + bias


@dataclass
class Config:
    over: int = 1


class Pool(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config

    def forward(self, x, keep=True):
        return x.exp().mean(self.config.over, keepdim=keep)


class Given(nn.Module):
    """Its constructor is given what cannot be written down."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) * 2.0 + 1.0


class Model(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.steps = nn.ModuleList(Step(width, shift=0.5) for _ in range(depth))
        self.given = Given(nn.Linear(width, width))
        self.pool = Pool(Config())

    def forward(self, x):
        for step in self.steps:
            x = step(x, bias=0.25)
        return self.pool(self.given(x).transpose(1, 2), keep=False)


def get_inputs():
    return [torch.randn(2, 6, 6)]


def get_init_inputs():
    return [6, 3]
'''

STEP = '''
"""In torch, so that it can be told from the reference without a GPU."""
import torch
from torch import nn

SEEN = []


class Step(nn.Module):
    """Of the same name as the reference's."""


class PoolKernels:
    """Of the name that another part's class is given."""


class ModelNew(nn.Module):
    def __init__(self, width, shift):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.shift = shift

    def forward(self, x, scale, bias):
        SEEN.append("step")
        return 3.0 * scale * torch.tanh(x * self.weight + self.shift) + bias
'''

POOL = """
import torch

SEEN = []


class ModelNew(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.over = config.over

    def forward(self, x, keep):
        SEEN.append("pool")
        return x.exp().sum(self.over, keepdim=keep) / x.shape[1]
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ProblemSpec:
    path = tmp_path_factory.mktemp("model") / "model.py"
    path.write_text(MODEL)
    return parse_problem(str(path))


@pytest.fixture(scope="module")
def surveyed(spec: ProblemSpec) -> survey.ModelSurvey:
    return survey.take(spec, device="cpu")


@pytest.fixture(scope="module")
def plans(surveyed: survey.ModelSurvey) -> dict[str, PartPlan]:
    return {plan.name: plan for plan in choosing.choose(surveyed)}


def test_modules_that_are_alike_are_one_part_and_the_hottest_comes_first(plans: dict[str, PartPlan]) -> None:
    assert list(plans) == ["step", "pool"]
    assert plans["step"].paths == ("steps.0", "steps.1", "steps.2")
    assert 1 > plans["step"].share > plans["pool"].share > 0


def test_what_cannot_be_made_again_is_no_part_and_the_reason_is_said(surveyed: survey.ModelSurvey) -> None:
    (given,) = (module for module in surveyed.submodules if module.path == "given")
    assert "arguments cannot be written down" in given.why_not
    assert any(line.startswith("Given: ") for line in choosing.refusals(surveyed))


def test_a_survey_and_its_parts_survive_json(surveyed: survey.ModelSurvey, plans: dict[str, PartPlan]) -> None:
    assert survey.ModelSurvey.from_json(json.loads(json.dumps(surveyed.to_json()))) == surveyed
    for plan in plans.values():
        assert PartPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_a_part_lies_in_no_other_part() -> None:
    def module(path: str, operators: int, alike: str) -> survey.Submodule:
        name = path.rpartition(".")[2].capitalize() or "Whole"
        return survey.Submodule(
            path=path,
            class_name=name,
            file="m.py",
            calls=1,
            operators=operators,
            cost_ms=float(operators),
            moved_bytes=1,
            floor_bytes=1,
            alike=alike,
            init="((), {})",
        )

    large = choosing.OPERATORS_AT_MOST + 20
    found = survey.ModelSurvey(
        measured=False,
        submodules=(
            module("", large + 30, "whole"),
            module("body", large, "body"),
            module("body.attention", 20, "attention"),
            module("body.attention.norm", 6, "norm"),
            module("body.point", 1, "point"),
            module("norm", 6, "norm"),
        ),
    )
    assert {plan.paths for plan in choosing.choose(found)} == {("body.attention",), ("norm",)}


def test_a_part_is_a_problem_that_gives_what_the_module_gives(
    spec: ProblemSpec, plans: dict[str, PartPlan], tmp_path: Path
) -> None:
    path = tmp_path / "pool.py"
    path.write_text(part_problem.write(spec, plans["pool"]))
    part = load(parse_problem(str(path)))
    (x, keep) = part.make_inputs(0)
    assert x.shape == (2, 6, 6) and x.stride() == (36, 1, 6) and keep is False
    torch.testing.assert_close(part.make_model(0)(x, keep), x.exp().mean(1))
    path.write_text(part_problem.write(spec, plans["step"]))
    model = load(parse_problem(str(path))).make_model(0)
    assert model.shift == 0.5 and list(model.state_dict()) == ["weight"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(3, 4, dtype=torch.float16),
        lambda: torch.randn(5, 6, 7).transpose(0, 2),
        lambda: torch.rand(4, 4) * 100,
        lambda: torch.randn(64) * 0.01 + 5,
        lambda: torch.full((4, 4), -math.inf).triu(1),
        lambda: torch.ones(1, 5, 5, dtype=torch.bool).tril(),
        lambda: torch.arange(9),
        lambda: torch.randint(3, 8, (4, 2), dtype=torch.int32),
        lambda: torch.zeros(3),
        lambda: torch.tensor(2.5),
    ],
)
def test_an_input_is_drawn_in_the_form_it_was_seen_in(make: Callable[[], torch.Tensor]) -> None:
    torch.manual_seed(0)
    seen = make()
    drawn = eval(expression(seen), {"torch": torch, "float": float})
    assert (drawn.shape, drawn.dtype, drawn.stride()) == (seen.shape, seen.dtype, seen.stride())
    assert case(drawn) == case(seen)
    if seen.dtype is torch.bool or not seen.isfinite().all():
        assert torch.equal(drawn, seen)
    else:
        assert drawn.min() >= min(0, seen.min() * 4) and drawn.float().mean() <= max(1, seen.float().mean() * 2)


@pytest.mark.parametrize(
    "tensor", [torch.rand(4, 4) > 0.5, torch.randn(4, 1).expand(4, 4), torch.randn(8)[::2], torch.full((2,), math.nan)]
)
def test_an_input_whose_values_matter_is_refused_rather_than_made_up(tensor: torch.Tensor) -> None:
    tensor = torch.stack([tensor, tensor])[0] if tensor.dtype is torch.bool else tensor
    with pytest.raises(Indescribable):
        expression(tensor)


CHECKS = """
import copy, torch, torch.nn as nn
import model, {file} as made
torch.manual_seed(0)
original = model.Model(6, 3)
new = made.ModelNew(6, 3)
{prepare}
assert list(new.state_dict()) == list(original.state_dict())
new.load_state_dict(original.state_dict())
steps, pools = made.{step_calls}, made.{pool_calls}
with torch.no_grad():
    x = torch.randn(2, 6, 6)
    torch.testing.assert_close(new(x), original(x))
    assert (len(steps), len(pools)) == (3, 1), (steps, pools)
    new.load_state_dict({{name: value * 2 for name, value in original.state_dict().items()}})
    original.load_state_dict(new.state_dict())
    torch.testing.assert_close(new(x), original(x))
    assert (len(steps), len(pools)) == (6, 2)
    {more}
"""


def test_parts_stand_in_the_place_of_modules_and_the_original_where_they_do_not_fit(
    spec: ProblemSpec, plans: dict[str, PartPlan], tmp_path: Path
) -> None:
    """Calls with another dtype, and parts of other sizes, use the replaced modules with the parts' tensors."""
    text = assemble(spec, [Placed(part=plans["step"], source=STEP), Placed(part=plans["pool"], source=POOL)])
    (tmp_path / "whole.py").write_text(text)
    (tmp_path / "model.py").write_text(MODEL)
    more = "y = x.double(); new, original = new.double(), original.double()\n"
    more += "    torch.testing.assert_close(new(y), original(y)); assert (len(steps), len(pools)) == (6, 2)\n"
    more += "    other = made.ModelNew(5, 1); assert len(other.state_dict()) == 3"
    calls = {"step_calls": "SEEN", "pool_calls": "pool_SEEN"}
    run_python(tmp_path, CHECKS.format(file="whole", prepare="", more=more, **calls))


@pytest.mark.ci
@pytest.mark.slow
def test_a_shipped_whole_holds_the_original_once_and_guards_it(
    spec: ProblemSpec, plans: dict[str, PartPlan], tmp_path: Path
) -> None:
    source = assemble(spec, [Placed(part=plans["step"], source=STEP), Placed(part=plans["pool"], source=POOL)])
    source += "\n\ndef plan_for(training, *args):\n    return None\n"  # no call is known
    text = ship(spec, source, samples.facts(spec, form=call_form.find(spec)), draft=True)
    assert text.count("class Given(nn.Module):") == 1 and text.count("class OriginalModel(") == 1
    (tmp_path / "shipped.py").write_text(text)
    (tmp_path / "model.py").write_text(MODEL)
    more = "z = torch.randn(3, 6, 6).double(); twin = copy.deepcopy(new).double()\n"
    more += "    torch.testing.assert_close(twin(z), copy.deepcopy(original).double()(z))\n"
    more += "    new.use_kernels = 'never'; torch.testing.assert_close(new(x), original(x))\n"
    more += "    assert (len(steps), len(pools)) == (0, 0)"  # none of these calls is a verified one
    calls = {"step_calls": "SEEN", "pool_calls": "pool_SEEN"}
    unused = CHECKS.replace("(3, 1)", "(0, 0)").replace("(6, 2)", "(0, 0)")
    run_python(tmp_path, unused.format(file="shipped", prepare="new.use_kernels = 'always'", more=more, **calls))


def test_a_candidate_that_takes_the_originals_name_is_not_taken_for_it(spec: ProblemSpec) -> None:
    classes = ("class OriginalModel(torch.nn.Module):", "class ModelNew(OriginalModel):")
    evil = "import torch\n" + "".join(f"\n\n{line}\n    pass\n" for line in classes)
    text = ship(spec, evil, samples.facts(spec, form=samples.UNKNOWN), draft=True)
    assert text.count("\nclass OriginalModel(") == 1 and "class kernels_OriginalModel(torch.nn.Module)" in text


def test_parts_are_taken_out_one_by_one_until_none_that_hinders_is_left() -> None:
    everything, names = frozenset("abc"), list("abc")
    assert next(next_sets(names, {})) == everything
    tried = {everything: _known(1.1)}
    assert list(next_sets(names, tried)) == [frozenset("ab"), frozenset("ac"), frozenset("bc")]
    tried |= {frozenset("ab"): _known(1.5), frozenset("ac"): _known(1.0), frozenset("bc"): _known(1.1)}
    assert list(next_sets(names, tried)) == [frozenset("a"), frozenset("b")]
    tried |= {frozenset("a"): _known(1.2), frozenset("b"): _known(1.2)}
    assert list(next_sets(names, tried)) == []


def test_without_a_clock_the_widest_set_that_passes_is_the_answer() -> None:
    everything, failed = frozenset("ab"), Standing(passed=False, speedup=None)
    assert list(next_sets("ab", {everything: Standing(passed=True, speedup=None)})) == []
    assert list(next_sets("ab", {everything: failed}))[:2] == [frozenset("a"), frozenset("b")]


def test_the_hottest_part_gets_the_most_and_what_is_left_over_goes_to_the_next(plans: dict[str, PartPlan]) -> None:
    step, pool = plans["step"], plans["pool"]
    asked = OptimizeRequest(problem="m.py", init="1", parts=True, turns=10, seconds=1000.0, max_tokens=1000)
    first = share_of(asked, [step, pool], [step, pool], time.monotonic())
    last = share_of(asked, [pool], [step, pool], time.monotonic() - 100)
    assert first.turns == 10 > last.turns >= 1 and first.init is None and not first.parts
    assert first.seconds is not None and last.seconds is not None
    assert first.seconds < FOR_PARTS * 1000 and last.seconds == pytest.approx(FOR_PARTS * 1000 - 100, abs=5)
    assert first.max_tokens is not None and last.max_tokens is not None
    assert 1000 >= first.max_tokens + last.max_tokens > 990


def test_parts_are_suggested_for_large_models_only() -> None:
    work, idle = {"operator": "aten.gelu"}, {"operator": "aten.view"}
    assert "--parts" in choosing.suggestion([{"nodes": [work, idle] * choosing.WORTH_PARTS}])
    assert choosing.suggestion([{"nodes": [work] * 5 + [idle] * choosing.WORTH_PARTS}]) == ""


def _known(speedup: float) -> Standing:
    return Standing(passed=True, speedup=Interval(median=speedup, low=speedup - 0.01, high=speedup + 0.01))


def test_a_model_without_parts_says_why(tmp_path: Path) -> None:
    path = tmp_path / "flat.py"
    path.write_text(MODEL.replace("class Model(", "class Whole(").replace("class Step(", "class Model(", 1))
    path.write_text(path.read_text().replace("return [6, 3]", 'return [[6], {"shift": 1.0}]'))
    with pytest.raises(UsageError, match="no submodule can be optimized on its own"):
        call("optimize", str(path), "--parts", "--store", str(tmp_path / "db"))
    with pytest.raises(UsageError, match="own-kernels"):
        call("optimize", str(path), "--parts", "--own-kernels", "--store", str(tmp_path / "db"))


@pytest.mark.slow
def test_a_whole_model_becomes_a_draft_by_parts(tmp_path: Path) -> None:
    """The draft passes `evaluate`, its parts' runs are linked to the whole run, and it moves fewer bytes."""
    out, store = tmp_path / "out", tmp_path / "db"
    command = [
        sys.executable,
        "-m",
        "triton_agent",
        "optimize",
        str(MIXER),
        "--parts",
        "--turns",
        "1",
        "--parallel",
        "1",
    ]
    command += ["--timeout", "400", "--out", str(out), "--store", str(store), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    judged = [sys.executable, "-m", "triton_agent", "evaluate", str(MIXER), outcome["file"], "--allow-library"]
    verdict = subprocess.run([*judged, "--timeout", "400"], capture_output=True, text=True, timeout=900)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr
    with Store.open(store) as opened:
        whole = opened.run(outcome["run"])
        begun = {event.data["name"]: event.data["run"] for event in opened.events(whole.id) if event.kind == "part"}
        assert set(begun) == {"layer", "head", "stem"}
        assert all(opened.run(run).settings["part_of"] == whole.id for run in begun.values())
    assert {path.name for path in (out / "parts").iterdir()} == {"layer.py", "head.py", "stem.py"}
    moved = outcome["parts"]
    assert moved["kernels_bytes"] < moved["original_bytes"]

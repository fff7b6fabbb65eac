"""Several sets of inputs: valid requests, the shipped file, and what is reported for each set."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tests.agent.tables import passed, refused
from tests.runs import reported_run
from tests.runs import shipped_samples as samples
from tests.runs.commands import call
from tests.runs.pages import Outline
from torch import nn

import triton_agent
from triton_agent.memory.observation import ProblemView
from triton_agent.runs.cli.given_calls import calls_from
from triton_agent.runs.evaluate import speed_page
from triton_agent.runs.history.stored_problem import restored
from triton_agent.runs.live.example_calls import calls_of
from triton_agent.runs.optimize.request import OptimizeRequest
from triton_agent.runs.report.page import render_report
from triton_agent.runs.report.view import RunView
from triton_agent.runs.ship.admission import admit, faster_at, over_all_sets, shipped_sets
from triton_agent.runs.ship.artefact import ship
from triton_agent.runs.ship.call_form import joined
from triton_agent.runs.ship.facts import Call, CallForm, Gpu, TensorForm
from triton_agent.tools.errors import NotJudgeableHere, UsageError
from triton_agent.tools.evaluate.merged_sets import passed_at_all
from triton_agent.tools.problem.input_spec import parse_sets
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.ranking import standing
from triton_agent.tools.results import Evaluation, Status

NORM = """
import torch
from torch import nn
class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width))
    def forward(self, x):
        return x * self.weight
"""
KERNEL = """
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
        self.weight = nn.Parameter(torch.rand(width))
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        scale[(triton.cdiv(x.numel(), 64),)](x, self.weight, y, x.numel(), x.shape[-1], BLOCK=64)
        return y
"""
SETS = ("f32[8,24]@3", "one=f32[1,24]", "f32[40,24]")


@pytest.fixture
def spec(tmp_path: Path) -> ProblemSpec:
    (tmp_path / "norm.py").write_text(NORM)
    return parse_problem(f"{tmp_path / 'norm.py'}:Norm", init="24", sets=parse_sets(SETS))


def timed(spec: ProblemSpec, *speedups: float | None) -> Evaluation:
    """Return an evaluation with these speed-ups, one for each set; None for a set that is not judged."""
    pairs = [(one, passed("", speed)) for one, speed in zip(spec.sets, speedups) if speed is not None]
    return passed_at_all(pairs, spec.digest)


def forms_of(spec: ProblemSpec) -> dict[str, CallForm]:
    return {
        one.name: dataclasses.replace(samples.UNKNOWN, calls=(_call(one.inputs[0].value.shape),)) for one in spec.sets
    }


def _call(shape: tuple[int, ...]) -> Call:
    return Call(train=False, arguments=(TensorForm(shape=shape, dtype="float32", strides=(shape[1], 1)),))


# -- what is shipped ---------------------------------------------------------------------------------------------------


class Measured:
    """Replaces the measurement of a file that admits given sets, guard included."""

    def __init__(self, spec: ProblemSpec, *rounds: dict[str, float]) -> None:
        self.spec = spec
        self.rounds = list(rounds)
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, text: str, names: Sequence[str]) -> Evaluation:
        assert text == f"lets in {', '.join(names)}"
        self.asked.append(tuple(names))
        speeds = self.rounds.pop(0)
        assert speeds.keys() == set(names)
        return timed(self.spec, *(speeds.get(one.name) for one in self.spec.sets))


def lets_in(names: Sequence[str]) -> str:
    return f"lets in {', '.join(names)}"


def test_kernels_run_where_the_very_file_was_measured_faster(spec: ProblemSpec) -> None:
    """The guard costs the gain at one set, so the file without that set is measured again."""
    forms, kernels = forms_of(spec), timed(spec, 1.8, 0.7, 1.1)
    start = faster_at(standing(kernels), forms)
    assert start == ("f32[8,24]", "f32[40,24]")
    clock = Measured(spec, {"f32[8,24]": 1.7, "f32[40,24]": 1.01}, {"f32[8,24]": 1.6})
    names, evaluation = admit(start, forms, lets_in, clock)
    assert names == ("f32[8,24]",) and clock.asked == [start, names]
    assert evaluation is not None
    whole = standing(over_all_sets(spec, evaluation, kernels))
    assert whole.speedup is not None and whole.speedup.median == pytest.approx(1.6 ** (3 / 5))
    assert whole.worst is not None and whole.worst.speedup.median == 1.0
    assert whole.faster_than_reference


def test_where_no_set_is_faster_with_the_guard_none_is_let_in(spec: ProblemSpec) -> None:
    clock = Measured(spec, {"one": 1.0})
    names, evaluation = admit(("one",), forms_of(spec), lets_in, clock)
    assert names == () and evaluation is not None and evaluation.status is Status.PASSED


def test_a_file_that_fails_at_a_set_is_not_measured_further(spec: ProblemSpec) -> None:
    names, evaluation = admit(("one",), forms_of(spec), lets_in, lambda text, names: refused(""))
    assert names == ("one",) and evaluation is not None and evaluation.status is Status.WRONG_VALUES


def test_sets_that_a_guard_cannot_tell_apart_are_let_in_together_or_not_at_all(spec: ProblemSpec) -> None:
    forms = forms_of(spec)
    alike = {**forms, "one": forms["f32[8,24]"]}
    assert faster_at(standing(timed(spec, 1.8, 0.7, 1.5)), alike) == ("f32[40,24]",)
    assert faster_at(standing(timed(spec, 1.8, 1.3, 0.9)), alike) == ("f32[8,24]", "one")


def test_the_header_tells_of_every_set(spec: ProblemSpec) -> None:
    forms, kernels = forms_of(spec), timed(spec, 1.8, 0.7, 1.5)
    admitted = ("f32[8,24]", "f32[40,24]")
    measured = over_all_sets(spec, timed(spec, 1.7, None, 1.4), kernels)
    facts = samples.facts(
        spec,
        measured,
        form=joined([forms[name] for name in admitted]),
        sets=shipped_sets(spec, forms, admitted, measured, kernels),
        gpu=Gpu(name="A card", capability=(9, 0)),
    )
    text = ship(spec, KERNEL, facts, draft=False)
    header, _, _ = text.partition('"""\n\nimport')
    said = " ".join(header.split())
    assert "f32[8,24] (weight 3): float32[8, 24] device time: 1.70x" in said
    assert (
        "one (weight 1): float32[1, 24] the reference runs here; the kernels alone were 0.70x [0.69, 0.71] in device"
        in said
    )
    assert "The least gain: 1.00x [1.00, 1.00] at one" in said
    assert f"device time: {1.7**0.6 * 1.4**0.2:.2f}x as fast as eager" in said


# -- what is asked for -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["optimize", "evaluate"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--set", "f32[8,24]", "--set", "f32[8,24]; f32[24]"), "sets of 1 and of 2 arguments"),
        (("--set", "f32[8,24]@0"), "weight 0"),
        (("--set", "f32[8,24]", "--set", "f32[9,24]@-1"), "weight -1"),
        (("--set", "f32(8,24)"), "no such file of inputs, and no inputs"),
        (("--set", "f32[8,24]", "--input", "f32[9,24]"), "--input gives the arguments of one call"),
        (("--inputs", "a.pt", "--inputs", "b.pt@2"), "no such file of inputs"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(spec: ProblemSpec, command: str, options: tuple, said: str) -> None:
    kernel = Path(spec.path).with_name("kernel.py")
    kernel.write_text(KERNEL)
    files = [str(kernel)] * (command == "evaluate")
    with pytest.raises(UsageError) as caught:
        call(command, f"{spec.path}:Norm", *files, "--init", "24", *options)
    assert said in caught.value.what and caught.value.remedy


def test_parts_and_sets_exclude_each_other(spec: ProblemSpec) -> None:
    request = OptimizeRequest(problem=f"{spec.path}:Norm", init="24", sets=spec.sets, parts=True)
    with pytest.raises(UsageError, match="--parts needs a single call"):
        request.spec()


def test_inputs_given_twice_are_sets_and_once_one_call(tmp_path: Path) -> None:
    for name in ("day.pt", "night.pt"):
        (tmp_path / name).write_bytes(b"")
    day, night = str(tmp_path / "day.pt"), str(tmp_path / "night.pt")
    assert calls_from(None, [day], None).inputs_file == day
    both = calls_from(None, [day, f"{night}@2"], None)
    assert [(one.name, one.weight) for one in both.sets] == [("day", 1.0), ("night", 2.0)] and not both.inputs_file
    mixed = calls_from(None, [day], ["f32[8]"])
    assert [one.name for one in mixed.sets] == ["f32[8]", "day"]


def test_a_request_with_sets_is_read_back_from_its_run(spec: ProblemSpec) -> None:
    request = OptimizeRequest(problem=f"{spec.path}:Norm", init="24", sets=spec.sets)
    again = OptimizeRequest.from_json(json.loads(json.dumps(request.to_json())))
    assert again == request and again.spec() == spec


def test_a_stored_problem_comes_back_with_its_sets(spec: ProblemSpec, tmp_path: Path) -> None:
    view = ProblemView(digest=spec.digest, name="Norm", spec=spec.to_json(), source=NORM, fingerprint="")
    assert restored(view, tmp_path / "unused") == spec
    Path(spec.path).unlink()
    again = restored(view, tmp_path / "elsewhere")
    assert (again.digest, again.sets) == (spec.digest, spec.sets)


def test_a_problem_whose_saved_sets_are_gone_or_changed_is_not_taken_for_the_same(tmp_path: Path) -> None:
    (tmp_path / "norm.py").write_text(NORM)
    for name in ("day.pt", "night.pt"):
        (tmp_path / name).write_bytes(name.encode())
    texts = [str(tmp_path / "day.pt"), str(tmp_path / "night.pt")]
    spec = parse_problem(f"{tmp_path / 'norm.py'}:Norm", init="24", sets=parse_sets(texts))
    view = ProblemView(digest=spec.digest, name="Norm", spec=spec.to_json(), source=NORM, fingerprint="")
    assert restored(view, tmp_path / "unused") == spec
    for spoil in (lambda: (tmp_path / "night.pt").write_bytes(b"other"), (tmp_path / "night.pt").unlink):
        spoil()
        with pytest.raises(NotJudgeableHere, match="not the whole problem"):
            restored(view, tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"example_sets": [torch.rand(2)], "weights": [1, 2]}, "2 weights for 1 sets"),
        ({"example_sets": [torch.rand(2), torch.rand(3)], "weights": [1, 0]}, "weight 0"),
        ({"example_sets": [torch.rand(2), torch.rand(3)], "weights": [1, "2"]}, "weight '2'"),
        ({"example_sets": {"a": torch.rand(2)}, "weights": {"b": 1}}, "weights of b, sets a"),
        ({"example_sets": [(torch.rand(2),), (torch.rand(2), 1)]}, "sets of 1 and of 2 arguments"),
        ({"example_sets": []}, "0 sets"),
        ({"example_sets": torch.rand(2)}, "example_sets is a Tensor"),
        ({"example_inputs": torch.rand(2), "example_sets": [torch.rand(2)]}, "were both given"),
        ({"example_inputs": torch.rand(2), "weights": [1]}, "weights without example_sets"),
    ],
)
def test_wrong_sets_in_python_are_told_before_anything_begins(given: dict, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        triton_agent.optimize(nn.ReLU(), progress=False, **given)
    assert said in caught.value.what and caught.value.remedy


def test_sets_in_python_are_named_after_their_shapes() -> None:
    found = calls_of(nn.ReLU(), None, None, [torch.rand(2, 3), torch.rand(2, 3), torch.ones(4).half()], [1, 2, 3])
    assert [(one.name, one.weight) for one in found] == [("f32[2,3]", 1.0), ("f32[2,3] #2", 2.0), ("f16[4]", 3.0)]


# -- what is said ------------------------------------------------------------------------------------------------------


def test_the_report_shows_every_set_and_names_the_worst(spec: ProblemSpec) -> None:
    history = reported_run.history()
    view = dataclasses.replace(history.run.problem, spec=spec.to_json())
    history = dataclasses.replace(history, run=dataclasses.replace(history.run, problem=view))
    page = Outline(render_report(RunView(history=history, shipped=timed(spec, 1.8, 0.7, 1.5))))
    assert not page.open
    assert "over all sets of inputs" in page.text and "The least gain is 0.70x [0.69, 0.71], at one." in page.text
    assert "f32[8,24] (weight 3); one: f32[1,24]; f32[40,24]" in page.text
    assert "By set of inputs" in page.text


def test_evaluate_tells_every_set_and_the_least_gain(spec: ProblemSpec) -> None:
    said = speed_page.lines(timed(spec, 1.8, 0.7, 1.5))
    assert [line.partition(", ")[0] for line in said if line.endswith("]")][::2] == [
        "all sets",
        "f32[8,24] (weight 3)",
        "one (weight 1)",
        "f32[40,24] (weight 1)",
    ]
    assert "the least gain: 0.70x at one" in said


@pytest.mark.slow
def test_from_sets_to_a_draft_that_is_right_at_each(spec: ProblemSpec, tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "right.py").write_text(KERNEL)
    problem = (f"{spec.path}:Norm", "--init", "24")
    sets = [part for text in SETS for part in ("--set", text)]
    where = ("--out", str(tmp_path / "out"), "--store", str(tmp_path / "db"), "--json")
    events = _run("optimize", *problem, *sets, "--policy", f"scripted:{folder}", "--turns", "1", *where)
    outcome = events[-1]
    assert outcome["draft"] is True and outcome["worst"] is None
    draft = outcome["file"]
    (verdict,) = _run("evaluate", *problem, draft, *sets, "--target", "none", "--json")
    assert verdict["status"] == "passed" and "one: as given" in verdict["problem"]["variants"]
    again = _run("optimize", "--resume", outcome["run"], *where)
    assert again[-1]["run"] == outcome["run"] and Path(again[-1]["file"]).read_text() == Path(draft).read_text()
    (judged,) = _run("replay", outcome["run"], "--verify", "--store", str(tmp_path / "db"), "--json")
    assert judged["agree"] is True
    assert "one: f32[1,24]" in Outline(Path(outcome["report"]).read_text()).text


def _run(*arguments: str) -> list[dict]:
    command = [sys.executable, "-m", "triton_agent", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_module_in_memory_is_optimized_at_several_calls(tmp_path: Path) -> None:
    from triton_agent.policy.answer import write_answer
    from triton_agent.policy.scripted import Scripted

    module = nn.Softplus()
    kernel = KERNEL.replace("* tl.load(weight + at % width, mask=inside)", "").replace(
        "tl.load(x + at, mask=inside)", "softplus(tl.load(x + at, mask=inside))"
    )
    softplus = "return tl.where(x > 20, x, libdevice.log1p(tl.exp(x)))"
    kernel = kernel.replace(
        "@triton.jit",
        f"from triton.language.extra import libdevice\n@triton.jit\ndef softplus(x):\n    {softplus}\n@triton.jit",
    )
    kernel = kernel.replace("self, width", "self").replace("self.weight = nn.Parameter(torch.rand(width))", "pass")
    kernel = kernel.replace("x, self.weight, y", "x, x, y")
    fast = triton_agent.optimize(
        module,
        example_sets={"one": torch.rand(1, 8), "many": torch.rand(64, 8)},
        weights={"one": 1, "many": 3},
        policy=Scripted([write_answer("a plan", kernel)]),
        device="cpu",
        turns=1,
        out=tmp_path / "out",
        store=tmp_path / "db",
        progress=False,
    )
    told = triton_agent.outcome_of(fast)
    assert told is not None and told.draft, told
    assert told.file is not None and "one (weight 1): float32[1, 8]" in told.file.read_text()
    x = torch.rand(64, 8)
    torch.testing.assert_close(fast(x), module(x))
    sets = {"one": torch.rand(1, 8), "many": torch.rand(64, 8)}
    verdict = triton_agent.evaluate(module, told.file, example_sets=sets, device="cpu", target=None)
    assert verdict.status is Status.PASSED
    assert {case.variant.partition(": ")[0] for case in verdict.accuracy} == {"one", "many"}

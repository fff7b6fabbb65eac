"""Auditing a problem finds its blind spots; remedies close them where they can, and sound problems stay sound."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from triton_agent.tools.audit.audit import audit
from triton_agent.tools.audit.mistakes import TF32, coarser_than
from triton_agent.tools.audit.mutants import Mutant, Mutation, Observer, spread
from triton_agent.tools.audit.report import MUTANT_BAR, AuditReport, Family, WrongAnswer, kill_rate
from triton_agent.tools.cases.versions import off_the_diagonal
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.codec import from_plain, to_plain
from triton_agent.tools.processes.protocol import Audited

KERNELS = Path(__file__).parents[1] / "kernels"
HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\nR, C = 12, 20\n"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread, as the checker does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def problem(folder: Path, forward: str, inputs: str = "[torch.randn(R, C)]", init: str = "") -> AuditReport:
    """Audit a problem whose forward has this text."""
    lines = "\n".join(f"        {line}" for line in forward.splitlines())
    made = f"    def __init__(self):\n        super().__init__()\n        {init}\n" if init else ""
    text = f"{HEAD}class Model(nn.Module):\n{made}    def forward(self, x, y=None):\n{lines}\n"
    return audit_text(folder, f"{text}def get_inputs():\n    return {inputs}\n")


def audit_text(folder: Path, text: str) -> AuditReport:
    path = folder / "problem.py"
    path.write_text(text)
    return audit(parse_problem(str(path)))


def answer(report: AuditReport, what: str) -> WrongAnswer:
    return next(a for a in report.answers if a.what == what)


def mutants_of(model: torch.nn.Module, *inputs: torch.Tensor) -> list[Mutant]:
    observer = Observer(coarser_than([torch.float32]))
    with torch.no_grad(), observer:
        output = model(*inputs)
    return observer.mutants([output])


class Calls(torch.nn.Module):
    """A module that calls a function."""

    def __init__(self, function: object) -> None:
        super().__init__()
        self.forward = function


# -- what is worth nothing ---------------------------------------------------------------------------------------------


def test_constant_answer_is_worthless_in_spite_of_remedies(tmp_path: Path) -> None:
    forward = "x = x.amax(dim=1, keepdim=True)\nreturn x - x.mean(dim=1, keepdim=True)"
    report = problem(tmp_path, forward)
    zeros = answer(report, "all zeros")
    assert zeros.survives and zeros.survives_as_given
    assert "all zeros passes: the answer is zero whatever the inputs" in report.flaws
    rate = kill_rate(report.mutants)
    assert rate is not None and rate < MUTANT_BAR
    assert not report.sound


def test_inputs_that_never_change_are_found(tmp_path: Path) -> None:
    report = problem(tmp_path, "return x * 3", "[torch.arange(R * C).view(R, C) ** 2]")
    assert answer(report, "the answer to other inputs").survives
    assert not report.sound


def test_copy_of_an_input_is_found(tmp_path: Path) -> None:
    report = problem(tmp_path, "return x.clone()")
    assert answer(report, "input 0 returned as it is").survives


def test_the_changed_element_is_never_where_rows_and_columns_meet() -> None:
    generator = torch.Generator().manual_seed(0)
    places = [off_the_diagonal((3, 4, 5), generator) for _ in range(200)]
    assert all(len(set(place)) == 3 for place in places)
    assert {last for *_, last in places} == {0, 1, 2, 3, 4}
    assert off_the_diagonal((1, 1, 2), generator) == (0, 0, 1)


def test_axis_that_expanded_inputs_cannot_tell_takes_one_changed_element(tmp_path: Path) -> None:
    report = problem(tmp_path, "return x.mean(dim=1)", "[torch.randn(1, 1).expand(C, C)]")
    other = answer(report, "mean over dimension 0 instead of 1")
    assert other.survives_as_given and not other.survives
    assert other.killed_by == "inputs one element changed"


def test_one_output_of_several_that_is_always_zero_is_named(tmp_path: Path) -> None:
    report = problem(tmp_path, "return x * 2, torch.relu(x) * torch.relu(-x)")
    assert not answer(report, "out[0] all zeros").survives
    zero = answer(report, "out[1] all zeros")
    assert zero.survives and zero in report.blind_spots


def test_small_values_behind_large_ones_are_named(tmp_path: Path) -> None:
    inputs = "[torch.randn(R, C).half() / 64, torch.rand(R, C) < 0.5]"
    report = problem(tmp_path, "return x.masked_fill(y, -60000.0)", inputs)
    assert answer(report, "zero for all below 0.001 of the largest value").survives


# -- what the remedies close -------------------------------------------------------------------------------------------


def test_relu_of_positive_numbers_needs_remedies(tmp_path: Path) -> None:
    report = problem(tmp_path, "return torch.relu(x) * 2", "[torch.rand(R, C)]")
    relu = answer(report, "dropping relu")
    assert relu.survives_as_given and not relu.survives
    assert relu.killed_by == "inputs one element changed"
    assert report.sound


def test_affine_defaults_of_a_norm_need_remedies(tmp_path: Path) -> None:
    report = problem(tmp_path, "return self.norm(x)", init="self.norm = nn.LayerNorm(C)")
    for name in ("weight", "bias"):
        dropped = answer(report, f"dropping the {name} of native_layer_norm")
        assert dropped.survives_as_given and not dropped.survives
        assert dropped.killed_by == "randomised parameters"
    assert report.sound


def test_axis_among_equal_numbers_needs_remedies(tmp_path: Path) -> None:
    report = problem(tmp_path, "return x.mean(dim=1)", "[torch.randn(1, 1).repeat(C, C)]")
    other = answer(report, "mean over dimension 0 instead of 1")
    assert other.survives_as_given and not other.survives


def test_square_operand_needs_other_sizes_or_values(tmp_path: Path) -> None:
    report = problem(tmp_path, "return x @ y", "[torch.randn(R, C), torch.eye(C) * torch.rand(1)]")
    transposed = answer(report, "transposing the square mat2 of mm")
    assert transposed.survives_as_given and not transposed.survives


# -- what is sound -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax_f32", "linear_relu_f32", "layer_norm_f32", "conv2d_f32", "matmul_f16"])
def test_sound_problems_pass(name: str) -> None:
    report = audit(parse_problem(str(KERNELS / name / "problem.py")))
    assert report.sound, report.flaws
    assert kill_rate(report.fakes) == 1.0
    assert len(report.mutants) >= 3


def test_equivalent_mutant_is_listed_and_not_held_against_a_problem(tmp_path: Path) -> None:
    report = problem(tmp_path, "return torch.sqrt(x.abs().relu() + 1) * 3")
    relu = answer(report, "dropping relu")
    assert relu.survives and relu.inert and "no mistake" in relu.sentence
    assert relu in report.blind_spots
    assert report.sound


# -- how mutants are made ----------------------------------------------------------------------------------------------


def test_operators_that_nothing_depends_on_are_left_alone() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        torch.exp(x).sum()
        return torch.tanh(x)

    assert {mutant.place[0] for mutant in mutants_of(Calls(forward), torch.randn(4, 5))} == {"tanh"}


def test_steps_that_do_nothing_are_not_dropped() -> None:
    found = mutants_of(Calls(lambda x: torch.tanh((x * 1.0 + 0.0) / 1)), torch.randn(4, 5))
    assert {mutant.place[0] for mutant in found if mutant.family is Family.DROPPED} == {"tanh"}


def test_indices_that_are_thrown_away_are_not_changed() -> None:
    found = mutants_of(Calls(lambda x: torch.max(x, dim=1).values), torch.randn(4, 5))
    assert not any("indices" in mutant.what for mutant in found)


def test_only_the_chosen_call_goes_wrong() -> None:
    model, x = Calls(lambda x: torch.relu(torch.relu(x) - 1)), torch.randn(40)
    second = next(m for m in mutants_of(model, x) if m.what == "dropping relu (call 2)")
    with torch.no_grad(), Mutation(second):
        output = model(x)
    assert torch.equal(output, torch.relu(x) - 1)


def test_mistake_in_an_operator_in_place_is_written_in_place() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:2].mul_(3.0)
        return y

    x = torch.randn(4, 5)
    dropped = next(m for m in mutants_of(Calls(forward), x) if m.what == "dropping mul")
    with torch.no_grad(), Mutation(dropped):
        assert torch.equal(forward(x), x)


def test_mutant_that_never_ends_is_given_up(tmp_path: Path) -> None:
    loop = "while bool(left > 0):\n    left = left + step\n"
    forward = f"left = x.abs().max() * 5\nstep = -x.abs().max()\n{loop}return x + left"
    report = problem(tmp_path, forward)
    assert report.discarded > 0
    assert not any(found.what == "dropping neg" for found in report.answers)


def test_choice_is_the_same_every_time_and_spread_over_kinds() -> None:
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(20)))
    x = torch.randn(4, 8)
    first, second = ([m.what for m in spread(mutants_of(model, x))[:30]] for _ in range(2))
    assert first == second
    families = {mutant.family for mutant in spread(mutants_of(model, x))[:8]}
    assert {Family.DROPPED, Family.SWAPPED, Family.TRUNCATED, Family.PRECISION} <= families


def test_rounding_is_never_finer_than_the_outputs() -> None:
    assert [r.name for r in coarser_than([torch.float32])] == ["TF32", "float16", "bfloat16"]
    assert [r.name for r in coarser_than([torch.float16, torch.float32])] == ["bfloat16"]
    assert coarser_than([torch.bfloat16]) == ()


def test_tf32_keeps_ten_bits() -> None:
    x = torch.tensor([1.0 + 2.0**-10, 1.0 + 2.0**-12, float("inf"), -3.0])
    assert torch.equal(TF32.apply(x), torch.tensor([1.0 + 2.0**-10, 1.0, float("inf"), -3.0]))


# -- problems that judge by themselves ---------------------------------------------------------------------------------

VERIFIER = "def get_inputs():\n    return [torch.randn(R, C)]\ndef verify(inputs, outputs):\n    return "


def test_verifier_that_looks_is_sound(tmp_path: Path) -> None:
    ordered = "(outputs[:, 1:] >= outputs[:, :-1]).all()"
    same = "torch.equal(outputs.sort().values, inputs[0].sort().values)"
    report = audit_text(tmp_path, f"{HEAD}{VERIFIER}bool({ordered} and {same})\n")
    assert report.sound and report.fakes and not report.mutants


def test_verifier_that_looks_at_the_shape_only_is_flagged(tmp_path: Path) -> None:
    report = audit_text(tmp_path, f"{HEAD}{VERIFIER}outputs.shape == inputs[0].shape\n")
    assert answer(report, "zeros shaped like input 0").survives
    assert not report.sound


# -- the verdict -------------------------------------------------------------------------------------------------------


def made(survivors: int, refused: int) -> AuditReport:
    answers = [
        WrongAnswer(
            family=Family.DROPPED,
            what=f"mutant {i}",
            survives_as_given=i < survivors,
            survives=i < survivors,
            killed_by="" if i < survivors else "inputs x3",
        )
        for i in range(survivors + refused)
    ]
    return AuditReport(name="p", digest="d", answers=tuple(answers), cases_as_given=1, cases=9)


@pytest.mark.parametrize(("survivors", "refused", "sound"), [(0, 5, True), (1, 1, True), (2, 8, True), (3, 8, False)])
def test_bar_is_a_share_and_forgives_one(survivors: int, refused: int, sound: bool) -> None:
    assert made(survivors, refused).sound is sound


def test_any_fake_answer_is_too_many() -> None:
    fake = WrongAnswer(family=Family.FAKE, what="all ones", survives_as_given=True, survives=True)
    report = made(0, 50)
    assert not dataclasses.replace(report, answers=(*report.answers, fake)).sound


def test_refusing_the_reference_or_trying_nothing_is_not_sound() -> None:
    assert not dataclasses.replace(made(0, 5), refuses_reference="as given / x3").sound
    assert not made(0, 0).sound


def test_report_survives_the_wire() -> None:
    report = dataclasses.replace(made(1, 2), notes=("a note",), scaled="scaled down")
    assert from_plain(Audited, to_plain(Audited(report=report))).report == report


def test_broken_problem_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProblemError):
        problem(tmp_path, "raise ValueError('no')")

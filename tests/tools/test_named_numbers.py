"""Constants in kernels are found and planted in inputs; positions that they name are tested."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from triton_agent.tools.answers.spot_checks import position_named, programs_to_run
from triton_agent.tools.cases.named_numbers import Numbers, _places, fill_with, groups, magnitudes, numbers_on, plant
from triton_agent.tools.cases.trials import make_trial
from triton_agent.tools.kernels.kernel import JitFunction, KernelSet, Parameter
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.reference.reference import load
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.tape.tape import Choice, Constexpr, Launch, Tape

Given = tuple[tuple[str, int | float | Constexpr], ...]


def numbers_of(body: str, *, given: Given = (), grid: int = 4) -> tuple[Numbers, Tape]:
    tape, kernels = launched(body, given=given, grid=grid)
    return numbers_on(tape, kernels), tape


def launched(body: str, *, given: Given = (), grid: int = 4) -> tuple[Tape, KernelSet]:
    function = JitFunction(
        name="kernel",
        source=f"def kernel(x_ptr, n, BLOCK):\n    {body}\n",
        parameters=tuple(Parameter(name=name) for name in ("x_ptr", "n", "BLOCK")),
        globals=(("EDGE", 1.8125),),
    )
    kernels = KernelSet.of([function])
    choice = Choice(kernel=function.identity, grid=(grid, 1, 1), arguments=given, options=())
    launch = Launch(choices=(choice,), line=1)
    tape = Tape(
        buffers=(), inputs=(), arguments=(), state=(), prologue=(), steps=(launch,), tree={"tuple": []}, outputs=()
    )
    return tape, kernels


def test_literals_globals_arguments_and_bits_are_found() -> None:
    numbers, _ = numbers_of("y = (x == -1.25) | (x > EDGE) | (bits == 0x3F9E0651)", given=(("n", 96),))
    assert {1.25, 1.8125, 96.0, 0.78125 * 2} - {0.78125 * 2} <= set(numbers.floats())
    assert any(abs(number - 1.2345678) < 1e-6 for number in numbers.floats())


def test_numbers_are_followed_through_variables_arithmetic_and_functions() -> None:
    numbers, _ = numbers_of(
        "a = 0.5 + 0.15625\n    b = a * 3.5\n    y = (x == tl.sin(b)) | (x == n / 64)", given=(("n", 97),)
    )
    found = torch.tensor(numbers.floats(), dtype=torch.float64)
    for wanted in (0.65625, 2.296875, float(torch.tensor(2.296875, dtype=torch.float64).sin()), 97 / 64):
        assert bool((found == wanted).any())


def test_numbers_far_beyond_the_inputs_have_a_case_of_their_own() -> None:
    numbers = Numbers(in_text=frozenset({0.75, 1e12}))
    split = groups(numbers, 4.0)
    assert len(split) >= 2 and 0.75 in split[0] and all(abs(number) < 40 for number in split[0])


def test_planted_inputs_hold_each_number_and_its_neighbours() -> None:
    numbers = Numbers(in_text=frozenset({0.71875}))
    x, generator = torch.randn(40, 96), torch.Generator().manual_seed(1)
    y = torch.randn(40, 96)
    plant([x, y], (0.71875,), numbers, generator, rows=True, anywhere=False)
    for wanted in (0.71875, *(float(torch.nextafter(torch.tensor(0.71875), torch.tensor(way))) for way in (-9.0, 9.0))):
        assert bool((x == wanted).any())
    assert bool((x == 0.71875).all(-1).any()), "a row is filled with it"
    assert bool((x.diff(dim=-1) >= 0).all(-1).any()), "a row ascends"
    assert bool((x == y).any()) and bool(((x == -y) & (x != 0)).any())


def test_rows_of_equal_elements_have_both_signs() -> None:
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(40, 96, generator=generator)
        plant([x], (), Numbers(in_text=frozenset()), generator, rows=True, anywhere=False)
        filled = x[(x == x[:, :1]).all(-1), 0]
        assert bool((filled > 0).any()) and bool((filled < 0).any()), seed


def test_whole_numbers_stay_in_range_unless_any_is_right() -> None:
    numbers, generator = Numbers(in_text=frozenset({7, 4000})), torch.Generator().manual_seed(1)
    ids = torch.randint(0, 50, (200,), generator=generator)
    plant([ids], (), numbers, generator, rows=False, anywhere=False)
    assert int(ids.max()) < 50
    plant([ids], (), numbers, generator, rows=False, anywhere=True)
    assert int(ids.max()) == torch.iinfo(torch.int64).max and bool((ids == 4000).any())
    offsets = torch.arange(0, 96, 8)
    plant([offsets], (), numbers, generator, rows=False, anywhere=True)
    assert torch.equal(offsets, torch.arange(0, 96, 8)), "boundaries of segments stay in order"


def test_a_position_beyond_those_visited_is_looked_at() -> None:
    assert named("tl.store(x_ptr + at, 0.0, mask=at > 4000000)", n=3840, block=1024) == 4000000
    assert named("tl.store(x_ptr + at, 0.0, mask=at < n)", n=3840, block=1024) == 0


def test_a_number_of_a_program_is_looked_at_as_its_first_element() -> None:
    body = "at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    y = tl.program_id(0) == 700"
    assert named(body, n=Constexpr(value=96), block=Constexpr(value=64)) == 700 * 64
    elsewhere = "at = helper(BLOCK)\n    y = tl.program_id(0) == 700"
    assert named(elsewhere, n=Constexpr(value=96), block=Constexpr(value=64)) == 700 * 64 * 96


def named(body: str, *, n: int | Constexpr, block: int | Constexpr) -> int:
    tape, kernels = launched(body, given=(("n", n), ("BLOCK", block)))
    return position_named(numbers_on(tape, kernels), tape, kernels, visited=3840)


def test_programs_next_to_a_named_one_run() -> None:
    numbers, tape = numbers_of("y = tl.program_id(0) == 1234", grid=5000)
    chosen = programs_to_run(numbers, tape)
    assert {0, 1233, 1234, 1235, 4999} <= set(chosen) and len(chosen) < 50


def test_nothing_that_is_planted_is_overwritten() -> None:
    numbers = Numbers(in_text=frozenset({1.265625, 0.3}))
    floats = numbers.floats()
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        one, other = torch.randn(40, 96, generator=generator), torch.randn(40, 96, generator=generator)
        plant([one, other], floats, numbers, generator, rows=True, anywhere=False)
        for tensor in (one, other):
            assert all(bool((tensor == torch.tensor(value)).any()) for value in floats), seed
            assert all(bool((tensor == torch.tensor(value)).all(1).any()) for value in numbers.row_values()), seed
        assert bool(((one == -other) & (one != 0)).any()) and bool((one == other).any())


@pytest.mark.parametrize("count", [0, 5, 34, 50])
def test_places_are_free_and_none_is_taken_twice(count: int) -> None:
    free = torch.zeros(100, dtype=torch.bool)
    free[::3] = True
    rows, columns = _places(torch.zeros(10, 10), free, count, torch.Generator().manual_seed(1))
    found = (rows * 10 + columns).tolist()
    assert len(found) == len(set(found)) == min(count, 34) and all(free[found])


DEEP = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(8, 8) for _ in range(5)])
    def forward(self, x):
        return self.layers(x)
def get_inputs():
    return [torch.randn(16, 8)]
"""


def test_named_numbers_in_the_parameters_of_a_deep_network_do_not_overflow(tmp_path: Path) -> None:
    """The product of five parameters has to stay far from the largest float; inputs still hold the number."""
    (tmp_path / "problem.py").write_text(DEEP)
    reference = load(parse_problem(str(tmp_path / "problem.py")))
    trial, _ = make_trial(reference, "as given", EvaluatorSettings(target=None, modes=("eval",)), [], main=True)
    assert trial.holding is not None
    inputs, parameters = [], []
    for case, state in trial.holding(Numbers(in_text=frozenset({1234567.0})), False):
        inputs += [float(it.abs().max()) for it in case.expectation.packed_inputs.unpack()]
        parameters += [float(it.abs().max()) for it in state.unpack().values()] if state is not None else []
    assert max(inputs) >= 1234567.0
    assert 1.0 < max(parameters) <= 1e3


UNROLLED = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)
    def forward(self, x):
        h = x.new_zeros(16, 8)
        for t in range(3):
            h = self.cell(x[:, t], h)
        return h
def get_inputs():
    return [torch.randn(16, 3, 8)]
"""


def test_named_numbers_beyond_the_range_of_sums_are_not_planted_where_recurrent_cells_multiply(tmp_path: Path) -> None:
    """A cell is one operator in the graph, and its products overflow as others do."""
    (tmp_path / "problem.py").write_text(UNROLLED)
    reference = load(parse_problem(str(tmp_path / "problem.py")))
    trial, _ = make_trial(reference, "as given", EvaluatorSettings(target=None, modes=("eval",)), [], main=True)
    assert trial.holding is not None
    for case, state in trial.holding(Numbers(in_text=frozenset({1e30, 1234567.0})), False):
        assert all(float(it.abs().max()) < 1e16 for it in case.expectation.packed_inputs.unpack())
        assert state is None or all(float(it.abs().max()) < 1e6 for it in state.unpack().values())


def test_inputs_hold_a_number_of_every_magnitude_and_sign() -> None:
    found = magnitudes(torch.Generator().manual_seed(0))
    exponents = {(math.frexp(number)[1], number > 0) for number in found}
    assert {(power, sign) for power in range(-20, 40) for sign in (True, False)} <= exponents


def test_a_single_number_becomes_each_named_number_in_turn() -> None:
    single = torch.ones(())
    seen = set()
    for turn in (1, 2, 3):
        fill_with(single, [0.25, 0.75, 5.0], turn, torch.Generator().manual_seed(0))
        seen.add(float(single))
    assert seen == {0.25, 0.75, 5.0}

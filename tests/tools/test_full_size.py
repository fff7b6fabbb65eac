"""Large problems are judged in pieces, within a memory limit, and as strictly as small ones."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest
import torch

from triton_agent.tools.answers import full_size
from triton_agent.tools.answers.accuracy import judge
from triton_agent.tools.answers.full_size import PiecewiseYardstick, fits, make_full_trial
from triton_agent.tools.cases.plan import Trial
from triton_agent.tools.cases.trials import make_trial
from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.reference.input_tensors import tensors_in
from triton_agent.tools.reference.reference import load
from triton_agent.tools.results import Finding
from triton_agent.tools.settings import EvaluatorSettings

PROBLEM = """
import torch
import torch.nn as nn

ROWS, COLUMNS = 8192, 4096

class Model(nn.Module):
    def forward(self, x):
        return FORWARD

def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""


def trials(folder: Path, forward: str, rows: int) -> tuple[Trial, torch.nn.Module]:
    (folder / "problem.py").write_text(PROBLEM.replace("FORWARD", forward))
    spec, settings = parse_problem(str(folder / "problem.py")), EvaluatorSettings()
    reduced, _ = make_trial(load(spec, {"ROWS": 64, "COLUMNS": 256}), "reduced", settings, [], main=True)
    assert fits(reduced)
    return make_full_trial(load(spec, {"ROWS": rows}), "as given", settings, reduced, looks=0)


def yard_of(trial: Trial) -> PiecewiseYardstick:
    yard = trial.cases[0].expectation.outputs[0].yard
    assert isinstance(yard, PiecewiseYardstick)
    return yard


def answer(trial: Trial, model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(*trial.cases[0].expectation.packed_inputs.unpack())  # type: ignore[no-any-return]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_size, "PIECE", 1 << 16)
    monkeypatch.setattr(full_size, "SLICE_ELEMENTS", 1 << 15)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "forward", ["torch.softmax(x * 3, -1)", "torch.cumsum(x, 0) * 0.01", "(x * 20).round().to(torch.int8)"]
)
def test_a_right_answer_passes_and_one_wrong_element_anywhere_is_seen(tmp_path: Path, forward: str) -> None:
    trial, model = trials(tmp_path, forward, rows=512)
    yard, right = yard_of(trial), answer(trial, model)
    assert bool(yard.slices) == ("cumsum" not in forward)
    assert judge(right, yard).ok
    step = 0.01 if right.is_floating_point() else 5
    for place in (0, 100_001, right.numel() - 1):
        wrong = right.clone()
        wrong.view(-1)[place] += step
        assert judge(wrong, yard).finding is Finding.VALUES


@pytest.mark.usefixtures("small_pieces")
def test_what_is_wrong_outside_of_the_slices_or_narrow_everywhere_is_seen(tmp_path: Path) -> None:
    trial, model = trials(tmp_path, "torch.tanh(x)", rows=512)
    yard, right = yard_of(trial), answer(trial, model)
    inside = {row for part in yard.slices for row in range(part.start, part.stop)}
    outside = next(row for row in range(512) if row not in inside)
    for change in (lambda t: t.half().float(), lambda t: t * (1 + 1e-4), lambda t: t.flip(-1)):
        wrong = right.clone()
        wrong[outside] = change(right[outside])
        assert not judge(wrong, yard).ok
    assert not judge(right.bfloat16().float(), yard).ok
    wrong = right.clone()
    wrong[outside, 3] = torch.nan
    assert judge(wrong, yard).finding is Finding.NON_FINITE


@pytest.mark.usefixtures("small_pieces")
def test_where_no_slice_fits_the_limit_allows_for_the_reference_s_own_error_at_full_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum of millions of elements errs by more than one of a reduced size. Half precision takes its place here."""
    monkeypatch.setattr(full_size, "SLICE_ELEMENTS", 1 << 10)
    trial, model = trials(tmp_path, "torch.tanh(x if x.shape[1] < 1024 else x.half().float())", rows=64)
    yard, given = yard_of(trial), answer(trial, model)
    assert not yard.slices and judge(given, yard).ok
    exact = torch.tanh(trial.cases[0].expectation.packed_inputs.unpack()[0])
    assert judge(exact, yard).ok
    assert not judge(exact + 0.01, yard).ok


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("forward", ["x - x.mean(0) * 1e-2", "torch.cumsum(x, 0)"])
def test_a_row_alone_tells_nothing_of_a_reference_that_mixes_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forward: str
) -> None:
    monkeypatch.setattr(full_size, "SLICE_ELEMENTS", 1 << 10)
    measured, model = trials(tmp_path, forward, rows=64)
    right = answer(measured, model)
    assert judge(right, yard_of(measured)).ok
    assert not judge(right * (1 + 1e-3), yard_of(measured)).ok


class Held(UncompiledMode):  # type: ignore[no-untyped-call]
    """Records the largest memory that the results of one operator take."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.peak_bytes = max(self.peak_bytes, sum(tensor.nbytes for tensor in tensors_in(result)))
        return result


def test_no_copy_of_a_large_tensor_in_double_is_made(tmp_path: Path) -> None:
    """128 MiB in and 128 MiB out: no operator makes more than that, and the process grows by less than 2.5 calls.

    In addition it holds eight slices, with up to eight runs of each in double.
    """
    whole_bytes = 8192 * 4096 * 4
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    with Held() as held:  # type: ignore[no-untyped-call]
        trial, model = trials(tmp_path, "torch.softmax(x, -1)", rows=8192)
        yard = yard_of(trial)
    right = answer(trial, model)
    with held:
        assert judge(right, yard).ok
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
    assert held.peak_bytes <= whole_bytes
    assert grown < 2.5 * 2 * whole_bytes + (1280 << 20)


def test_inputs_at_full_size_hold_several_distributions(tmp_path: Path) -> None:
    """A kernel that assumes positive inputs for large sizes would be right for the inputs as given."""
    body = PROBLEM.replace("FORWARD", "torch.relu(x)").replace("randn", "rand")
    (tmp_path / "problem.py").write_text(body)
    spec, settings = parse_problem(str(tmp_path / "problem.py")), EvaluatorSettings()
    reduced, _ = make_trial(load(spec, {"ROWS": 64, "COLUMNS": 256}), "reduced", settings, [], main=True)
    trial, _ = make_full_trial(load(spec, {"ROWS": 512}), "as given", settings, reduced, looks=1)
    [held], [given] = (case.expectation.packed_inputs.unpack() for case in (*trial.cases, *trial.looks))
    assert 0.1 < (held < 0).float().mean() < 0.4 and bool((held > 1).any())
    assert not bool((given < 0).any())

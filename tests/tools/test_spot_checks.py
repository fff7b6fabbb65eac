"""Spot checks: the order of the calls at full size, and the inputs that are drawn for them."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from triton_agent.tools.checker import pipeline
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.kernels.kernel import KernelSet
from triton_agent.tools.tape.tape import Tape
from triton_agent.tools.truth.distributions import BLANK, EXTREMES, NOT_FINITE, SPOILED_SHARES, spoil
from triton_agent.tools.truth.named_numbers import STREWN_SHARE, Numbers, strew


def test_numbers_are_noted_after_the_calls_that_report_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """A noted call may end its process, after which nothing more can be asked."""
    events: list[str] = []
    runner = SimpleNamespace(is_sound=True)

    def check(job: Any, trial: Any, case: str, *rest: Any, **kwargs: Any) -> list[torch.Tensor]:
        events.append(case)
        return [torch.ones(1)]

    def note(*args: Any) -> frozenset[float]:
        events.append("noted")
        runner.is_sound = False
        return frozenset()

    monkeypatch.setattr(pipeline, "_check_spot", check)
    monkeypatch.setattr(pipeline, "_numbers_met_by_some", note)
    monkeypatch.setattr(pipeline, "programs_to_run", lambda numbers, tape: [0])
    trial = SimpleNamespace(cases=["small"])
    job: Any = SimpleNamespace(runner=runner, plan=SimpleNamespace(trials=[trial], main=0), notes=[])
    tape = Tape(buffers=(), inputs=(), arguments=(), state=(), prologue=(), steps=(), tree={"tuple": []}, outputs=())
    empty: Any = None
    program = Program(
        name="it",
        tape=tape,
        encoded=None,
        kernels=None,
        kernel_set=KernelSet.of([]),
        init=empty,
        seed=0,
        writes_state=False,
    )
    spot: Any = SimpleNamespace(trial=trial, holding=lambda numbers: None)
    cases: Any = ["given", "extreme"]
    pipeline._check_programs(job, spot, program, cases, by_parts=True, until_s=time.monotonic() + 60)
    assert events == ["given", "extreme", "noted"]
    runner.is_sound, events[:] = True, []
    pipeline._check_programs(job, spot, program, cases[:1], by_parts=True, until_s=0.0)
    assert (events, job.notes) == (["given"], []), "one case is always checked, and there was no other"
    cases = [SimpleNamespace(name="given"), SimpleNamespace(name="extreme")]
    pipeline._check_programs(job, spot, program, cases, by_parts=True, until_s=0.0)
    assert events[1:] == cases[:1]
    assert job.notes == ["extreme: not spot-checked, since calls at this size took over 40 s"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_samples_are_spoiled_in_the_shares_asked_for(dtype: torch.dtype) -> None:
    x = torch.randn(6000, 64, dtype=dtype)
    before = x.clone()
    spoil([x], {EXTREMES, NOT_FINITE, BLANK}, seed=1)
    nan = x.isnan()
    assert abs(float((x == 0).all(1).float().mean()) - 1 / 6) < 0.03
    assert abs(float(nan.float().mean()) - SPOILED_SHARES[NOT_FINITE] / 3) < 1e-3
    changed = (x != before) & ~nan & (x != 0)
    assert abs(float(changed.float().mean()) - SPOILED_SHARES[EXTREMES] / 3) < 3e-3
    assert bool((x.sign() == before.sign())[changed].all()), "outliers keep the sign"


def test_numbers_are_strewn_into_transposed_inputs_too() -> None:
    x = torch.randn(300, 500).t()
    before = x.clone()
    strew([x], Numbers(in_text=frozenset({0.8125})), seed=1)
    assert abs(float((x != before).float().mean()) - STREWN_SHARE) < 0.01
    assert bool((x == 0.8125).any())

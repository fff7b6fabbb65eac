"""Spot checks: the order of the calls at full size, and the inputs that are drawn for them."""

from __future__ import annotations

import dataclasses
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from triton_agent.tools.answers import spot_stage
from triton_agent.tools.answers.spot_checks import check_keeps, compare_changed
from triton_agent.tools.cases.directed import FAINT, LIMITS, NUMBERS, OFFSET, TIES
from triton_agent.tools.cases.distributions import BLANK, EXTREMES, FLAGS, NOT_FINITE, WITH_EMPTY
from triton_agent.tools.cases.full_size_inputs import (
    FAINT_SHARE,
    KINDS_IN_TURN,
    SPOILED_SHARES,
    Told,
    make_most_equal,
    mix,
    spoil,
    told_by,
)
from triton_agent.tools.cases.named_numbers import STREWN_SHARE, Numbers, strew
from triton_agent.tools.cases.plan import Case
from triton_agent.tools.cases.whole_numbers import EQUAL
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.kernels.kernel import KernelSet
from triton_agent.tools.processes.payloads import pack
from triton_agent.tools.tape.tape import Allocate, Buffer, Operate, Place, Tape, View
from triton_agent.tools.truth.expectation import Expectation


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

    monkeypatch.setattr(spot_stage, "_check_spot", check)
    monkeypatch.setattr(spot_stage, "_numbers_met_by_some", note)
    monkeypatch.setattr(spot_stage, "programs_to_run", lambda numbers, tape: [0])
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
    spot: Any = SimpleNamespace(trial=trial, holding=lambda numbers: None, in_other_mode=())
    cases: Any = ["given", "extreme"]
    small: Any = "small"
    spot_stage._check_programs(job, spot, program, cases, small, by_parts=True, until_s=time.monotonic() + 60)
    assert events == ["given", "extreme", "noted"]
    runner.is_sound, events[:] = True, []
    spot_stage._check_programs(job, spot, program, cases[:1], small, by_parts=True, until_s=0.0)
    assert (events, job.notes) == (["given"], []), "one case is always checked, and there was no other"
    cases = [SimpleNamespace(name="given"), SimpleNamespace(name="extreme")]
    spot_stage._check_programs(job, spot, program, cases, small, by_parts=True, until_s=0.0)
    assert events[1:] == cases[:1]
    assert job.notes == ["extreme: not spot-checked, since calls at this size took over 40 s"]


def test_what_programs_write_into_an_input_is_compared() -> None:
    before, after = torch.tensor([[1.0, torch.nan, 3.0, 4.0]]), torch.tensor([[2.0, torch.nan, 6.0, 8.0]])
    expectation = Expectation(packed_inputs=pack([before]), inputs_after=(after,))
    case = Case(name="it", variant="it", distribution="", expectation=expectation)
    half_done, wrong = torch.tensor([[2.0, torch.nan, 3.0, 4.0]]), torch.tensor([[2.0, torch.nan, 3.5, 4.0]])
    other_fill = torch.tensor([[2.0, torch.nan, 7.0, 4.0]])
    compare_changed(case, [{0: half_done}], [0])
    compare_changed(case, [{0: wrong}, {0: other_fill}], [0])  # depends on programs that were skipped
    with pytest.raises(Failed, match="1 of 2 elements that some programs wrote into the input with index 0"):
        compare_changed(case, [{0: wrong}, {0: wrong}], [0])


def test_a_call_that_writes_no_buffer_is_refused_where_the_reference_changes_one() -> None:
    kept = View(buffer=0, dtype="float32", shape=(4,), strides=(1,), offset=0)
    made = dataclasses.replace(kept, buffer=1)
    buffers = (Buffer(place=Place.STATE, size_bytes=16), Buffer(place=Place.FRESH, size_bytes=16))
    tape = Tape(
        buffers=buffers,
        inputs=(),
        arguments=(),
        state=(("total", kept),),
        prologue=(),
        steps=(Allocate(buffer=1),),
        tree={"tuple": []},
        outputs=(),
    )
    case: Any = SimpleNamespace(name="it")
    write = Operate(operator="aten.fill_.Scalar", args=(kept, 1), kwargs=(), results=(kept,))
    check_keeps(case, dataclasses.replace(tape, steps=(write,)), KernelSet.of([]), [], ["total"])
    check_keeps(case, dataclasses.replace(tape, rebound=(("total", made),)), KernelSet.of([]), [], ["total"])
    with pytest.raises(Failed, match="buffer total is left as it is"):
        check_keeps(case, tape, KernelSet.of([]), [], ["total"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_samples_are_spoiled_in_the_shares_asked_for(dtype: torch.dtype) -> None:
    x = torch.randn(6000, 64, dtype=dtype)
    x[x == 0] = 1  # a zero has no sign to keep
    before = x.clone()
    spoil([x], Told(names=frozenset({EXTREMES, NOT_FINITE, BLANK})), seed=1)
    nan = x.isnan()
    zero = (x == 0).all(1)
    assert bool((zero.reshape(-1, KINDS_IN_TURN).sum(1) == 1).all()), "one of so many consecutive samples"
    assert abs(float(nan.float().mean()) - SPOILED_SHARES[NOT_FINITE] * 0.3) < 1e-3
    changed = (x != before) & ~nan & (x != 0)
    assert abs(float(changed.float().mean()) - SPOILED_SHARES[EXTREMES] * 0.4) < 3e-3
    assert bool((x.sign() == before.sign())[changed].all()), "outliers keep the sign"


def test_flags_lengths_and_signs_of_integers_are_mixed_if_they_are_accepted() -> None:
    x, flags, lengths = torch.arange(1, 4001).reshape(40, 100) % 97, torch.ones(40, 9) > 0, torch.full((40,), 9)
    mix([x, flags, lengths], {FLAGS, WITH_EMPTY}, seed=1, negated={0})
    assert abs(float((x < 0).float().mean()) - 1 / 3) < 0.05
    assert not bool(flags.all()) and int(lengths.min()) == 0 and int(lengths.max()) <= 9
    mix([x := torch.ones(40, 9) > 0], {WITH_EMPTY}, seed=1)
    assert bool(x.all())


def test_samples_are_far_from_zero_equal_or_infinite_if_these_are_accepted() -> None:
    x = torch.randn(6000, 64)
    spoil([x], Told(names=frozenset({NOT_FINITE, OFFSET, TIES}), infinities=(-torch.inf, torch.inf)), seed=1)
    assert bool(x.isnan().any() & (x == torch.inf).any() & (x == -torch.inf).any())
    assert abs(float((x.nanmedian(1).values > 100).float().mean()) - 1 / 5) < 0.03
    few = [len(row.unique()) <= 7 for row in x[:500]]
    assert abs(sum(few) / 500 - 1 / 5) < 0.06


def test_samples_are_faint_and_integers_change_if_that_is_accepted() -> None:
    x, labels = torch.randn(6000, 64), torch.arange(6000)
    told = Told(names=frozenset({FAINT, NUMBERS}), changes={NUMBERS: lambda inputs, _: inputs[1].fill_(-100)})
    spoil([x, labels], told, seed=1)
    assert abs(float((x.abs().amax(1) < 1e-2).float().mean()) - 0.6) < 0.03
    assert bool((labels == -100).all())
    spoil([x, labels := torch.arange(6000)], dataclasses.replace(told, names=frozenset()), seed=1)
    assert int(labels[-1]) == 5999, "the reference refuses such integers"


def test_some_samples_of_an_ordinary_call_are_faint_if_that_is_accepted() -> None:
    mix([x := torch.randn(6000, 64)], {FAINT}, seed=1)
    assert abs(float((x.abs().amax(1) < 1e-2).float().mean()) - FAINT_SHARE) < 0.03


def test_outliers_are_beyond_the_exponential_if_huge_numbers_are_accepted() -> None:
    for names, beyond in ((EXTREMES,), False), ((EXTREMES, LIMITS), True):
        spoil([x := 0.1 * torch.randn(6000, 64)], Told(names=frozenset(names)), seed=1)
        assert bool((x.abs() > 120).any()) is beyond


def test_whole_lines_of_bytes_are_as_large_as_possible() -> None:
    x = torch.randint(-100, 100, (60, 80), dtype=torch.int8)
    spoil([x], Told(), seed=1)
    full = (x == 99).float()
    assert bool((full.mean(1) > 0.75).any()) and bool((full.mean(0) > 0.75).any()) and float(full.mean()) < 0.6


def test_most_whole_numbers_are_equal_where_all_may_be() -> None:
    labels, others = torch.randint(3, 90, (300, 500)), torch.randint(3, 90, (300, 500))
    before, transposed = others.clone(), torch.randint(3, 90, (300, 500)).t()
    all_equal = [torch.full((4, 5), 7), torch.randint(3, 90, (4, 5)), torch.full((5, 4), 7)]
    expectation = Expectation(packed_inputs=pack(all_equal), inputs_after=tuple(all_equal))
    told = told_by([Case(name="it", variant="it", distribution=EQUAL, expectation=expectation)])
    assert told.equal == {0, 2}
    for seed in range(5):
        assert make_most_equal([labels, others, transposed], told.equal, seed)
        assert min(float((it == 3).float().mean()) for it in (labels, transposed)) > 0.59
    assert torch.equal(others, before) and not make_most_equal([labels], {1}, seed=1)


def test_numbers_are_strewn_into_transposed_inputs_too() -> None:
    x = torch.randn(300, 500).t()
    before = x.clone()
    strew([x], Numbers(in_text=frozenset({0.8125})), seed=1)
    assert abs(float((x != before).float().mean()) - STREWN_SHARE) < 0.01
    assert bool((x == 0.8125).any())

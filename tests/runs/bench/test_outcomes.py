"""From verdicts to rows: the kernel that represents a sample, and no figure that was not measured."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tests.memory import samples

from triton_agent.policy.episode import Graded
from triton_agent.runs.bench.outcomes import sample_of
from triton_agent.runs.bench.rows import Against, Kind, Sample
from triton_agent.tools.kernel_profile import Roofline
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.race.baseline_names import EAGER_TF32
from triton_agent.tools.results import DECISIONS, Evaluation, Finding, Status, Timing
from triton_agent.tools.settings import EvaluatorSettings


def graded(turn: int, verdict: str, speedup: float | None = None) -> Graded:
    attempt = samples.attempt(turn)
    grading = {
        "passed": lambda: samples.passed(attempt, speedup),
        "failed": lambda: samples.failed(attempt),
        "unmeasured": lambda: samples.unmeasured(attempt),
    }[verdict]()
    return Graded(attempt=attempt, grading=grading)


def changed(item: Graded, **changes: object) -> Graded:
    evaluation = item.grading.evaluation
    assert evaluation is not None
    grading = dataclasses.replace(item.grading, evaluation=dataclasses.replace(evaluation, **changes))  # type: ignore[arg-type]
    return Graded(attempt=item.attempt, grading=grading)


def found(turn: int, finding: Finding) -> Graded:
    return changed(graded(turn, "failed"), finding=finding, status=DECISIONS[finding].status)


def told(*history: Graded) -> Sample:
    return sample_of(0, history, run="r", seconds=1.0)


def test_the_best_that_passed_stands_for_the_sample_and_all_are_counted() -> None:
    history = [graded(0, "failed"), graded(1, "passed", 1.5), graded(2, "passed", 2.5), graded(3, "unmeasured")]
    sample = told(*history)
    assert (sample.status, sample.kernel) == (Status.PASSED, history[2].attempt.key)
    assert sample.statuses == {"passed": 2, "wrong_values": 1} and sample.unmeasured == 1


def test_where_none_passed_the_one_that_was_called_speaks() -> None:
    history = [found(0, Finding.SYNTAX), found(1, Finding.VALUES), found(2, Finding.COMPILE)]
    sample = told(*history)
    assert (sample.kernel, sample.status, sample.called) == (history[1].attempt.key, Status.WRONG_VALUES, True)


@pytest.mark.parametrize(
    ("finding", "called"),
    [
        (Finding.NO_LAUNCH, True),
        (Finding.SHAPE, True),
        (Finding.FALSE_CLOCK, True),
        (Finding.RAISED, False),
        (Finding.TOO_SLOW, False),
        (Finding.FORBIDDEN_ACCESS, False),
    ],
)
def test_called_is_what_can_be_found_only_of_a_call_that_returned(finding: Finding, called: bool) -> None:
    assert told(found(0, finding)).called is called


def test_a_cheat_on_the_way_marks_the_sample_even_where_another_kernel_passed() -> None:
    sample = told(found(0, Finding.TAMPERED), graded(1, "passed", 2.0))
    assert sample.executed and sample.cheated


def test_nothing_judged_is_no_failure_and_nothing_said_is_one() -> None:
    lost = told(graded(0, "unmeasured"), graded(1, "unmeasured"))
    assert (lost.status, lost.not_measured, lost.unmeasured) == (None, "it died", 2)
    silent = sample_of(0, [], run="r", seconds=1.0, ended="the policy has nothing more to propose")
    assert (silent.status, silent.message) == (Status.NO_ANSWER, "the policy has nothing more to propose")


def test_what_was_cut_short_is_not_measured_unless_it_had_passed() -> None:
    ended = "no policy could be asked any more: refused"
    cut = sample_of(0, [graded(0, "failed")], run="r", seconds=1.0, ended=ended, cut_short=True)
    assert (cut.status, cut.not_measured) == (None, ended)
    had = sample_of(0, [graded(0, "passed", 2.0)], run="r", seconds=1.0, ended=ended, cut_short=True)
    assert had.executed


def timings(evaluation: Evaluation) -> tuple[Timing, ...]:
    (one,) = evaluation.timings
    names = (
        "eager (float32 matmul)",
        f"{EAGER_TF32} (tf32 matmul)",
        "compile (float32 matmul)",
        "compile-max-autotune ()",
    )
    return tuple(dataclasses.replace(one, baseline=name, kind=kind) for name in names for kind in ("device", "latency"))


def test_speeds_floor_and_memory_come_from_the_verdict() -> None:
    item = graded(0, "passed", 2.0)
    evaluation = item.grading.evaluation
    assert evaluation is not None and evaluation.diagnosis is not None
    least = dataclasses.replace(evaluation.diagnosis, floor_ms=0.25, peak_bytes=300, original_peak_bytes=200)
    sample = told(changed(item, timings=timings(evaluation), diagnosis=least))
    assert {(speed.against, speed.kind) for speed in sample.speeds} == {(a, k) for a in Against for k in Kind}
    eager = sample.speed(Against.EAGER)
    assert eager is not None and eager.speedup.median == 2.0
    assert sample.floor_fraction == pytest.approx(0.25 / eager.kernel_ms.median)
    assert sample.peak_memory_ratio == 1.5 and sample.copy_fraction is None
    for bound, fraction in (("memory", pytest.approx(0.3 / eager.kernel_ms.median)), ("compute", None)):
        roofline = Roofline(floor_ms=0.25, bound=bound, flops_per_byte=1.0, copy_ms=0.3)
        known = dataclasses.replace(least, roofline=roofline)
        assert told(changed(item, timings=timings(evaluation), diagnosis=known)).copy_fraction == fraction


def test_without_a_gpu_there_are_no_figures_of_speed() -> None:
    sample = told(graded(0, "passed"))
    assert (sample.speeds, sample.floor_fraction, sample.peak_memory_ratio) == ((), None, None)


def test_evaluators_take_the_baselines_that_benchmarks_ask_for() -> None:
    assert EvaluatorSettings(device="cuda", baselines=(EAGER_TF32, "compile")).baselines[0] == EAGER_TF32
    with pytest.raises(ValueError, match="no baselines"):
        EvaluatorSettings(baselines=("eager",))


def test_tf32_is_allowed_for_the_length_of_a_block_only() -> None:
    switches = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [switch.allow_tf32 for switch in switches]
    with pytest.raises(ZeroDivisionError), Conditions(precision="tf32").settled():
        assert [switch.allow_tf32 for switch in switches] == [True, True]
        _ = 1 / 0
    assert [switch.allow_tf32 for switch in switches] == before

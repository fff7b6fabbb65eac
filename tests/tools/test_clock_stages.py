"""The timing stages with a fake clock: the order of the races, and the leases held meanwhile.

That the measured times are right is tested on a GPU, in `test_evaluator_gpu.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.tools.played_workers import played_by
from tests.verdicts import around, timing

from triton_agent.tools.answers.timed_looks import LOOKS, Looks
from triton_agent.tools.cases.plan import LARGE_BYTES, Case, Plan, Trial
from triton_agent.tools.checker import clock_stages
from triton_agent.tools.checker.clock_stages import profile, race_compiled, race_original
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import Programs
from triton_agent.tools.machine.lease import Mode
from triton_agent.tools.processes.payloads import Payload
from triton_agent.tools.processes.torch_switches import DEFAULT
from triton_agent.tools.processes.wire import Channel
from triton_agent.tools.race.clock_room import ClockRoom, Place
from triton_agent.tools.race.late_value import LateClock
from triton_agent.tools.results import Finding, Timing
from triton_agent.tools.settings import EvaluatorSettings, Profiling


class Gpu:
    """A fake GPU lease that records which thread holds which mode."""

    def __init__(self) -> None:
        self.held: dict[int | None, Mode] = {}
        """By thread; None stands for the exclusive lease, which belongs to the clock room."""
        self.inside: int | None = None
        self._free = threading.Condition()
        self.room = ClockRoom(lambda: self._lease(Mode.EXCLUSIVE, None))

    def __call__(self, mode: Mode) -> contextlib.AbstractContextManager[None]:
        return self._alone() if mode is Mode.EXCLUSIVE else self._lease(mode, threading.get_ident())

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        assert self.mine is None, f"{self.mine} is held, and would be waited for"
        with self.room.alone():
            self.inside = threading.get_ident()
            yield
            self.inside = None

    @contextlib.contextmanager
    def _lease(self, mode: Mode, holder: int | None) -> Iterator[None]:
        assert holder not in self.held, f"{self.held[holder]} is held, and {mode} would wait for itself"
        with self._free:
            assert self._free.wait_for(lambda: self._may_enter(mode), timeout=10), f"{mode} waits for ever"
            self.held[holder] = mode
        yield
        with self._free:
            del self.held[holder]
            self._free.notify_all()

    def _may_enter(self, mode: Mode) -> bool:
        return Mode.EXCLUSIVE not in self.held.values() and not (mode is Mode.EXCLUSIVE and self.held)

    @property
    def mine(self) -> Mode | None:
        me = threading.get_ident()
        return Mode.EXCLUSIVE if self.inside == me else self.held.get(me)


class PlayedClock:
    """A fake clock. It races against `eager`, and against `compile` once it is complete."""

    def __init__(self, gpu: Gpu, speedup: float = 1.5, compiles: bool = True) -> None:
        self.gpu, self.speedup, self.compiles = gpu, speedup, compiles
        self.names = ["eager"]
        self.is_complete = False
        self.completed = 0
        self.compiling = threading.Event()
        """Set once compiling in the background has ended."""
        self.compiling.set()
        self.notes = ["a note"]
        self.looked_at: list[Case] = []

    @property
    def opponents(self) -> int:
        return len(self.names)

    def await_compiler(self, tell: Callable[[], None]) -> None:
        assert self.gpu.mine is None, "who compiles may need the GPU"
        self.compiling.wait()

    def bring_in(self, tell: Callable[[], None]) -> None:
        assert self.gpu.mine is Mode.SHARED
        if not self.is_complete:
            self.is_complete, self.completed = True, self.completed + 1
            self.names += ["compile"] * self.compiles

    def race(self, session: Any, looks: Looks, since: int = 0, *, back_to_back: bool) -> list[PlayedRace]:
        assert self.gpu.mine is Mode.EXCLUSIVE
        self.looked_at += looks._cases
        return [PlayedRace(self.gpu, name, self.speedup, back_to_back) for name in self.names[since:]]


@dataclasses.dataclass(frozen=True)
class PlayedRace:
    gpu: Gpu
    opponent: str
    speedup: float
    back_to_back: bool

    def candidate_ms(self) -> float:
        return 1.0

    def timings(self) -> list[Timing]:
        assert self.gpu.mine is None, "others wait while this is worked out"
        ratio = around(self.speedup, 0.01)
        kinds = ("device", "latency", *["back_to_back"] * self.back_to_back)
        return [timing(ratio, baseline=self.opponent, kind=kind) for kind in kinds]


@pytest.fixture(autouse=True)
def _answers_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-in for the checks before and after a race, which all succeed."""

    def asked(job: Job, *_: object) -> None:
        with job.gpu(Mode.SHARED):
            return

    monkeypatch.setattr(Looks, "send_ahead", lambda looks, session: None)
    monkeypatch.setattr(clock_stages, "enter_clock", asked)
    monkeypatch.setattr(clock_stages, "_check_answers", asked)


def silent(channel: Channel) -> None:
    return


@contextlib.contextmanager
def job_at(clock: LateClock[Any], gpu: Gpu) -> Iterator[tuple[Job, list[str]]]:
    said: list[str] = []
    with played_by(silent) as runner:
        place = Place(gpu, waiting=runner.off_its_time)
        nothing = Payload()
        trial = Trial(variant="", packed_init=nothing, build_seed=0, states=(), cases=())
        plan = Plan(trials=(trial,), main=0, work=(), timing_sets=(), facts={})
        yield (
            Job(
                source="",
                plan=plan,
                settings=EvaluatorSettings(profile=Profiling.NONE),
                programs=Programs("", DEFAULT, runner),
                runner=runner,
                compiler=None,
                on_stage=said.append,
                gpu=place,
                clock=clock,
            ),
            said,
        )
        place.leave()
    assert gpu.mine is None


def case_called(name: str, answer_bytes: int = 0) -> Case:
    expectation: Any = types.SimpleNamespace(answer_bytes=answer_bytes)
    fields = {"variant": "", "distribution": "", "train": False, "version": 0}
    return Case(name=name, expectation=expectation, **fields)


def raced(job: Job) -> list[tuple[str, str]]:
    return [(item.baseline, item.kind) for item in job.timings]


EVERY_RACE = [(name, kind) for name in ("eager", "compile") for kind in ("device", "latency")]


def test_a_candidate_ahead_is_told_of_before_torchs_compiler_is_there() -> None:
    gpu = Gpu()
    played = PlayedClock(gpu)
    with job_at(LateClock(lambda: played), gpu) as (job, said):
        race_original(job)
        assert raced(job) == EVERY_RACE[:2] and played.completed == 0
        deadline = job.runner.deadline
        race_compiled(job)
        assert raced(job) == EVERY_RACE
        assert said == ["ahead 1.50x"]
        assert job.notes == ["a note"]
        assert job.runner.deadline > deadline, "the compiler's time was the candidate's"


def test_a_file_that_may_be_shipped_races_by_a_third_clock_against_every_baseline() -> None:
    gpu = Gpu()
    played = PlayedClock(gpu)
    with job_at(LateClock(lambda: played), gpu) as (job, _):
        job.file = "the text of a file"
        race_original(job)
        race_compiled(job)
        kinds = ("device", "latency", "back_to_back")
        assert raced(job) == [(name, kind) for name in ("eager", "compile") for kind in kinds]
        assert len(played.names) == 2, "a baseline was raced twice"


@pytest.mark.parametrize(("answer_bytes", "looked_at"), [(0, "abcde"), (LARGE_BYTES, "ad")])
def test_no_look_is_taken_twice_and_none_is_left_over(answer_bytes: int, looked_at: str) -> None:
    gpu = Gpu()
    played = PlayedClock(gpu)
    with job_at(LateClock(lambda: played), gpu) as (job, _):
        trial = job.plan.trials[0]
        cases = tuple(case_called(name, answer_bytes) for name in "abcde")
        job.plan = dataclasses.replace(job.plan, trials=(dataclasses.replace(trial, looks=cases),))
        race_original(job)
        race_compiled(job)
    assert len(cases) == LOOKS and sorted(case.name for case in played.looked_at) == list(looked_at)


def test_one_that_is_not_ahead_is_not_said_to_be() -> None:
    gpu = Gpu()
    with job_at(LateClock(lambda: PlayedClock(gpu, speedup=1.005)), gpu) as (job, said):
        race_original(job)
        race_compiled(job)
        assert said == ["compiled"] and raced(job) == EVERY_RACE


def test_once_all_opponents_are_there_there_is_one_race() -> None:
    gpu = Gpu()
    played = PlayedClock(gpu)
    clock = LateClock(lambda: played)
    with job_at(clock, gpu) as (first, _):
        race_original(first)
        race_compiled(first)
    with job_at(clock, gpu) as (second, said):
        race_original(second)
        assert raced(second) == EVERY_RACE
        race_compiled(second)
        assert raced(second) == EVERY_RACE and said == [] and played.completed == 1


def test_a_profile_is_taken_in_the_last_race_before_the_gpu_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu()
    clock = LateClock(lambda: PlayedClock(gpu))
    held: list[Mode | None] = []

    def take(job: Job, candidate_ms: float) -> None:
        held.append(gpu.mine)
        job.step_times = ()

    monkeypatch.setattr(clock_stages, "_take_profile", take)
    for asked in (1, 2):
        with job_at(clock, gpu) as (job, _):
            race_original(job)
            assert len(held) == (0 if asked == 1 else 2), "the first still races what is being compiled"
            race_compiled(job)
            profile(job)
            assert held == [Mode.EXCLUSIVE] * asked


def test_who_raced_before_others_had_the_compiler_brought_in_races_the_rest() -> None:
    gpu = Gpu()
    played = PlayedClock(gpu)
    clock = LateClock(lambda: played)
    with job_at(clock, gpu) as (first, _):
        race_original(first)
    with job_at(clock, gpu) as (other, _):
        race_original(other)
        race_compiled(other)
    with job_at(clock, gpu) as (again, _):
        again.timings = first.timings
        race_compiled(again)
        assert raced(again) == EVERY_RACE and played.completed == 1


def test_where_torchs_compiler_makes_nothing_the_verdict_is_complete_without() -> None:
    gpu = Gpu()
    with job_at(LateClock(lambda: PlayedClock(gpu, compiles=False)), gpu) as (job, _):
        race_original(job)
        race_compiled(job)
        assert raced(job) == EVERY_RACE[:2]


def test_waiting_for_anothers_race_is_not_on_the_candidates_time() -> None:
    gpu = Gpu()
    with job_at(LateClock(lambda: PlayedClock(gpu)), gpu) as (job, _):
        race_original(job)  # now the clock is there, and only the GPU is waited for
        deadline = job.runner.deadline
        race_original(job)
        assert job.runner.deadline > deadline


def test_candidates_that_wait_for_the_clock_leave_the_gpu_to_who_makes_it() -> None:
    gpu = Gpu()
    at_work = threading.Barrier(3)

    def make() -> PlayedClock:
        with gpu(Mode.EXCLUSIVE):
            time.sleep(0.02)
            return PlayedClock(gpu)

    clock = LateClock(make)
    finished: list[list[tuple[str, str]]] = []

    def judge() -> None:
        with job_at(clock, gpu) as (job, _):
            with job.gpu(Mode.SHARED):  # a place, taken for the checks and kept
                at_work.wait()
            race_original(job)
            race_compiled(job)
            finished.append(raced(job))

    threads = [threading.Thread(target=judge) for _ in range(2)]
    for thread in threads:
        thread.start()
    at_work.wait()
    clock.begin()
    for thread in threads:
        thread.join(20)
    assert finished == [EVERY_RACE] * 2


def test_candidates_race_while_torchs_compiler_is_at_work_whoever_waits_for_it() -> None:
    gpu = Gpu()
    played = PlayedClock(gpu)
    played.compiling.clear()
    clock = LateClock(lambda: played)
    first_ahead = threading.Event()
    finished: list[list[tuple[str, str]]] = []

    def judge() -> None:
        with job_at(clock, gpu) as (job, said):
            job.on_stage = lambda text: (said.append(text), first_ahead.set())[0]
            race_original(job)
            race_compiled(job)
            finished.append(raced(job))

    waiting = threading.Thread(target=judge)
    waiting.start()
    assert first_ahead.wait(20)
    with job_at(clock, gpu) as (job, _):
        race_original(job)
        assert raced(job) == EVERY_RACE[:2]
    assert not finished
    played.compiling.set()
    waiting.join(20)
    assert finished == [EVERY_RACE]


def test_a_baseline_that_is_given_up_is_waited_for_no_more() -> None:
    gpu = Gpu()
    played = PlayedClock(gpu)
    with job_at(LateClock(lambda: played), gpu) as (job, _):
        race_original(job)
        played.await_compiler = lambda tell: setattr(played, "is_complete", True)  # type: ignore[method-assign]
        race_compiled(job)
        assert raced(job) == EVERY_RACE[:2] and played.completed == 0


@pytest.mark.parametrize(("peak_bytes", "breach"), [(3 << 20, True), (2 << 20, False)])
def test_a_bound_on_memory_holds_what_was_measured_against_the_candidate(peak_bytes: int, breach: bool) -> None:
    gpu = Gpu()
    with job_at(LateClock(lambda: PlayedClock(gpu)), gpu) as (job, _):
        job.settings = EvaluatorSettings(max_memory_ratio=2.0)
        job.peak_bytes, job.original_peak_bytes = peak_bytes, 1 << 20
        with pytest.raises(Failed) if breach else contextlib.nullcontext() as failed:
            clock_stages._check_device_memory(job)
        if failed is not None:
            assert failed.value.finding is Finding.MEMORY and not failed.value.may_lack_memory

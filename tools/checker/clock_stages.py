"""The stages that time a correct candidate and measure its use of the GPU. They run on a GPU only.

Timing may not be ready when the first candidate arrives, since it is calibrated and torch's compiler works on the
reference meanwhile. Outputs of timed calls are checked afterwards, so that the timed computation is the checked one.
"""

from __future__ import annotations

import torch

from triton_agent.tools.answers import checks
from triton_agent.tools.answers.timed_looks import IN_FIRST_RACE, IN_SECOND_RACE, Looks
from triton_agent.tools.cases.plan import Case
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.profiling import condensed
from triton_agent.tools.checker.questions import call, judge, program_of
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.shipped_file import NAME
from triton_agent.tools.errors import MemoryTaken
from triton_agent.tools.machine.baton import BATON
from triton_agent.tools.machine.lease import Mode
from triton_agent.tools.processes.digests import Digests
from triton_agent.tools.processes.protocol import Profiled, TakeProfile
from triton_agent.tools.race.speed import Race
from triton_agent.tools.race.timekeeper import Timekeeper
from triton_agent.tools.results import AHEAD, Determinism, Finding, Interval, Timing
from triton_agent.tools.settings import Profiling

SAME_CALLS = 3
LARGE_CALLS = 2
"""Number of calls if each answer is a gigabyte: two are enough to compare bits, and to measure after lasting
allocations."""
SMALL_BYTES = 1 << 20
"""Device memory below which the reference's usage is no basis for a limit."""
PROFILED_CALLS = 5
PROFILE_TIMEOUT_S = 20.0


def repeat_call(job: Job) -> None:
    """Make one call several times on a GPU, to compare the bits of the answers and to measure memory and resources."""
    clock = ready_clock(job)
    if clock is None:
        return
    trial = job.plan.trials[job.plan.main]
    case = trial.cases[0]
    digests = Digests(job.settings.device)
    replies = []
    first: tuple[torch.Tensor, ...] | None = None
    identical = True
    with job.gpu(Mode.SHARED):
        job.roofline = clock.roofline()
        if case.is_large:
            torch.cuda.empty_cache()  # the answers stay on the card
        for _ in range(LARGE_CALLS if case.is_large else SAME_CALLS):
            job.gpu.pause()
            answer, reply = call(job, trial, case, measure=True)
            judge(job, trial, case, answer)
            bits = (digests.of_rows(answer.data),) if case.is_large else answer.data
            del answer  # gigabytes, to be freed before the next call
            first = bits if first is None else first
            identical = identical and checks.same_bytes(first, bits)
            replies.append(reply)
    job.determinism = Determinism.IDENTICAL if identical else Determinism.DIFFERS
    job.resources = list(replies[-1].resources)
    job.peak_bytes = min(max(0, reply.peak_bytes) for reply in replies)  # the first call may allocate lasting memory
    job.original_peak_bytes = clock.original_peak_bytes
    if case.is_large:
        torch.cuda.empty_cache()  # the race needs room in both processes
        shares = torch.cuda.max_memory_reserved(), max(reply.process_bytes for reply in replies)
        job.notes.append(
            "device memory at most: checker {:,} MiB, executor {:,} MiB".format(*(b >> 20 for b in shares))
        )
    _check_device_memory(job)


def _check_device_memory(job: Job) -> None:
    """Refuse a candidate that exceeds the user's limit on device memory."""
    ratio, peak, original = job.settings.max_memory_ratio, job.peak_bytes, job.original_peak_bytes
    if ratio is None or peak is None or original is None:
        return
    if peak > ratio * max(original, SMALL_BYTES):
        raise Failed(
            Finding.MEMORY,
            f"a call takes {peak >> 10:,} KiB of device memory, the reference {original >> 10:,} KiB; "
            f"{ratio:g} times as much was allowed",
        )


def race_original(job: Job) -> None:
    """Time the candidate against the reference; a file that may be shipped also back to back."""
    clock = ready_clock(job)
    if clock is not None:
        enter_clock(job, clock)
        looks = Looks(_cases_to_look_at(job, IN_FIRST_RACE))
        with job.gpu(Mode.SHARED):
            looks.send_ahead(job.runner)
        with BATON.put_down(), job.gpu(Mode.EXCLUSIVE):
            races = clock.race(job.runner, looks, back_to_back=bool(job.file))
            if clock.is_complete:  # no other race follows, so profiling now saves another wait for the GPU
                _take_profile(job, races[0].candidate_ms())
        job.timings = timings_of(races)
        _check_answers(job, looks)


def race_compiled(job: Job) -> None:
    """Time the candidate against the compiled baselines, waiting for the compiler if necessary."""
    clock = ready_clock(job)
    if clock is None:
        return
    raced = len({timing.baseline for timing in job.timings})
    if not clock.is_complete or raced < clock.opponents:
        job.on_stage(ahead_by(job.timings))
        _race_latecomers(job, clock, raced)
    job.notes += clock.notes


def _race_latecomers(job: Job, clock: Timekeeper, raced: int) -> None:
    def tell() -> None:
        job.on_stage("waiting for torch.compile")

    job.gpu.leave()  # the compiling process gives way to others, and would wait for this candidate
    with job.runner.off_its_time():
        clock.await_compiler(tell)
    with job.gpu(Mode.SHARED), job.runner.off_its_time():
        clock.bring_in(tell)
    if raced == clock.opponents:  # no baseline was added
        return
    looks = Looks(_cases_to_look_at(job, IN_SECOND_RACE))
    with job.gpu(Mode.SHARED):
        looks.send_ahead(job.runner)
    with BATON.put_down(), job.gpu(Mode.EXCLUSIVE):
        races = clock.race(job.runner, looks, since=raced, back_to_back=bool(job.file))
    job.timings += timings_of(races)
    _check_answers(job, looks)


def _cases_to_look_at(job: Job, in_race: slice) -> tuple[Case, ...]:
    """Return the cases to look at in a race; only one of gigabytes, which takes seconds to send and to fetch."""
    cases = job.plan.trials[job.plan.main].looks[in_race]
    return cases[:1] if cases and cases[0].is_large else cases


def timings_of(races: list[Race]) -> list[Timing]:
    """Return the timings of races. Needs no lease of the GPU."""
    return [timing for race in races for timing in race.timings()]


def ahead_by(timings: list[Timing]) -> str:
    """Return the name of a stage that reports the speed-up so far, before the last baselines are timed."""
    return f"{AHEAD} {_least(timings).median:.2f}x" if is_ahead(timings) else "compiled"


def is_ahead(timings: list[Timing]) -> bool:
    """Return True if the candidate is faster than all baselines so far, with confidence."""
    return _least(timings).low > 1


def _least(timings: list[Timing]) -> Interval:
    return min((timing.speedup for timing in timings), key=lambda ratio: ratio.low)


def _check_answers(job: Job, looks: Looks) -> None:
    """Judge the outputs that were fetched during timing."""
    trial = job.plan.trials[job.plan.main]
    tree = job.programs.of(trial, trial.cases[0]).tape.tree
    with job.gpu(Mode.SHARED):
        looks.judge(tree, job.settings.device)


def profile(job: Job) -> None:
    """Profile a candidate that passed, if requested. This never changes the verdict."""
    raced_ms = [timing.candidate_ms.median for timing in job.timings if timing.kind == "device"]
    if job.clock is None or not raced_ms:
        return
    if job.step_times is None:
        with job.gpu(Mode.EXCLUSIVE):
            _take_profile(job, raced_ms[0])
    if not job.step_times:
        return
    trial = job.plan.trials[job.plan.main]
    program = job.programs.of(trial, trial.cases[0])
    try:
        job.profile = condensed(job.step_times, program, job.resources, call_ms=raced_ms[0], roofline=job.roofline)
    except ValueError as failure:
        job.notes.append(f"no profile could be taken: {str(failure)[:200]}")


def _take_profile(job: Job, candidate_ms: float) -> None:
    """Time the steps of a call, if requested. The GPU is held exclusively."""
    asked = job.settings.profile
    job.step_times = ()
    if job.file or asked is Profiling.NONE or (asked is Profiling.LEADERS and not job.leaders.admit(candidate_ms)):
        return
    try:
        reply, _ = job.runner.ask(TakeProfile(calls=PROFILED_CALLS), Profiled, timeout_s=PROFILE_TIMEOUT_S)
        job.step_times = reply.steps
    except (Failed, MemoryTaken) as failure:
        job.notes.append(f"no profile could be taken: {str(failure)[:200]}")


def ready_clock(job: Job) -> Timekeeper | None:
    """Return the clock, waiting until it is ready; None if nothing is timed. The wait extends the deadline.

    Release the GPU while waiting: the thread that makes the clock needs it exclusively.
    """
    if job.clock is None:
        return None
    if job.clock.made is not None:
        return job.clock.made
    job.gpu.leave()
    with job.runner.off_its_time():
        return job.clock.wait(lambda: job.on_stage("waiting for the clock"))


def enter_clock(job: Job, clock: Timekeeper) -> None:
    """Prepare the candidate for timing at the main sizes, while others may use the GPU."""
    trial = job.plan.trials[job.plan.main]
    with job.gpu(Mode.SHARED):
        job.gpu.pause()
        clock.enter(
            job.runner,
            list(job.plan.timing_sets),
            name=NAME if job.file else program_of(job, trial, trial.cases[0]).name,
            renewed=trial.order_is_free,
        )

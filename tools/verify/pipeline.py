"""The stages a candidate goes through, as values in a list: cheap ones first, one boundary for failures.

    screen    its text: is it Python, is there a ModelNew, does it reach for what no kernel file needs
    compile   ahead of time for the named target, by tracing its own host code; registers, spills, shared memory
    first     one call on the cheapest case; are its kernels launched, and does the answer depend on them
    check     every case of the plan
    repeat    on a GPU: the same call again, for equal bits, memory, and what its kernels need
    time      on a GPU: paired with the original, the GPU held alone
    compiled  on a GPU: the same against what torch's compiler was still making of the original
    profile   on a GPU and on request: where the device time goes

Each stage takes the job and either returns (go on) or raises `Failed` (the verdict is in).
"""

from __future__ import annotations

import dataclasses
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import torch

from triton_agent.tools.isolate.conditions import DEFAULT, Conditions
from triton_agent.tools.isolate.payloads import Payload
from triton_agent.tools.kernel_profile import Profile, Roofline
from triton_agent.tools.results import (
    AHEAD,
    CaseAccuracy,
    Determinism,
    Evidence,
    Finding,
    KernelLaunch,
    KernelResources,
    StageTime,
    Timing,
)
from triton_agent.tools.screen import screen
from triton_agent.tools.timing.clock_room import Place
from triton_agent.tools.timing.lease import Mode
from triton_agent.tools.verify import checks
from triton_agent.tools.verify.ahead import fill_cache
from triton_agent.tools.verify.authorship import (
    Work,
    check_alive,
    check_host,
    check_launches,
    check_library,
    check_record,
)
from triton_agent.tools.verify.late_clock import LateClock
from triton_agent.tools.verify.plan import Case, Plan, Trial
from triton_agent.tools.verify.profiling import condensed
from triton_agent.tools.verify.session import Failed, Session
from triton_agent.tools.verify.speed import Entrant
from triton_agent.tools.verify.timekeeper import Timekeeper


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """What holds for every candidate of a checker."""

    target: str | None = "cuda:90"
    """Ahead-of-time compilation target; None leaves the stage out."""
    allow_library: bool = False
    screen: bool = True
    """Whether the text is refused for what it reaches for; trust does not depend on it."""
    call_timeout_s: float = 20.0
    compile_timeout_s: float = 60.0
    total_timeout_s: float = 120.0
    device: str = "cpu"
    conditions: Conditions = DEFAULT
    max_memory_ratio: float | None = None
    """How many times the original's peak of device memory a call may take; None for any."""
    profile: bool = False


@dataclasses.dataclass(slots=True, kw_only=True)
class Job:
    """One candidate on its way through the stages, and what was learned so far."""

    source: str
    plan: Plan
    settings: JudgeSettings
    runner: Session
    compiler: Session | None
    """Without a GPU: compiles for the named target, and what fails there is the candidate's failure."""
    ahead: list[Session] = dataclasses.field(default_factory=list)
    """For a GPU: compile into the candidate's cache before it has its turn; nothing depends on them."""
    on_stage: Callable[[str], None]
    accuracy: list[CaseAccuracy] = dataclasses.field(default_factory=list)
    resources: list[KernelResources] = dataclasses.field(default_factory=list)
    launches: list[KernelLaunch] = dataclasses.field(default_factory=list)
    torch_operators: list[str] = dataclasses.field(default_factory=list)
    evidence: list[Evidence] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    stages: list[StageTime] = dataclasses.field(default_factory=list)
    timings: list[Timing] = dataclasses.field(default_factory=list)
    programs: list[dict[str, int]] = dataclasses.field(default_factory=list)
    """Of each kernel, launched by each call at the main sizes that was checked."""
    determinism: Determinism = Determinism.NOT_MEASURED
    peak_bytes: int | None = None
    original_peak_bytes: int | None = None
    roofline: Roofline | None = None
    profile: Profile | None = None
    failure: Failed | None = None
    gpu: Place
    """The GPU's lease; on a CPU there is nothing to hold."""
    clock: LateClock[Timekeeper] | None = None
    """What times candidates; None where nothing does."""
    misfit: str = ""
    """Parameters that did not find their namesake; explains wrong values."""


Stage = tuple[str, Callable[[Job], None]]


def run(job: Job, stages: Iterable[Stage]) -> None:
    """Through the stages until one fails; instrument errors pass through to the caller."""
    for name, stage in stages:
        job.on_stage(name)
        began = time.perf_counter()
        try:
            stage(job)
        except Failed as failure:
            job.failure = failure
            traceback.clear_frames(failure.__traceback__)  # they hold answers, and would until the next collection
            return
        finally:
            job.stages.append(StageTime(stage=name, wall_ms=(time.perf_counter() - began) * 1e3))


def screen_text(job: Job) -> None:
    objection = screen(job.source, strict=job.settings.screen)
    if objection is not None:
        raise Failed(objection.finding, objection.message)


def compile_ahead(job: Job) -> None:
    """Every launch of one call on the main trial's inputs compiles for the target."""
    if job.ahead:
        fill_cache(job.source, job.plan.trials, job.ahead, job.settings.conditions)
    if job.compiler is None:
        return
    trial = job.plan.trials[job.plan.main]
    _open(job, job.compiler, trial)
    reply, _ = job.compiler.ask(
        "compile",
        [trial.cases[0].expectation.packed_inputs],
        model=trial.variant,
        train=trial.cases[0].train,
        timeout_s=job.settings.compile_timeout_s,
    )
    job.resources = [KernelResources(**kernel) for kernel in reply["kernels"]]
    failure = reply["failure"]
    if failure:
        where = f"line {failure['line']}: " if failure.get("line") else ""
        raise Failed(Finding.COMPILE, f"{where}kernel {failure['kernel']}: {failure['cause']}")
    raised = reply["raised_in_host_code"]
    if raised and not job.resources:
        job.notes.append(f"host code raised before any kernel compiled ahead of time: {raised['kind']}")


def first_call(job: Job) -> None:
    """The cheapest case alone, with the proof of authorship."""
    job.runner.await_ready()  # it may wait for the GPU itself, so not with the GPU in our hands
    with job.gpu(Mode.SHARED):
        _first_call(job)


def _first_call(job: Job) -> None:
    trial = job.plan.trials[0]
    _open(job, job.runner, trial)
    answer, reply = _call(job, trial, trial.cases[0], slot=0, prove=True)
    _judge(job, trial.cases[0], answer)
    _record_first(job, reply)
    if reply["unjoined"]:
        raise Failed(Finding.FALSE_CLOCK, str(reply["unjoined"]))
    _check_authorship(job, 0, trial.cases[0], reply)
    right = _right_when_silenced(job, trial)
    if job.settings.device == "cuda":
        _open(job, job.runner, trial, afresh=True)
    check_alive(right, len(trial.cases[0].expectation.outputs) or 1, allow_library=job.settings.allow_library)


def check_all(job: Job) -> None:
    """Every case of every trial; the first trial's first case is done."""
    with job.gpu(Mode.SHARED):
        _check_all(job)


def _check_all(job: Job) -> None:
    order = [job.plan.main, *(i for i in range(len(job.plan.trials)) if i != job.plan.main)]
    for index in order:
        trial = job.plan.trials[index]
        if index != 0:
            _open(job, job.runner, trial)
        _run_trial(job, trial, done=1 if index == 0 and index != job.plan.main else 0)


def call_again(job: Job) -> None:
    """On a GPU: one question several times over, for whether the bits agree and what a call takes of the GPU."""
    clock = ready_clock(job)
    if clock is None:
        return
    trial = job.plan.trials[job.plan.main]
    case = trial.cases[0]
    replies = []
    answers: list[tuple[torch.Tensor, ...]] = []
    with job.gpu(Mode.SHARED):
        for number in range(SAME_CALLS):
            _set_parameters(job, job.runner, trial, case.version)
            answer, reply = _call(job, trial, case, slot=SAME_AGAIN + number, measure=True)
            _judge(job, case, answer)
            answers.append(answer.data)
            replies.append(reply)
        job.roofline = clock.roofline()
    identical = all(checks.same_bytes(answers[0], answer) for answer in answers[1:])
    job.determinism = Determinism.IDENTICAL if identical else Determinism.DIFFERS
    job.resources = _resources(replies[-1])
    job.peak_bytes = min(max(0, int(reply["peak_bytes"])) for reply in replies)  # the first may hold what stays
    job.original_peak_bytes = clock.original_peak_bytes
    _check_memory(job)


def _resources(reply: dict[str, Any]) -> list[KernelResources]:
    try:
        return [KernelResources(**kernel) for kernel in reply["resources"]]
    except TypeError as error:
        raise Failed(Finding.TAMPERED, f"the worker's answer contradicts itself ({error})") from error


def _check_memory(job: Job) -> None:
    """Where the user set a bound on the device memory of a call."""
    ratio, peak, original = job.settings.max_memory_ratio, job.peak_bytes, job.original_peak_bytes
    if ratio is None or peak is None or original is None:
        return
    if peak > ratio * max(original, SMALL_BYTES):
        raise Failed(
            Finding.MEMORY,
            f"a call takes {peak >> 10:,} KiB of device memory, the original {original >> 10:,} KiB; "
            f"{ratio:g} times as much was allowed",
        )


def take_time(job: Job) -> None:
    """Race the candidate against the original."""
    clock = ready_clock(job)
    if clock is not None:
        entrant = enter_clock(job, clock)
        with job.gpu(Mode.EXCLUSIVE):
            job.timings = clock.race(entrant)
        _still_right(job)


def take_time_compiled(job: Job) -> None:
    """Race it once more, against those that entered later; whoever is first here has them brought in."""
    clock = ready_clock(job)
    if clock is None:
        return
    raced = len(job.timings) // KINDS_OF_TIME
    if not clock.is_complete or raced < clock.opponents:
        job.on_stage(ahead_by(job.timings))
        _race_the_rest(job, clock, raced)
    job.notes += clock.notes


def _race_the_rest(job: Job, clock: Timekeeper, raced: int) -> None:
    entrant = enter_clock(job, clock)
    with job.gpu(Mode.EXCLUSIVE):
        with job.runner.off_its_time():
            clock.complete(lambda: job.on_stage("waiting for torch.compile"))
        if raced == clock.opponents:  # torch's compiler could not make anything of the original
            return
        job.timings += clock.race(entrant, since=raced)
    _still_right(job)


def ahead_by(timings: list[Timing]) -> str:
    """In words, what is known of a candidate that is right and was timed against some opponents; the rest follows."""
    least = min((timing.speedup for timing in timings), key=lambda ratio: ratio.low)
    return f"{AHEAD} {least.median:.2f}x" if least.low > 1 else "compiled"


def _still_right(job: Job) -> None:
    """What was timed has to be what was checked."""
    trial = job.plan.trials[job.plan.main]
    with job.gpu(Mode.SHARED):
        _check_memory_of_answers(job, trial, job.plan.timing_sets[-1])
        _set_parameters(job, job.runner, trial, 0)
        for slot, case in enumerate(trial.cases[:2]):
            answer, _ = _call(job, trial, case, slot=AFTER_THE_CLOCK + slot)
            _judge(job, case, answer)


def _check_memory_of_answers(job: Job, trial: Trial, timed: Payload) -> None:
    """With inputs that were timed a call launches what it did with new ones: else it knows them by their contents."""
    case = trial.cases[0]
    reply, _ = job.runner.ask(
        "call",
        [timed],
        expected_bytes=case.expectation.answer_bytes,
        model=trial.variant,
        slot=TIMED_BEFORE,
        overwrite=None,
        train=case.train,
        silenced=False,
        salt=0,
        prove=False,
        measure=False,
    )
    now = _programs(reply)
    for kernel in set.intersection(*map(set, job.programs)) if job.programs else ():
        least = min(programs[kernel] for programs in job.programs)
        if now.get(kernel, 0) < LEAST_SHARE_OF_PROGRAMS * least:
            raise Failed(
                Finding.FALSE_CLOCK,
                f"on inputs that were timed a call launches {now.get(kernel, 0)} programs of {kernel}, on new ones "
                f"{least} and more: what was timed is a memory of earlier answers",
            )


def _programs(reply: dict[str, Any]) -> dict[str, int]:
    """How many of each kernel a call launched."""
    return {item.kernel: item.programs for item in _launch_counts(reply["launches"])}


def look_inside(job: Job) -> None:
    """On request, after a pass: a profile. Whatever happens here changes no verdict."""
    if job.clock is None or not job.settings.profile:
        return
    trial = job.plan.trials[job.plan.main]
    try:
        with job.gpu(Mode.EXCLUSIVE):
            reply, _ = job.runner.ask(
                "profile",
                [trial.cases[0].expectation.packed_inputs],
                model=trial.variant,
                train=trial.cases[0].train,
                calls=PROFILED_CALLS,
                timeout_s=PROFILE_TIMEOUT_S,
            )
        job.profile = condensed(reply["rows"], PROFILED_CALLS, job.launches, job.resources)
    except (Failed, KeyError, TypeError, ValueError) as failure:
        job.notes.append(f"no profile could be taken: {str(failure)[:200]}")


KINDS_OF_TIME = 2
"""Timings for each opponent: of the device, and of a call."""
SAME_CALLS = 3
SAME_AGAIN = 20_000
AFTER_THE_CLOCK = 10_000
TIMED_BEFORE = 30_000
"""Slots of calls that no other call is compared with."""
LEAST_SHARE_OF_PROGRAMS = 0.5
"""Of a kernel's programs in a call, which may depend a little on what the inputs hold."""
SMALL_BYTES = 1 << 20
"""Of device memory; what an original takes below this is no measure for anybody."""
PROFILED_CALLS = 5
PROFILE_TIMEOUT_S = 60.0
"""The first use of the profiler takes some three seconds, and loads libraries from the disk."""

STAGES: tuple[Stage, ...] = (
    ("screen", screen_text),
    ("compile", compile_ahead),
    ("first", first_call),
    ("check", check_all),
    ("repeat", call_again),
    ("time", take_time),
    ("compiled", take_time_compiled),
    ("profile", look_inside),
)


def _open(job: Job, session: Session, trial: Trial, *, silenced: bool = False, afresh: bool = False) -> None:
    """Bring the candidate to life for one variant: file, module, parameters."""
    session.await_ready()
    if session.phase == "ready" or silenced or afresh:
        reply, _ = session.ask("load", source=job.source, conditions=dataclasses.asdict(job.settings.conditions))
        if "no_model" in reply:
            raise Failed(Finding.NO_MODEL, "ModelNew is not a subclass of torch.nn.Module")
    session.ask("build", [trial.packed_init], model=trial.variant, seed=trial.build_seed, silenced=silenced)
    _set_parameters(job, session, trial, 0)


def start(job: Job, session: Session, trial: Trial) -> None:
    """For other orders of questions than this one: the candidate as new, in a worker that may have run others."""
    _open(job, session, trial, afresh=True)


def ask_once(job: Job, trial: Trial, case: Case) -> dict[str, Any]:
    """One question, its answer judged; what the worker reported."""
    answer, reply = _call(job, trial, case, slot=0)
    _judge(job, case, answer)
    return reply


def ready_clock(job: Job) -> Timekeeper | None:
    """The clock, once it is made; None where nothing is timed. Waiting is not on the candidate's time.

    The place at the GPU is given up for it: who makes the clock needs the GPU alone.
    """
    if job.clock is None:
        return None
    if job.clock.made is not None:
        return job.clock.made
    job.gpu.leave()
    with job.runner.off_its_time():
        return job.clock.wait(lambda: job.on_stage("waiting for the clock"))


def enter_clock(job: Job, clock: Timekeeper) -> Entrant:
    """The candidate at the start, at the main sizes; others may use the GPU until the race."""
    trial = job.plan.trials[job.plan.main]
    with job.gpu(Mode.SHARED):
        return clock.enter(job.runner, list(job.plan.timing_sets), model=trial.variant, train=trial.cases[0].train)


def _set_parameters(job: Job, session: Session, trial: Trial, version: int) -> None:
    reply, _ = session.ask("parameters", [trial.states[version]], model=trial.variant)
    if reply["misfits"]:
        raise Failed(
            Finding.CONSTRUCT, f"parameters have other shapes than the original's: {', '.join(reply['misfits'])}"
        )
    if reply["missing"]:
        job.misfit = f"ModelNew has no parameter or buffer named {', '.join(reply['missing'][:6])}"


def _run_trial(job: Job, trial: Trial, *, done: int) -> None:
    version, earlier = 0, None
    held: list[tuple[int, Case, tuple[torch.Tensor, ...]]] = []
    for slot, case in enumerate(trial.cases):
        if slot < done:
            continue
        stateful = bool(case.expectation.state_after)
        if case.version != version or stateful:
            _set_parameters(job, job.runner, trial, case.version)
        version = case.version
        answer, called = _call(job, trial, case, slot=slot, overwrite=slot - 1 if case.overwrite and earlier else None)
        _judge(job, case, answer, earlier and earlier[1])
        if trial is job.plan.trials[job.plan.main]:  # at other sizes an honest file may step aside
            _check_authorship(job, job.plan.main, case, called)
        if stateful or slot == 0:
            size = case.expectation.state_bytes
            reply, blobs = job.runner.ask("state", model=trial.variant, expected_bytes=size)
            checks.check_state(case, reply, blobs, job.settings.device)
        earlier = (case, answer)
        held.append((slot, case, answer.data))
    for slot, case, data in held[:-1]:
        _, blobs = job.runner.ask("read", slot=slot, expected_bytes=case.expectation.answer_bytes)
        checks.check_held(case, data, blobs)


def _call(
    job: Job,
    trial: Trial,
    case: Case,
    *,
    slot: int,
    overwrite: int | None = None,
    silenced: bool = False,
    salt: int = 0,
    prove: bool = False,
    measure: bool = False,
) -> tuple[checks.Answer, dict[str, Any]]:
    reply, blobs = job.runner.ask(
        "call",
        [case.expectation.packed_inputs],
        expected_bytes=case.expectation.answer_bytes,
        model=trial.variant,
        slot=slot,
        overwrite=overwrite,
        train=case.train,
        silenced=silenced,
        salt=salt,
        prove=prove,
        measure=measure,
    )
    checks.check_faults(case, reply["faults"])
    return checks.read_answer(reply, blobs, job.settings.device), reply


def _judge(job: Job, case: Case, answer: checks.Answer, earlier: checks.Answer | None = None) -> None:
    """All questions about one answer, in order."""
    if case.verify is None:
        checks.check_structure(case, answer)
        checks.check_form(case, answer)
        rows, failure = checks.measure(case, answer)
    else:
        rows, failure = checks.ask_verifier(case, case.verify, answer)
    job.accuracy += rows
    if failure is not None:
        failure = checks.explain_wrong(failure, case, answer, earlier, case.stale)
        if job.misfit:
            failure = Failed(failure.finding, f"{failure.message}\nlikely cause: {job.misfit}")
        raise failure
    checks.check_inputs(case, answer)
    checks.check_aliases(case, answer)


def _record_first(job: Job, reply: dict[str, Any]) -> None:
    """What the diagnosis reports: the kernels of one call, and torch's operators beside them."""
    job.launches = _launch_counts(reply["launches"])
    work = Work.of(reply)
    job.torch_operators = [*work.heavy, *work.light]


def _check_authorship(job: Job, trial: int, case: Case, reply: dict[str, Any]) -> None:
    """Kernels were launched in this call, and torch did not do their work."""
    empty = case.verify is None and all(output.yard.original.numel() == 0 for output in case.expectation.outputs)
    check_record(reply)
    check_launches(len(reply["launches"]), empty_outputs=empty)
    work = Work.of(reply)
    check_host(work, case.expectation.elements)
    check_library(work, job.plan.work[trial], allow_library=job.settings.allow_library)
    checks.check_races(case, reply["launches"])
    if trial == job.plan.main:
        job.programs.append(_programs(reply))


def _right_when_silenced(job: Job, trial: Trial) -> list[str]:
    """Outputs that are right although no kernel runs, whatever fresh memory was filled with.

    On other inputs than before, where there are some: an answer left from the last call is no sign of a dead kernel.
    """
    case = next((case for case in trial.cases[1:] if case.version == 0), trial.cases[0])
    if case.verify is None and not any(output.yard.original.numel() for output in case.expectation.outputs):
        return []
    right: set[str] = set()
    if job.settings.device == "cuda":  # a graph captured before would replay unseen: start from nothing, in silence
        _open(job, job.runner, trial, silenced=True)
    for salt in (0, 1):
        try:
            answer, _ = _call(job, trial, case, slot=-1 - salt, silenced=True, salt=salt)
        except Failed as failure:
            if failure.worker_died or failure.finding is Finding.TOO_SLOW:
                raise
            return []  # host code that stumbles over missing results depends on them
        found = set(checks.still_right(case, answer))
        right = found if salt == 0 else right & found
        if not right:
            return []
    return sorted(right)


def _launch_counts(launches: list[dict[str, Any]]) -> list[KernelLaunch]:
    names = list(dict.fromkeys(launch["kernel"] for launch in launches))
    return [_counted(name, [launch for launch in launches if launch["kernel"] == name]) for name in names]


def _counted(name: str, launches: list[dict[str, Any]]) -> KernelLaunch:
    return KernelLaunch(
        kernel=name,
        launches=len(launches),
        programs=sum(launch["programs"] for launch in launches),
        bytes_loaded=_total(launch["bytes_loaded"] for launch in launches),
        bytes_stored=_total(launch["bytes_stored"] for launch in launches),
    )


def _total(counts: Iterable[int | None]) -> int | None:
    """The sum, unless somewhere nothing was counted."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)

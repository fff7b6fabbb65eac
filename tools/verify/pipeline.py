"""The stages a candidate goes through, as values in a list: cheap ones first, one boundary for failures.

    screen    its text: is it Python, is there a ModelNew, does it reach for what no kernel file needs
    compile   ahead of time for the named target, by tracing its own host code; registers, spills, shared memory
    first     one call on the cheapest case; are its kernels launched, and does the answer depend on them (where not:
              the same at the main sizes)
    check     every case of the plan
    repeat    on a GPU: the same call again, for equal bits, memory, and what its kernels need
    time      on a GPU: paired with the original, the GPU held alone
    compiled  on a GPU: the same against what torch's compiler was still making of the original
    profile   on a GPU and on request: where the device time goes

Each stage takes the job and either returns (go on) or raises `Failed` (the verdict is in). Those of the clock, from
`repeat` on, are in `clock_stages.py`.
"""

from __future__ import annotations

import secrets
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from triton_agent.tools.results import Finding, KernelResources, StageTime
from triton_agent.tools.screen import screen
from triton_agent.tools.timing.lease import Mode
from triton_agent.tools.verify import checks
from triton_agent.tools.verify.ahead import fill_cache
from triton_agent.tools.verify.authorship import (
    Work,
    check_alive,
    check_host,
    check_kernels_of_others,
    check_launches,
    check_library,
    check_record,
)
from triton_agent.tools.verify.clock_stages import profile, race_compiled, race_original, repeat_call
from triton_agent.tools.verify.job import Job
from triton_agent.tools.verify.plan import ONE_CHANGED, Case, Trial
from triton_agent.tools.verify.questions import (
    bring_to_life,
    by_kernel,
    call,
    judge,
    launch_counts,
    look_again,
    refuse_remembered_answers,
    refuse_spoiled_answer,
    right_in_silence,
    set_parameters,
)
from triton_agent.tools.verify.session import Failed

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
    bring_to_life(job, job.compiler, trial)
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
    job.let_forerunner_ahead()
    with job.gpu(Mode.SHARED):
        _first_call(job)


def _first_call(job: Job) -> None:
    try:
        _prove(job, 0)
    except Failed as failed:
        if job.plan.main == 0 or failed.finding not in (Finding.NO_LAUNCH, Finding.LIBRARY_WORK, Finding.DEAD_KERNEL):
            raise
        _prove(job, job.plan.main)  # a file may leave small sizes to torch


def _prove(job: Job, index: int) -> None:
    """That its kernels do the work in the first case of a trial."""
    trial = job.plan.trials[index]
    bring_to_life(job, job.runner, trial)
    answer, reply = call(job, trial, trial.cases[0], slot=0, prove=True)
    judge(job, trial.cases[0], answer)
    _record_first(job, reply)
    if reply["unjoined"]:
        raise Failed(Finding.FALSE_CLOCK, str(reply["unjoined"]))
    _check_authorship(job, index, trial.cases[0], reply)
    right = _right_when_silenced(job, trial)
    if job.settings.device == "cuda":
        bring_to_life(job, job.runner, trial, afresh=True)
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
            bring_to_life(job, job.runner, trial)
        _run_trial(job, trial, done=1 if index == 0 and index != job.plan.main else 0)


def _run_trial(job: Job, trial: Trial, *, done: int) -> None:
    version, earlier = 0, None
    noted = _noted(trial, done) if trial is job.plan.trials[job.plan.main] else None
    held: list[tuple[int, Case, checks.Answer]] = []
    looked_at_whole = done + secrets.randbelow(max(1, len(trial.cases) - done))
    for slot, case in enumerate(trial.cases):
        if slot < done:
            continue
        job.gpu.pause()
        stateful = bool(case.expectation.state_after)
        if case.version != version or stateful:
            set_parameters(job, job.runner, trial, case.version)
        version = case.version
        over = slot - 1 if case.overwrite and earlier else None
        whole = slot == looked_at_whole
        answer, called = call(job, trial, case, slot=slot, overwrite=over, noted=slot == noted, whole=whole)
        judge(job, case, answer, earlier and earlier[1])
        if slot == noted:
            refuse_spoiled_answer(job, trial, slot)
        if trial is job.plan.trials[job.plan.main]:  # at other sizes an honest file may step aside
            _check_authorship(job, job.plan.main, case, called)
        if stateful or slot == 0:
            size = case.expectation.state_bytes
            reply, blobs = job.runner.ask("state", model=trial.variant, expected_bytes=size)
            checks.check_state(case, reply, blobs, job.settings.device)
        earlier = (case, answer)
        held.append((slot, case, answer))
    for slot, case, answer in held[:-1]:
        look_again(job, case, answer, slot, whole=slot == looked_at_whole)
    checks.check_own_memory([answer for _, _, answer in held])
    if trial is job.plan.trials[job.plan.main]:
        refuse_remembered_answers(job, trial, [case for case in trial.cases if case.version == version])


def _noted(trial: Trial, done: int) -> int | None:
    """The last call with parameters that the one before had already: what is made of them is there by then."""
    cases = trial.cases
    slots = [slot for slot in range(done + 1, len(cases)) if cases[slot].version == cases[slot - 1].version]
    return None if any(case.expectation.state_after for case in cases) else max(slots, default=None)


def _record_first(job: Job, reply: dict[str, Any]) -> None:
    """What the diagnosis reports: the kernels of one call, and torch's operators beside them."""
    job.launches = launch_counts(reply["launches"])
    work = Work.of(reply)
    job.torch_operators = [*work.heavy, *work.light]


def _check_authorship(job: Job, trial: int, case: Case, reply: dict[str, Any]) -> None:
    """Kernels were launched in this call, and torch did not do their work."""
    empty = case.verify is None and all(output.yard.original.numel() == 0 for output in case.expectation.outputs)
    check_record(reply)
    check_launches(len(reply["launches"]), empty_outputs=empty)
    work = Work.of(reply)
    check_host(work, case.expectation.elements)
    check_kernels_of_others(reply["others"], allow_library=job.settings.allow_library)
    check_library(work, job.plan.work[trial], allow_library=job.settings.allow_library)
    checks.check_races(case, reply["launches"])
    if trial == job.plan.main and case.distribution != ONE_CHANGED:  # which a memory of rows knows but for one
        job.called.append(by_kernel(reply["launches"]))


def _right_when_silenced(job: Job, trial: Trial) -> list[str]:
    """Outputs that are right although no kernel runs, whatever fresh memory was filled with.

    On other inputs than before, where there are some: an answer left from the last call is no sign of a dead kernel.
    """
    case = next((case for case in trial.cases[1:] if case.version == 0), trial.cases[0])
    if case.verify is None and not any(output.yard.original.numel() for output in case.expectation.outputs):
        return []
    if job.settings.device == "cuda":  # a graph captured before would replay unseen: start from nothing, in silence
        bring_to_life(job, job.runner, trial, silenced=True)
    return right_in_silence(job, trial, case)


STAGES: tuple[Stage, ...] = (
    ("screen", screen_text),
    ("compile", compile_ahead),
    ("first", first_call),
    ("check", check_all),
    ("repeat", repeat_call),
    ("time", race_original),
    ("compiled", race_compiled),
    ("profile", profile),
)

"""The stages a candidate goes through, as values in a list: cheap ones first, one boundary for failures.

    screen    its text: is it Python, is there a ModelNew, does it reach for what no kernel file needs
    trace     its Python runs on tensors without values, once for every form of call; out come tapes
    compile   ahead of time for the named target, or into the executor's cache; registers, spills, shared memory
    first     one call on the cheapest case; do the results depend on its kernels, and do these do the work (where not:
              the same at the main sizes)
    check     every case of the plan
    spots     without a GPU, after `file`: some programs at sizes that are too large to be run whole
    file      of a shipped file: the file itself on the cases at the main sizes; other candidates have none
    repeat    on a GPU: the same call again, for equal bits, memory, and what its kernels need
    time      on a GPU: paired with the reference, the GPU held alone
    compiled  on a GPU: the same against what torch's compiler was still making of the reference
    profile   on a GPU, for the fastest so far: where the device time goes

Each stage takes the job and either returns (go on) or raises `Failed` (the verdict is in). Those of the clock, from
`repeat` on, are in `clock_stages.py`.
"""

from __future__ import annotations

import dataclasses
import time
import traceback
from collections.abc import Callable, Iterable

from triton_agent.tools.answers import checks
from triton_agent.tools.answers.authorship import (
    bytes_of_arguments,
    check_alive,
    check_bytes,
    check_kernels,
    check_launches,
    check_library,
    work_of,
)
from triton_agent.tools.answers.spot_checks import (
    compare_written,
    fillings,
    position_named,
    programs_to_run,
    tells_by_parts,
)
from triton_agent.tools.candidate.screen import screen
from triton_agent.tools.checker.clock_stages import profile, race_compiled, race_original, repeat_call
from triton_agent.tools.checker.compiling import compile_for_target, fill_cache
from triton_agent.tools.checker.fresh_memory import check_fresh_memory
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.questions import call, judge, launch_counts, right_in_silence, send_program
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.shipped_file import check_file
from triton_agent.tools.machine.lease import Mode
from triton_agent.tools.processes.protocol import Called, GetState, State
from triton_agent.tools.results import Finding, StageTime
from triton_agent.tools.tape.tape import encode
from triton_agent.tools.truth.layouts import LAYOUTS
from triton_agent.tools.truth.named_numbers import numbers_on
from triton_agent.tools.truth.plan import Case, Trial

Stage = tuple[str, Callable[[Job], None]]
NAMED_NUMBERS_BYTES = 16 << 20
"""Inputs larger than this hold no numbers that a candidate names; a smaller size of the problem is asked instead."""


def run(job: Job, stages: Iterable[Stage]) -> None:
    """Run the stages until one fails; errors of the instrument pass through to the caller."""
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


def trace_calls(job: Job) -> None:
    """Trace every call that will be made."""
    for trial in job.plan.trials:
        for case in trial.cases:
            job.programs.of(trial, case)


def compile_ahead(job: Job) -> None:
    """Compile the main trial's first call for the target, or all tapes into the executor's cache."""
    if job.ahead:
        fill_cache(job.programs.all(), job.ahead)
    if job.compiler is not None:
        trial = job.plan.trials[job.plan.main]
        program = job.programs.of(trial, trial.cases[0])
        job.resources = compile_for_target(program, job.compiler, job.settings.compile_timeout_s)


def first_call(job: Job) -> None:
    """Check the cheapest case alone, and that the candidate's kernels do the work."""
    job.runner.await_ready()  # it may wait for the GPU itself, so not with the GPU in our hands
    with job.gpu(Mode.SHARED):
        try:
            _prove(job, 0)
        except Failed as failed:
            elsewhere = (Finding.NO_LAUNCH, Finding.LIBRARY_WORK, Finding.DEAD_KERNEL)
            if job.plan.main == 0 or failed.finding not in elsewhere:
                raise
            _prove(job, job.plan.main)  # a file may leave small sizes to torch


def _prove(job: Job, index: int) -> None:
    """Check that the candidate's kernels do the work in the first case of a trial."""
    trial = job.plan.trials[index]
    case = trial.cases[0]
    answer, reply = call(job, trial, case)
    judge(job, trial, case, answer)
    job.launches = launch_counts(reply.launches)
    work = work_of(job.programs.of(trial, case).tape)
    job.torch_operators = [*work.heavy, *work.light]
    _check_authorship(job, index, case, reply)
    has_values = case.verify is not None or any(out.yard.original.numel() for out in case.expectation.outputs)
    right = right_in_silence(job, trial, case) if has_values else []
    check_alive(right, len(case.expectation.outputs) or 1, allow_library=job.settings.allow_library)


def check_all(job: Job) -> None:
    """Check every case of every trial, the main trial first."""
    job.await_room()
    with job.gpu(Mode.SHARED):
        for index in [job.plan.main, *(i for i in range(len(job.plan.trials)) if i != job.plan.main)]:
            _run_trial(job, index)
        _ask_for_named_numbers(job)
        check_fresh_memory(job, job.plan.trials[0], job.plan.trials[0].cases[0])


def _ask_for_named_numbers(job: Job) -> None:
    """Check inputs that hold the numbers which the candidate's kernels name.

    These cases are made for each candidate, so large problems are asked at one of their smaller sizes.
    """
    main = job.plan.trials[job.plan.main]
    small = [trial for trial in job.plan.trials if _input_bytes(trial) <= NAMED_NUMBERS_BYTES]
    trial = main if main in small or not small else max(small, key=_input_bytes)
    if trial.holding is None:
        return
    named = job.programs.of(main, main.cases[0])
    program = job.programs.of(trial, trial.cases[0])
    for case, state in trial.holding(numbers_on(named.tape, named.kernel_set)):
        states = (*trial.states[: case.version], state) if state is not None else trial.states
        job.prepared[program.name] = None
        asked = dataclasses.replace(trial, states=states)
        answer, _ = call(job, asked, case)
        judge(job, asked, case, answer)
        job.prepared[program.name] = None


def _input_bytes(trial: Trial) -> int:
    return trial.cases[0].expectation.packed_inputs.size_bytes


def check_spots(job: Job) -> None:
    """Check a few programs at the problem's full size, or as far as the candidate's kernels name positions."""
    if job.plan.spots is None or job.settings.device != "cpu":
        return
    trial = job.plan.trials[job.plan.main]
    small = job.programs.of(trial, trial.cases[0])
    numbers = numbers_on(small.tape, small.kernel_set)
    spot = job.plan.spots.reaching(position_named(numbers, small.tape, job.plan.spots.visited))
    if spot is None:
        return
    case = spot.trial.cases[0]
    try:
        program = job.programs.of(spot.trial, case)
    except Failed as failed:
        job.notes.append(f"{case.name}: not looked at, since it has no tape there ({failed.message[:200]})")
        return
    if spot.is_as_given:
        check_launches(program.tape, empty_outputs=False)
        check_library(work_of(program.tape), spot.work, allow_library=job.settings.allow_library)
    if not tells_by_parts(program.tape, program.kernel_set):
        job.notes.append(f"{case.name}: not looked at, since no part of the answer is made by some programs alone")
        return
    only = programs_to_run(numbers_on(program.tape, program.kernel_set), program.tape)
    answers = []
    # The tape as it is comes last: with poison for what left-out programs would have written, an honest lookup ends
    # outside of its table. With zeros it does not; what fails with these is the candidate's own fault.
    filled = [
        dataclasses.replace(program, name=f"{program.name} / {number}", tape=tape, encoded=encode(tape))
        for number, tape in enumerate(fillings(program.tape, program.kernel_set))
    ]
    try:
        for other in filled:
            send_program(job, other, spot.trial.states[0])
            answers.append(call(job, spot.trial, case, only=only, program=other)[0].tensors)
        answers.append(call(job, spot.trial, case, only=only)[0].tensors)
    except Failed as failed:
        if failed.finding is not Finding.TOO_SLOW and not answers:
            raise
        if len(answers) < max(len(filled), 1):
            why = f"some programs do not run alone ({failed.message[:200]})"
            job.notes.append(f"{case.name}: not looked at, since {why}")
            return
    compare_written(case, answers[::-1])


def _run_trial(job: Job, index: int) -> None:
    trial = job.plan.trials[index]
    for case in trial.cases:
        job.gpu.pause()
        answer, reply = call(job, trial, case)
        judge(job, trial, case, answer)
        checks.check_races(case, reply.launches)
        # at other sizes an honest file may step aside, and inputs that lie otherwise it may have copied
        if index == job.plan.main and case.distribution not in LAYOUTS:
            _check_authorship(job, index, case, reply)
        program = job.programs.of(trial, case)
        if case.expectation.state_after or case is trial.cases[0] or program.writes_state:
            state, blobs = job.runner.ask(
                GetState(name=program.name), State, expected_bytes=case.expectation.state_bytes
            )
            checks.check_state(case, state, blobs, job.settings.device)


def _check_authorship(job: Job, trial: int, case: Case, reply: Called) -> None:
    """Check that kernels were launched in this call, and that torch did not do their work."""
    empty = case.verify is None and all(output.yard.original.numel() == 0 for output in case.expectation.outputs)
    allowed = job.settings.allow_library
    program = job.programs.of(job.plan.trials[trial], case)
    tape = program.tape
    check_launches(tape, empty_outputs=empty)
    check_kernels(program.kernel_set, job.source, allow_library=allowed)
    work = work_of(tape, with_prologue=job.plan.work[trial].without_inputs)
    check_library(work, job.plan.work[trial], allow_library=allowed)
    if not empty:
        counted = [count for launch in reply.launches for count in (launch.bytes_loaded, launch.bytes_stored)]
        known = [count for count in counted if count is not None]
        moved = sum(known) if len(known) == len(counted) else bytes_of_arguments(tape)
        check_bytes(work, moved, job.plan.work[trial], allow_library=allowed)
    checks.check_races(case, reply.launches)


TRIAL_STAGES: tuple[Stage, ...] = (
    ("screen", screen_text),
    ("trace", trace_calls),
    ("compile", compile_ahead),
    ("first", first_call),
)
"""Enough to tell an author of errors early; what passes them has no verdict."""
STAGES: tuple[Stage, ...] = (
    *TRIAL_STAGES,
    ("check", check_all),
    ("file", check_file),
    ("spots", check_spots),
    ("repeat", repeat_call),
    ("time", race_original),
    ("compiled", race_compiled),
    ("profile", profile),
)

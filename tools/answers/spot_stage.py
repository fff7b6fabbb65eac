"""The stage `spots`: without a GPU, some programs run at the problem's full size, or at a larger one.

What a few programs write is final if it does not depend on skipped ones (`answers/spot_checks.py`). Where everything
does, launches that only prepare the last one run whole, as far as that takes seconds. The calls of the reference are
made once per problem (`answers/spots.py`). Not covered: launches that add to the same elements, or that all write the
answer; they run whole, if there is time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Sequence

import torch

from triton_agent.tools.answers import checks
from triton_agent.tools.answers.authorship import check_launches, check_library, work_of
from triton_agent.tools.answers.spot_checks import (
    COVERED,
    DOUBTFUL,
    beginning_with,
    called_twice,
    check_coverage,
    check_keeps,
    check_whole_is_written,
    compare_again,
    compare_changed,
    compare_written,
    configurations_of,
    fillings,
    finished,
    finishing_launches,
    launches_before,
    left_unwritten,
    position_named,
    programs_to_count,
    programs_to_run,
    storing_zeros_only,
    tells_by_parts,
)
from triton_agent.tools.answers.spots import Spot
from triton_agent.tools.cases.named_numbers import numbers_on
from triton_agent.tools.cases.plan import Case, Trial
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.questions import call, send_program
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.processes.protocol import Called
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.tape import encode

CONFIGURATIONS_AT_MOST = 4
"""Maximum number of configurations of autotuned kernels that are checked at full size, and whose numbers are noted."""
SPOTS_S = 40.0
"""Time after which no further inputs and configurations are begun at full size. There may be fifty calls, and the
interpreter takes seconds for one that runs a few programs of a large product."""
WHOLE_S = 8.0
"""Time limit of a call in which whole launches run beside a few programs, or all programs to see what they write."""
UNTOLD = frozenset({Finding.TOO_SLOW, Finding.MEMORY, Finding.NOT_RECORDED})
"""Findings of a candidate that has no tape at full size which say nothing about it."""
TOO_MANY_ELEMENTS = "exceeds triton maximum tensor numel"
"""Part of the error of a kernel that holds a whole row in one block, where a row is too long for that."""


def first_in_mode(trial: Trial, train: bool) -> Case:
    return next(case for case in (*trial.cases, *trial.other_mode) if case.train == train)


def in_each(replies: Sequence[Called]) -> frozenset[float]:
    """Return the numbers noted in all of several calls; none for a single one, whose inputs they may come from."""
    found = [frozenset(reply.numbers) for reply in replies]
    return frozenset.intersection(*found) if len(found) > 1 else frozenset()


def check_spots(job: Job) -> None:
    """Check a few programs at the problem's full size, or at a size that reaches the positions named by kernels."""
    if job.plan.spots is None or job.settings.device != "cpu":
        return
    trial = job.plan.trials[job.plan.main]
    small = job.programs.of(trial, trial.cases[0])
    numbers = numbers_on(small.tape, small.kernel_set)
    spot = job.plan.spots.reaching(position_named(numbers, small.tape, small.kernel_set, job.plan.spots.visited))
    if spot is None:
        return
    case = spot.trial.cases[0]
    try:
        program = job.programs.of(spot.trial, case)
    except Failed as failed:
        if spot.is_as_given and failed.finding not in UNTOLD:
            raise failed.during(case.name) from failed
        _note_no_tape(job, case, failed)
        return
    if spot.is_as_given:
        check_launches(program.tape, empty_outputs=False)
        check_library(work_of(program.tape), spot.work, allow_library=job.settings.allow_library)
    smaller = trial.cases[0]
    if smaller.train == case.train:
        buffers = [output.name.removeprefix("buffer ") for output in smaller.expectation.state_after]
        check_keeps(case, program.tape, program.kernel_set, sorted(checks.mutated_inputs(smaller)), buffers)
    by_parts = tells_by_parts(program.tape, program.kernel_set)
    if not by_parts and not spot.is_as_given:  # a size that nobody asked for may be too large for a whole row
        job.notes.append(
            f"{case.name}: not spot-checked, since no part of the answer is finished by a few programs alone"
        )
        return
    until_s = time.monotonic() + SPOTS_S
    tells = _check_programs(job, spot, program, spot.trial.cases, smaller, by_parts=by_parts, until_s=until_s)
    is_pure = not smaller.expectation.state_after and not checks.mutated_inputs(smaller)
    if tells and is_pure and job.runner.is_sound and time.monotonic() < until_s:
        _check_transposed(job, spot, smaller)
    cases = list(spot.in_other_mode)
    if trial.other_mode:  # the reference does the same in both modes
        cases = [dataclasses.replace(case, train=not case.train) for case in spot.trial.cases]
    if cases and by_parts and job.runner.is_sound:
        _check_other_mode(job, spot, program, cases, first_in_mode(trial, cases[0].train), until_s)


def _note_no_tape(job: Job, case: Case, failed: Failed) -> None:
    job.notes.append(f"{case.name}: not spot-checked, since it has no tape there ({failed.message[:200]})")


def _check_other_mode(
    job: Job, spot: Spot, program: Program, cases: Sequence[Case], smaller: Case, until_s: float
) -> None:
    """Check the cases of the second mode if the candidate has another tape there than `program`."""
    try:
        other = job.programs.of(spot.trial, cases[0])
    except Failed as failed:
        if spot.is_as_given:
            raise
        _note_no_tape(job, cases[0], failed)
        return
    if (other.encoded, other.kernels) == (program.encoded, program.kernels):
        return
    by_parts = tells_by_parts(other.tape, other.kernel_set)
    if not by_parts and not spot.is_as_given:  # as in the first mode
        return
    try:
        _check_programs(job, spot, other, cases, smaller, by_parts=by_parts, until_s=until_s)
    except Failed as failed:
        if spot.is_as_given or TOO_MANY_ELEMENTS not in failed.message:
            raise
        job.notes.append(
            f"{cases[0].name}: not spot-checked, since a block would be too large ({failed.message[:200]})"
        )


def _check_transposed(job: Job, spot: Spot, smaller: Case) -> None:
    """Run some programs on inputs that lie transposed in memory, for which a candidate has another tape."""
    case = spot.transposed()
    if case is None:
        return
    try:
        program = job.programs.of(spot.trial, case)
    except Failed as failed:
        _note_no_tape(job, case, failed)
        return
    if tells_by_parts(program.tape, program.kernel_set):
        only = programs_to_run(numbers_on(program.tape, program.kernel_set), program.tape)
        _check_spot(job, spot.trial, case, program, smaller, only, [], twice=False)


def _check_programs(
    job: Job, spot: Spot, program: Program, cases: Sequence[Case], smaller: Case, *, by_parts: bool, until_s: float
) -> bool:
    """Run some programs of a tape in several configurations; all of them if a few alone finish no part of the answer.

    Return False if a few programs of each launch tell nothing, so that further calls would not either.
    A call with noted numbers follows the checks of the first configuration: it may end its process at a fault that
    these report as the candidate's.
    """
    # A call that takes too long ends its process and leaves a note; nothing more can be asked then.
    for turn in range(min(configurations_of(program.tape), CONFIGURATIONS_AT_MOST)):
        if not job.runner.is_sound:
            break
        tape = beginning_with(program.tape, turn)
        other = dataclasses.replace(program, name=f"{program.name} / {turn}", tape=tape, encoded=encode(tape))
        if not by_parts:
            _check_whole(job, spot.trial, cases[0], other, smaller)
            continue
        numbers = numbers_on(other.tape, other.kernel_set)
        only = programs_to_run(numbers, other.tape)
        within: list[torch.Tensor] = []
        for number, case in enumerate(cases):
            if (turn or number) and time.monotonic() > until_s:
                job.notes.append(f"{case.name}: not spot-checked, since calls at this size took over {SPOTS_S:g} s")
                return True
            within = _check_spot(job, spot.trial, case, other, smaller, only, within, twice=not number)
            if not within:
                return False
            if not job.runner.is_sound:
                break
        else:
            in_own_mode = all(case is not cases[0] for case in spot.in_other_mode)
            if turn == 0 and in_own_mode and time.monotonic() < until_s:
                met = _numbers_met_by_some(job, spot.trial, other, cases, only)
                named = spot.holding(numbers.having_met(met))
                cases = [*cases, *([named] if named is not None else [])]
                if named is not None and job.runner.is_sound:
                    _check_spot(job, spot.trial, named, other, smaller, only, within, twice=False)
    return True


def _numbers_met_by_some(
    job: Job, trial: Trial, program: Program, cases: Sequence[Case], only: Sequence[int]
) -> frozenset[float]:
    """Return the numbers that some programs combine blocks with in all of these cases, if there are several.

    Memory is filled, since an honest lookup in poison may go out of bounds.
    """
    tape = next(iter(fillings(program.tape, program.kernel_set)), program.tape)
    noting = dataclasses.replace(program, name=f"{program.name} / noting", tape=tape, encoded=encode(tape))
    try:
        send_program(job, noting, trial.states[0])
        replies = [call(job, trial, case, only=only, program=noting, note_numbers=True)[1] for case in cases]
    except Failed as failed:
        job.notes.append(f"{cases[0].name}: numbers that its kernels compute are not known ({failed.message[:200]})")
        return frozenset()
    return in_each(replies)


def _check_whole(job: Job, trial: Trial, case: Case, program: Program, smaller: Case) -> None:
    """Run all programs at the problem's full size, as far as there is time: no few of them finish a part alone."""
    send_program(job, program, trial.states[0])
    try:
        answer, _ = call(job, trial, case, program=program)
    except Failed as failed:
        if failed.finding is not Finding.TOO_SLOW:
            raise
        job.notes.append(
            f"{case.name}: not checked, since it takes too long in the interpreter, and no part of the "
            "answer is finished by a few programs alone"
        )
        return
    check_whole_is_written(case, answer.tensors)
    compare_written(case, [answer.tensors], smaller)


def _check_last_launch(
    job: Job, trial: Trial, case: Case, program: Program, smaller: Case, only: Sequence[int]
) -> None:
    """Run a few programs of the last launch only, if all elements depend on programs that were skipped."""
    whole = launches_before(program.tape, program.kernel_set)
    if not whole:
        job.notes.append(f"{case.name}: values were not checked, since all of them depend on programs that did not run")
        return
    try:
        send_program(job, program, trial.states[0])
        answer, _ = call(job, trial, case, only=only, whole=whole, program=program, timeout_s=WHOLE_S)
    except Failed as failed:
        job.notes.append(f"{case.name}: values were not checked ({failed.message[:200]})")
        return
    check_coverage(case, program.tape, program.kernel_set, only, left_unwritten([answer.tensors]))
    compare_written(case, [answer.tensors], smaller)


def _is_right_after_whole_launches(
    job: Job, trial: Trial, case: Case, program: Program, smaller: Case, only: Sequence[int]
) -> bool:
    """Return True if a few programs of the last launch are right once the others ran whole.

    Elements that depend on skipped programs may be zero with every fill value, where the last step clamps them.
    """
    whole = launches_before(program.tape, program.kernel_set)
    if not whole:
        return False
    with contextlib.suppress(Failed):
        answer, _ = call(job, trial, case, only=only, whole=whole, program=program, timeout_s=WHOLE_S)
        compare_written(case, [answer.tensors], smaller)
        return True
    return False


def _check_spot(
    job: Job,
    trial: Trial,
    case: Case,
    program: Program,
    smaller: Case,
    only: Sequence[int],
    within: list[torch.Tensor],
    *,
    twice: bool,
) -> list[torch.Tensor]:
    """Run a few programs of each launch at the problem's full size, or at a larger one.

    Return the elements of each output that do not depend on other programs, no tensors if all do or that is unknown.
    `within` are those known from a call before. With `twice`, the call is also made twice in the same memory.
    """
    answers: list[checks.Answer] = []
    # The unfilled tape runs last: with poison in place of results of skipped programs, an honest lookup may go out of
    # bounds. With the fill values it does not, so a failure with these is the candidate's fault.
    filled = [
        dataclasses.replace(program, name=f"{program.name} / {number}", tape=tape, encoded=encode(tape))
        for number, tape in enumerate(fillings(program.tape, program.kernel_set))
    ]
    try:
        for other in filled:
            send_program(job, other, trial.states[0])
            answers.append(call(job, trial, case, only=only, program=other)[0])
        if not filled or any(bool(it.any()) for it in finished([answer.tensors for answer in answers])):
            send_program(job, program, trial.states[0])
            answers.append(call(job, trial, case, only=only, program=program)[0])
    except Failed as failed:
        if failed.finding is not Finding.TOO_SLOW and not answers:
            raise
        if len(answers) < max(len(filled), 1):
            why = f"some programs do not run alone ({failed.message[:200]})"
            job.notes.append(f"{case.name}: not spot-checked, since {why}")
            return []
    mutated = checks.mutated_inputs(smaller)
    if not smaller.expectation.state_after and not mutated:
        checks.check_inputs(case, answers[0])
    compare_changed(case, [answer.changed for answer in answers], mutated)
    if len(answers) == len(filled):
        _check_last_launch(job, trial, case, program, smaller, only)
        return []
    written = [answer.tensors for answer in answers[::-1]]
    try:
        compare_written(case, written, smaller, within)
    except Failed:
        if not filled or not _is_right_after_whole_launches(job, trial, case, program, smaller, only):
            raise
        return []
    if twice:
        left = left_unwritten([answer.tensors for answer in answers[: len(filled) or 1]])
        _check_coverage(job, trial, case, program, filled, only, left)
        tape = called_twice(program.tape)
        doubled = dataclasses.replace(program, name=f"{program.name} / twice", tape=tape, encoded=encode(tape))
        again: Sequence[torch.Tensor] = ()
        with contextlib.suppress(Failed):  # an honest lookup may go out of bounds, or there is no time for two calls
            send_program(job, doubled, trial.states[0])
            again = call(job, trial, case, only=only, program=doubled)[0].tensors
        if again:
            compare_again(case, written, again)
    return within or finished(written)


def _check_stores(job: Job, trial: Trial, case: Case, program: Program) -> bool:
    """Run all programs that finish outputs, reduced to where they store; return False if they cannot be reduced."""
    reduced = storing_zeros_only(program.tape, program.kernel_set)
    if reduced is None:
        return False
    tape, kernels, whole = reduced
    other = dataclasses.replace(
        program,
        name=f"{program.name} / stores",
        tape=tape,
        encoded=encode(tape),
        kernels=kernels.to_json(),
        kernel_set=kernels,
    )
    try:
        send_program(job, other, trial.states[0])
        answer, _ = call(job, trial, case, only=(0,), whole=whole, program=other, timeout_s=WHOLE_S)
    except Failed as failed:
        if failed.finding is not Finding.TOO_SLOW:
            raise
        job.notes.append(f"{case.name}: it is not known if all of the answer is written ({failed.message[:200]})")
        return True
    finishing = finishing_launches(program.tape, program.kernel_set)
    check_whole_is_written(case, answer.tensors, [number is not None for number in finishing])
    return all(number is not None for number in finishing)


def _check_coverage(
    job: Job,
    trial: Trial,
    case: Case,
    program: Program,
    filled: Sequence[Program],
    only: Sequence[int],
    left: Sequence[torch.Tensor],
) -> None:
    """Check that all programs together write the whole answer.

    If they cannot be reduced to where they store, ask more programs, and at last all, if in doubt. `filled` are
    programs with filled memory, if there are any, and `left` are the elements that were left out.
    """
    tape, kernels = program.tape, program.kernel_set
    share = check_coverage(case, tape, kernels, only, left)
    if _check_stores(job, trial, case, program) or share >= DOUBTFUL:
        return
    more = programs_to_count(tape)
    try:
        answers = [call(job, trial, case, only=more, program=it)[0].tensors for it in filled or [program]]
        if check_coverage(case, tape, kernels, more, left_unwritten(answers)) < COVERED:
            check_whole_is_written(case, call(job, trial, case, program=program, timeout_s=WHOLE_S)[0].tensors)
    except Failed as failed:
        if failed.finding is Finding.UNWRITTEN_OUTPUT:
            raise
        job.notes.append(f"{case.name}: it is not known if all of the answer is written ({failed.message[:200]})")

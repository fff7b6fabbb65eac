"""The stages of a verdict, as values in a list: cheap ones first, with one boundary for failures.

    screen    read the text: is it Python, does it define ModelNew, does it use forbidden names
    trace     run its Python on tensors without values, once for every form of call, which gives tapes
    compile   compile for the named target, or into the executor's cache; registers, spills, shared memory
    first     one call of the cheapest case; does the result depend on the candidate's kernels, and do they do the work
              (if not, try again at the main sizes)
    check     every case of the plan
    spots     without a GPU, after `file`: some programs at sizes that are too large to run completely
    file      for a shipped file: the file itself on the cases at the main sizes
    repeat    on a GPU: the same call again, to compare bits and to measure memory and resources
    time      on a GPU: paired timing against the reference, holding the GPU exclusively
    compiled  on a GPU: the same against baselines that torch's compiler was still making
    profile   on a GPU, for the fastest so far: device time by step

Each stage takes the job and either returns (continue) or raises `Failed` (the verdict is known). The stages from
`repeat` on are in `clock_stages.py`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from triton_agent.tools.answers import checks
from triton_agent.tools.answers.authorship import (
    check_alive,
    check_bytes,
    check_kernels,
    check_launches,
    check_library,
    least_kernel_bytes,
    work_of,
)
from triton_agent.tools.answers.chained_calls import check_chains, check_handing_on
from triton_agent.tools.answers.one_sided import Asked, KnownPredicates, SearchEnded, one_sided_of, refusal
from triton_agent.tools.answers.spot_checks import beginning_with, configurations_of
from triton_agent.tools.answers.spot_stage import CONFIGURATIONS_AT_MOST, check_spots, first_in_mode, in_each
from triton_agent.tools.candidate.screen import screen
from triton_agent.tools.cases.directed import DIRECTED, kind_of
from triton_agent.tools.cases.layouts import LAYOUTS
from triton_agent.tools.cases.named_numbers import Numbers, numbers_on
from triton_agent.tools.cases.plan import Case, Plan, Trial
from triton_agent.tools.chance import below, some_of
from triton_agent.tools.checker.clock_stages import profile, race_compiled, race_original, repeat_call
from triton_agent.tools.checker.compiling import compile_for_target, fill_cache
from triton_agent.tools.checker.fresh_memory import check_fresh_memory
from triton_agent.tools.checker.idle_inputs import bytes_in_use
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.made_by_torch import check_made_by_torch, check_rounded_by_torch
from triton_agent.tools.checker.questions import (
    call,
    interpret,
    judge,
    launch_counts,
    right_in_silence,
    send_program,
    send_state,
    state_of,
)
from triton_agent.tools.checker.session import Failed, Session
from triton_agent.tools.checker.shipped_file import check_file
from triton_agent.tools.checker.tracing import Program, outline_of, state_shapes
from triton_agent.tools.errors import NotJudgeableHere
from triton_agent.tools.machine.lease import Mode
from triton_agent.tools.processes.payloads import Payload
from triton_agent.tools.processes.protocol import Called, MetNumbers
from triton_agent.tools.results import Finding, StageTime
from triton_agent.tools.tape.branches import branches_of
from triton_agent.tools.tape.tape import encode

Stage = tuple[str, Callable[[Job], None]]
NAMED_NUMBERS_BYTES = 16 << 20
"""Maximum size of inputs for cases that are made for each candidate; a larger problem gets them at a smaller size."""
NAMED_AT_MAIN_BYTES = 256 << 20
"""Maximum size of inputs for such cases on a GPU, if the candidate does something else at its own sizes."""
INTERPRETED_BYTES, INTERPRETED_S = 1 << 20, 5.0
"""Maximum size of inputs for the interpreter beside a GPU, unless all are larger, and the time limit of a call."""
CONFIGURATIONS_NAMING = 16
"""Maximum number of configurations that get inputs with named numbers. If there are more, each makes one call."""
CONFIGURATIONS_S, CONFIGURATIONS_BYTES = 10.0, 1 << 30
"""Time after which no further configurations are called, and the most memory for their parameters and buffers."""


def run(job: Job, stages: Iterable[Stage]) -> None:
    """Run the stages until one fails; instrument failures propagate to the caller."""
    for name, stage in stages:
        job.on_stage(name)
        began = time.perf_counter()
        try:
            stage(job)
        except Failed as failure:
            job.failure = failure
            traceback.clear_frames(failure.__traceback__)  # frees answers that the frames would keep alive
            return
        finally:
            job.stages.append(StageTime(stage=name, wall_ms=(time.perf_counter() - began) * 1e3))


def screen_text(job: Job) -> None:
    objection = screen(job.source, strict=job.settings.screen)
    if objection is not None:
        raise Failed(objection.finding, objection.message)


def trace_calls(job: Job) -> None:
    """Trace every form of call in the plan."""
    for trial in job.plan.trials:
        for case in trial.cases:
            job.programs.of(trial, case)


def compile_ahead(job: Job) -> None:
    """On a GPU, compile all tapes into the executor's cache; for a named target, only the main trial's first call."""
    if job.ahead:
        slow = fill_cache(job.programs.all(), job.ahead)
        for trial in job.plan.trials:
            if is_larger(trial, job.plan) and any(job.programs.of(trial, case) in slow for case in trial.cases):
                job.left_out[trial] = "its kernels take very long to compile there"
    if job.compiler is not None:
        trial = job.plan.trials[job.plan.main]
        program = job.programs.of(trial, trial.cases[0])
        job.resources = compile_for_target(program, job.compiler, job.settings.compile_timeout_s)


def first_call(job: Job) -> None:
    """Check the cheapest case, and that the candidate's kernels do the work."""
    job.runner.await_ready()  # the executor may need the GPU to get ready, so wait before taking it
    with job.gpu(Mode.SHARED):
        try:
            _prove(job, job.plan.trials.index(job.trials()[0]))
        except Failed as failed:
            elsewhere = (Finding.NO_LAUNCH, Finding.LIBRARY_WORK, Finding.DEAD_KERNEL)
            if job.plan.main == 0 or not (failed.finding in elsewhere or failed.lacks_resources):
                raise
            _prove(job, job.plan.main)  # an honest file may use torch at small sizes


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
    """Check every case of every trial, the main trial first.

    Where a case takes gigabytes, the main trial comes last, so that other candidates wait for this trial only.
    """
    main = job.plan.trials[job.plan.main]
    others = [trial for trial in job.trials() if trial is not main]
    is_apart = main.cases[0].is_large and bool(others)
    if not is_apart:
        job.await_room()
    with _met_beside_gpu(job) as met, job.gpu(Mode.SHARED):
        _run_trials(job, others if is_apart else [main, *others])
        _check_other_branches(job)
        with job.gpu.aside():  # the interpreter may take seconds
            numbers = met()
        later = _check_named_numbers(job, numbers)
        check_fresh_memory(job, job.trials())
        check_chains(job)
        check_handing_on(job)
        for check in later:
            check()
    if is_apart:
        job.await_room()
        with job.gpu(Mode.SHARED):
            _run_trials(job, [main])
    job.notes += [f"not checked at {trial.variant}: {why}" for trial, why in job.left_out.items()]


def _check_other_branches(job: Job) -> None:
    """Check more cases where the candidate takes another branch than in the first case and in those before."""
    main = job.plan.trials[job.plan.main]

    def branches(trial: Trial, case: Case) -> frozenset[tuple[str, ...]]:
        program = job.programs.of(trial, case)
        return branches_of(program.tape, program.kernel_set)

    seen = branches(main, main.cases[0])
    firsts = [(main, case) for case in _other_tapes(job, main)[:1]]
    firsts += [(trial, trial.cases[0]) for trial in job.trials() if trial is not main]
    for trial, first in firsts:
        found = branches(trial, first)
        if found <= seen or _input_bytes(trial) > NAMED_NUMBERS_BYTES:
            continue
        seen |= found
        for case in trial.at_other_branches():
            job.gpu.pause()
            answer, reply = call(job, trial, case)
            judge(job, trial, case, answer)
            checks.check_races(case, reply.launches)


def is_larger(trial: Trial, plan: Plan) -> bool:
    """Return True if a dimension of an input or parameter is larger than at the main sizes.

    A kernel whose tiles have outgrown the GPU there is not wrong, since it cannot be launched.
    """
    return any(size > other for size, other in zip(_sizes(trial), _sizes(plan.trials[plan.main])))


def _has_single_rows(trial: Trial, plan: Plan) -> bool:
    """Return True if a dimension of an input or parameter is one that is not at the main sizes."""
    return any(size == 1 < other for size, other in zip(_sizes(trial), _sizes(plan.trials[plan.main])))


def _sizes(trial: Trial) -> list[int]:
    shapes = [tensor.shape for tensor in outline_of(trial.cases[0]).tensors]
    return [size for shape in (*shapes, *state_shapes(trial).values()) for size in shape]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Met:
    """Numbers that kernels combined blocks and elements with, as the interpreter noted them."""

    numbers: frozenset[float]
    """Numbers that a kernel combined with blocks in every one of several calls, although their inputs differ."""
    counterparts: Sequence[Sequence[MetNumbers]]
    """For elements of this case's inputs; each inner list is for a call of its own."""
    case: Case
    trial: Trial
    predicates: KnownPredicates
    """The predicates of the kernels on data in these calls."""


@contextlib.contextmanager
def _met_beside_gpu(job: Job) -> Iterator[Callable[[], dict[bool, Met]]]:
    """On a GPU, have the interpreter note numbers at a small size while the calls of the block run.

    Yield a function that waits for these numbers, by whether the call is in training mode. Kernels that the interpreter
    cannot run, or not in time, are judged without them. A failure of our own notes is not passed over: who could cause
    one would be judged with less.
    """
    trials = [trial for trial in job.trials() if _input_bytes(trial) <= NAMED_NUMBERS_BYTES and trial.holding]
    if job.reader is None or not trials:
        yield dict
        return
    quick = [trial for trial in trials if _input_bytes(trial) <= INTERPRETED_BYTES]
    telling = [trial for trial in quick if not _has_single_rows(trial, job.plan)] or quick
    trial = max(telling, key=_input_bytes) if telling else min(trials, key=_input_bytes)
    groups = [_alike(job, trial, first) for first in [trial.cases[0], *_other_tapes(job, trial)[:1]]]
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as beside:
        yield beside.submit(_interpreted, job, job.reader, trial, groups).result


def _interpreted(job: Job, reader: Session, trial: Trial, groups: Sequence[Sequence[Case]]) -> dict[bool, Met]:
    """Return the numbers that the interpreter notes in each group of cases. The cases have been traced before."""
    found: dict[bool, Met] = {}
    try:
        for cases in groups:
            replies = [interpret(job, reader, trial, case, timeout_s=INTERPRETED_S)[1] for case in cases]
            found[cases[0].train] = _met(job, trial, cases, replies)
    except (Failed, NotJudgeableHere) as error:
        job.notes.append(f"numbers that its kernels compute are not known ({str(error)[:200]})")
    return found


def _check_named_numbers(job: Job, met: Mapping[bool, Met]) -> list[Callable[[], None]]:
    """Check inputs that hold the numbers named by the candidate's kernels, and those that were met beside a GPU.

    Return checks of the predicates in these kernels, which come last: an answer that is wrong says more.

    These cases are made for each candidate, so a large problem is checked at one of its smaller sizes. Beside a GPU,
    its own sizes are added if the candidate takes another branch there.
    """
    main = job.plan.trials[job.plan.main]
    small = [trial for trial in job.trials() if _input_bytes(trial) <= NAMED_NUMBERS_BYTES]
    trial = main if main in small or not small else max(small, key=_input_bytes)
    later: list[Callable[[], None]] = []
    for asked in (trial, main) if trial is not main and _is_else(job, main, trial) else (trial,):
        for first in [asked.cases[0], *_other_tapes(job, asked)[:1]] if asked.holding is not None else []:
            named = job.programs.of(main, first_in_mode(main, first.train))
            numbers = numbers_on(named.tape, named.kernel_set)
            later += _check_holding(job, asked, first, numbers, met.get(first.train) if asked is trial else None)
    return later


def _is_else(job: Job, main: Trial, small: Trial) -> bool:
    """Return True if the candidate takes another branch at the main sizes than at small ones, on a GPU.

    Only where cases of the main sizes are small enough to be made for each candidate.
    """
    if job.settings.device == "cpu" or main.cases[0].is_large or _input_bytes(main) > NAMED_AT_MAIN_BYTES:
        return False
    here, there = (job.programs.of(trial, trial.cases[0]) for trial in (main, small))
    return not branches_of(here.tape, here.kernel_set) <= branches_of(there.tape, there.kernel_set)


def _check_holding(
    job: Job, trial: Trial, first: Case, numbers: Numbers, met_beside_gpu: Met | None
) -> Iterator[Callable[[], None]]:
    """Check inputs with these numbers in the mode of the first case; yield checks of predicates for later."""
    assert trial.holding is not None
    program = job.programs.of(trial, first)
    asked = [program]
    if job.settings.device == "cpu":  # every new program takes another configuration of an autotuned kernel
        turns = range(min(configurations_of(program.tape), CONFIGURATIONS_NAMING))
        asked = [dataclasses.replace(program, name=f"{program.name} / named {turn}") for turn in turns]
    for turn, other in enumerate(asked):
        if other is not program:  # on a GPU the program keeps the configuration that is timed
            send_program(job, other, trial.states[0])
        met = met_beside_gpu
        if job.settings.device == "cpu" and turn < CONFIGURATIONS_AT_MOST:
            met = _numbers_met(job, trial, first, other)
        if met is not None:
            _check_meeting(job, met, None if other is program else other)
        holding = trial.holding(numbers.having_met(met.numbers if met else frozenset()), first.train)
        for case, state in holding:
            job.gpu.pause()
            send_state(job, other, state if state is not None else trial.states[case.version])
            answer, _ = call(job, trial, case, program=other)
            judge(job, trial, case, answer)
        if met is not None:
            tape, held = None if other is program else other, tuple(holding) if met.trial is trial else ()
            yield functools.partial(_check_predicates, job, met, tape, held)
    if job.settings.device == "cpu":
        _check_configurations(job, trial, first)
    job.prepared[program.name] = None


def _check_configurations(job: Job, trial: Trial, case: Case) -> None:
    """Check one call of each configuration if there are many. Chance tells for which of them there is no time."""
    program = job.programs.of(trial, case)
    count = configurations_of(program.tape)
    if count <= CONFIGURATIONS_NAMING:
        return
    tape = beginning_with(program.tape, below(count))
    encoded, state, began = encode(tape), trial.states[case.version], time.monotonic()
    for turn in range(count):
        has_room = turn * state.size_bytes <= CONFIGURATIONS_BYTES
        if not has_room or time.monotonic() > began + CONFIGURATIONS_S:
            job.notes.append(f"{count - turn} of {count} configurations of a kernel were not run")
            return
        other = dataclasses.replace(program, name=f"{program.name} / turn {turn}", tape=tape, encoded=encoded)
        send_program(job, other, state)
        answer, reply = call(job, trial, case, program=other)
        judge(job, trial, case, answer)
        checks.check_races(case, reply.launches)


def _check_meeting(job: Job, met: Met, program: Program | None) -> None:
    """Check cases in which elements, and sums of them, equal the numbers that kernels combined them with.

    `program` is the tape to call; by default that of the case.
    """
    made = met.trial.meeting
    for counterparts in met.counterparts if met.trial in job.trials() else ():
        case = made(met.case, counterparts) if made is not None else None
        if case is None:
            continue
        if program is not None:
            send_state(job, program, met.trial.states[case.version])
        judge(job, met.trial, case, call(job, met.trial, case, program=program)[0])


def _check_predicates(
    job: Job, met: Met, program: Program | None, holding: Sequence[tuple[Case, Payload | None]]
) -> None:
    """Check that all predicates on data have several results, or do not matter; see `one_sided.py`.

    `program` is the tape to call, by default that of each case.
    """
    trial = met.trial
    if trial not in job.trials():
        return
    form = job.programs.of(trial, met.case)

    def alike(cases: Iterable[Case]) -> list[Asked]:
        return [
            Asked(case=case, state=trial.states[case.version])
            for case in cases
            if case.train == met.case.train and case.verify is None and job.programs.of(trial, case) is form
        ]

    def groups() -> Iterator[Sequence[Asked]]:
        every = (*trial.cases, *trial.other_mode)
        yield alike(sorted(every, key=lambda case: kind_of(case.distribution) not in DIRECTED))  # they answer most
        yield [Asked(case=case, state=state or trial.states[case.version]) for case, state in holding]
        if trial is not job.plan.trials[job.plan.main]:
            yield alike(trial.at_other_branches())
            yield [Asked(case=case, state=state) for case, state in trial.with_other_parameters()]
        if trial.meeting is not None:
            made = [trial.meeting(met.case, counterparts) for counterparts in met.counterparts]
            yield [Asked(case=case, state=trial.states[case.version]) for case in made if case is not None]

    def ask(asked: Asked, forced: str) -> tuple[checks.Answer, Called]:
        if job.reader is not None:
            return _interpreted_aside(job, job.reader, trial, asked, forced)
        tape = program or form
        send_state(job, tape, asked.state)
        job.prepared[form.name] = None
        return call(job, trial, asked.case, program=tape, note_numbers=not forced, forced=forced)

    with contextlib.suppress(SearchEnded):
        found = one_sided_of(met.predicates, groups(), ask, trial.own_limits)
        if found is not None:
            raise refusal(found, _line_of(job.source, found.predicate.line))


def _line_of(source: str, number: int) -> str:
    lines = source.splitlines()
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _interpreted_aside(
    job: Job, reader: Session, trial: Trial, asked: Asked, forced: str
) -> tuple[checks.Answer, Called]:
    """Make a call in the interpreter beside the GPU, which others may use meanwhile."""
    with job.gpu.aside():
        try:
            state = asked.state
            return interpret(job, reader, trial, asked.case, timeout_s=INTERPRETED_S, state=state, forced=forced)
        except Failed as failed:
            if forced:
                raise
            job.notes.append(f"not all predicates of its kernels are known ({str(failed)[:200]})")
            raise SearchEnded from failed


def _other_tapes(job: Job, trial: Trial) -> list[Case]:
    """Return the cases in the mode that is not the first for which the candidate has another tape than in the first."""
    if not trial.other_mode:
        return [case for case in trial.cases if case.train != trial.cases[0].train]
    twins = {case.name: case for case in trial.cases}
    found = []
    for case in trial.other_mode:
        one, other = (job.programs.of(trial, it) for it in (twins[case.name.rpartition(" / ")[0]], case))
        if (one.encoded, one.kernels) != (other.encoded, other.kernels):
            found.append(case)
    return found


def _numbers_met(job: Job, trial: Trial, first: Case, program: Program) -> Met:
    """Return the numbers that the program's kernels meet in two calls of the form of the first case."""
    cases, replies = _alike(job, trial, first), []
    for case in cases:
        send_state(job, program, trial.states[case.version])
        replies.append(call(job, trial, case, program=program, note_numbers=True)[1])
    return _met(job, trial, cases, replies)


def _alike(job: Job, trial: Trial, first: Case) -> list[Case]:
    """Return the first case with the tape and mode of this one, and a random other such case if there is one."""
    form = job.programs.of(trial, first)
    every = (*trial.cases, *trial.other_mode)
    alike = [case for case in every if case.train == first.train and job.programs.of(trial, case) is form]
    return alike[:1] + some_of(alike[1:], min(1, len(alike) - 1))


def _met(job: Job, trial: Trial, cases: Sequence[Case], replies: Sequence[Called]) -> Met:
    first = replies[0]
    counterparts = list(filter(None, (first.counterparts, first.counterparts_of_sums)))
    predicates = KnownPredicates(has_single_rows=_has_single_rows(trial, job.plan))
    for case, reply in zip(cases, replies):
        predicates.add(Asked(case=case, state=trial.states[case.version]), reply.predicates)
    numbers = in_each(replies)
    return Met(numbers=numbers, counterparts=counterparts, case=cases[0], trial=trial, predicates=predicates)


def _input_bytes(trial: Trial) -> int:
    return trial.cases[0].expectation.packed_inputs.size_bytes


def _run_trials(job: Job, trials: Sequence[Trial]) -> None:
    for trial in trials:
        try:
            _run_trial(job, job.plan.trials.index(trial))
        except Failed as failed:
            if not (failed.lacks_resources and is_larger(trial, job.plan)):
                raise
            job.left_out[trial] = "its kernels need more of the GPU there than it has"


def _run_trial(job: Job, index: int) -> None:
    trial = job.plan.trials[index]
    for case in [*trial.cases, *(_other_tapes(job, trial) if trial.other_mode else ())]:
        job.gpu.pause()
        answer, reply = call(job, trial, case)
        judge(job, trial, case, answer)
        checks.check_races(case, reply.launches)
        # an honest file may use torch at other sizes, and may copy inputs that have another layout
        if index == job.plan.main and case.distribution not in LAYOUTS:
            _check_authorship(job, index, case, reply)
        program = job.programs.of(trial, case)
        if case.expectation.state_after or case is trial.cases[0] or program.writes_state:
            checks.check_state(case, state_of(job, program, case))


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
    if not empty and not allowed:
        original = job.plan.work[trial]
        moved = bytes_in_use(job, job.plan.trials[trial], case, program, enough=least_kernel_bytes(work, original))
        counted = [count for launch in reply.launches for count in (launch.bytes_loaded, launch.bytes_stored)]
        known = [count for count in counted if count is not None]
        check_bytes(work, min([moved, *([sum(known)] if len(known) == len(counted) else ())]), original)
        if job.plan.trials[trial].begins_mode(case):
            check_made_by_torch(job, job.plan.trials[trial], case, program)
            check_rounded_by_torch(job, job.plan.trials[trial], case, program, original.narrowed)
    checks.check_races(case, reply.launches)


TRIAL_STAGES: tuple[Stage, ...] = (
    ("screen", screen_text),
    ("trace", trace_calls),
    ("compile", compile_ahead),
    ("first", first_call),
)
"""Enough to report errors to an author early; a candidate that passes them has no verdict yet."""
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

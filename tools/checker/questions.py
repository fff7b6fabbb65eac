"""Calls of a candidate's tapes in the executor, and the check of each answer.

The stages decide which calls are made in which order (`pipeline.py`, `clock_stages.py`, `quick_race.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import torch

from triton_agent.tools.answers import checks
from triton_agent.tools.cases.plan import Case, Trial
from triton_agent.tools.chance import below, secret_seed
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.session import Failed, Session
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.processes.payloads import Payload
from triton_agent.tools.processes.protocol import (
    Call,
    Called,
    Done,
    GetState,
    Prepare,
    SeenLaunch,
    SentTape,
    State,
)
from triton_agent.tools.results import KernelLaunch

_ROUNDING = re.compile(r"\b(bf16|b?float16|float8\w*|fp16|fp8\w*)\b|\.dot(_scaled)?\(")
_COMMENT = re.compile("#.*")
ORDERS = 1 << 30
"""Number of seeds for the order in which the interpreter runs programs."""


def program_of(job: Job, trial: Trial, case: Case) -> Program:
    """Send the executor a call's tape and the case's parameters if it lacks them; return the tape."""
    request, payloads = _missing_in_executor(job, trial, case)
    if payloads:
        job.runner.ask(request, Done, payloads)
    return job.programs.of(trial, case)


def send_program(job: Job, program: Program, state: Payload) -> None:
    """Send the executor a tape that belongs to no case, and its parameters."""
    request = Prepare(name=program.name, tape=_as_sent(job, program), parameters=True)
    job.runner.ask(request, Done, [program.init, state])


def send_state(job: Job, program: Program, state: Payload) -> None:
    """Set the parameters of a tape that the executor was sent before."""
    job.runner.ask(Prepare(name=program.name, parameters=True), Done, [state])


def state_of(job: Job, program: Program, case: Case) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers of a tape as its last call left them."""
    expected = case.expectation.state_bytes
    reply, blobs = job.runner.ask(GetState(name=program.name), State, expected_bytes=expected)
    return checks.read_state(reply, blobs, job.settings.device)


def _missing_in_executor(job: Job, trial: Trial, case: Case) -> tuple[Prepare, list[Payload]]:
    """Return what the executor still needs of a tape and its parameters; without payloads it has everything."""
    program = job.programs.of(trial, case)
    payloads: list[Payload] = []
    tape: SentTape | None = None
    if program.name not in job.prepared:
        payloads.append(program.init)
        tape = _as_sent(job, program)
        job.prepared[program.name] = None
    may_differ = program.writes_state or bool(case.expectation.state_after)
    is_stale = may_differ or job.prepared[program.name] != case.version
    if is_stale:
        payloads.append(trial.states[case.version])
        job.prepared[program.name] = case.version
    return Prepare(name=program.name, tape=tape, parameters=is_stale), payloads


def _as_sent(job: Job, program: Program) -> SentTape:
    return SentTape(
        tape=program.encoded, kernels=program.kernels, seed=program.seed, conditions=job.settings.conditions
    )


def ask_once(job: Job, trial: Trial, case: Case) -> Called:
    """Make one call, judge its answer, and return the executor's reply."""
    answer, reply = call(job, trial, case)
    judge(job, trial, case, answer)
    return reply


def call(
    job: Job,
    trial: Trial,
    case: Case,
    *,
    silenced: bool = False,
    salt: int | None = None,
    measure: bool = False,
    only: Sequence[int] | None = None,
    whole: Sequence[int] = (),
    program: Program | None = None,
    more_bytes: int = 0,
    note_numbers: bool = False,
    forced: str = "",
    timeout_s: float | None = None,
) -> tuple[checks.Answer, Called]:
    """Make one call; return its answer and the executor's reply.

    `salt` selects the fill value of fresh memory; it is drawn by default, so that no byte of an answer is correct by
    chance in every case. `only` lists the programs to run, in the interpreter, except in the launches of the steps in
    `whole`. `program` is another tape that the executor has; its answer is larger by `more_bytes`. `timeout_s` replaces
    the usual limit.
    """
    if program is None:
        program = job.programs.of(trial, case)
        prepare, payloads = _missing_in_executor(job, trial, case)
    else:
        prepare, payloads = Prepare(name=program.name), []
    request = Call(
        prepare=prepare,
        silenced=silenced,
        salt=below(2) if salt is None else salt,
        seed=secret_seed(),
        order=below(ORDERS),
        measure=measure,
        only=None if only is None else tuple(only),
        whole=tuple(whole),
        keep=case.is_large,
        again=job.kept is case,
        note_numbers=note_numbers,
        forced=forced,
    )
    inputs = [] if request.again else [case.expectation.packed_inputs]
    job.kept = None
    try:
        size_bytes = case.expectation.answer_bytes + more_bytes
        sent = [*payloads, *inputs]
        reply, blobs = job.runner.ask(request, Called, sent, timeout_s=timeout_s, expected_bytes=size_bytes)
    except Failed as failed:
        raise failed.during(case.name) from failed
    if request.keep and not reply.changed:
        job.kept = case
    return checks.read_answer(program.tape.tree, reply, blobs, job.settings.device), reply


def interpret(
    job: Job,
    reader: Session,
    trial: Trial,
    case: Case,
    *,
    timeout_s: float,
    state: Payload | None = None,
    forced: str = "",
) -> tuple[checks.Answer, Called]:
    """Make one call in the interpreter beside the executor, with numbers noted or another result forced at a place."""
    program = job.programs.of(trial, case)
    request = Call(
        prepare=Prepare(name=program.name, tape=_as_sent(job, program), parameters=True),
        salt=below(2),
        seed=secret_seed(),
        order=below(ORDERS),
        note_numbers=not forced,
        forced=forced,
    )
    sent = [program.init, state or trial.states[case.version], case.expectation.packed_inputs]
    reader.await_ready()
    size_bytes = case.expectation.answer_bytes
    reply, blobs = reader.ask(request, Called, sent, timeout_s=timeout_s, expected_bytes=size_bytes)
    return checks.read_answer(program.tape.tree, reply, blobs, job.settings.device), reply


def judge(job: Job, trial: Trial, case: Case, answer: checks.Answer) -> None:
    """Check one answer completely."""
    if case.verify is None:
        checks.check_structure(case, answer)
        checks.check_form(case, answer)
        rows, failure = checks.measure(case, answer, lambda: may_round(job.programs.of(trial, case)))
    else:
        rows, failure = checks.ask_verifier(case, case.verify, answer)
    job.accuracy += rows
    if failure is not None:
        failure = checks.explain_wrong(failure, case, answer, case.stale)
        if job.programs.misfit:
            failure = Failed(failure.finding, f"{failure.message}\nlikely cause: {job.programs.misfit}")
        raise failure
    checks.check_inputs(case, answer, [it for it in trial.cases if it.train == case.train])
    tape = job.programs.of(trial, case).tape
    checks.check_aliases(case, tape)
    checks.check_layout(case, tape)


def may_round(program: Program) -> bool:
    """Return True if a tape or its kernels name a dtype of 16 bits or less, or multiply blocks (`tl.dot`)."""
    functions = program.kernel_set.functions.values()
    texts = [f"{_COMMENT.sub('', it.source)} {it.parameters} {it.globals}" for it in functions]
    return any(map(_ROUNDING.search, [*texts, json.dumps(program.encoded)]))


def right_in_silence(job: Job, trial: Trial, case: Case) -> list[str]:
    """Return the outputs that are correct without any kernel, for both fill values of fresh memory."""
    right: set[str] = set()
    for salt in (0, 1):
        try:
            answer, _ = call(job, trial, case, silenced=True, salt=salt)
        except Failed as failure:
            if failure.worker_died:
                raise
            return []  # an operator that fails on unwritten memory depends on the kernels
        found = set(checks.still_right(case, answer))
        right = found if salt == 0 else right & found
        if not right:
            return []
    return sorted(right)


def launch_counts(launches: Sequence[SeenLaunch]) -> list[KernelLaunch]:
    """Sum launches by kernel; bytes are None if any launch was not counted."""
    found = []
    for name in dict.fromkeys(launch.kernel for launch in launches):
        own = [launch for launch in launches if launch.kernel == name]
        loaded, stored = [launch.bytes_loaded for launch in own], [launch.bytes_stored for launch in own]
        found.append(
            KernelLaunch(
                kernel=name,
                launches=len(own),
                programs=sum(launch.programs for launch in own),
                bytes_loaded=_total(loaded),
                bytes_stored=_total(stored),
            )
        )
    return found


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None

"""Questions to a candidate's tapes in the executor, and the first look at each answer.

What is asked in which order is the stages' affair (`pipeline.py`, `clock_stages.py`, `sorting.py`).
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from triton_agent.tools.results import KernelLaunch
from triton_agent.tools.verify import checks
from triton_agent.tools.verify.job import Job
from triton_agent.tools.verify.plan import Case, Trial
from triton_agent.tools.verify.session import Failed, Session
from triton_agent.tools.verify.tracing import Program

ORDERS = 1 << 30
"""Seeds of the order in which the interpreter runs programs."""


def program_of(job: Job, trial: Trial, case: Case) -> Program:
    """The tape of a call, in the executor and with the parameters of the case."""
    program = job.programs.of(trial, case)
    if program.name not in job.prepared:
        send_program(job, job.runner, program)
        job.prepared[program.name] = None
    if job.prepared[program.name] != case.version or case.expectation.state_after:
        job.runner.ask("parameters", [trial.states[case.version]], name=program.name)
        job.prepared[program.name] = case.version
    return program


def send_program(job: Job, session: Session, program: Program) -> None:
    """Make a tape known to an executor."""
    session.ask(
        "program",
        [program.init],
        name=program.name,
        tape=program.encoded,
        kernels=program.kernels,
        seed=program.seed,
        conditions=dataclasses.asdict(job.settings.conditions),
    )


def ask_once(job: Job, trial: Trial, case: Case) -> dict[str, Any]:
    """One question, its answer judged; what the executor reported."""
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
    program: Program | None = None,
    more_bytes: int = 0,
) -> tuple[checks.Answer, dict[str, Any]]:
    """One question and its answer, and what the executor says beside it.

    `salt`: what fresh memory is filled with; drawn, so that no byte of an answer is there by itself in every case.
    `only`: numbers of the programs to run, in the interpreter. `program`: another tape, which the executor has,
    and whose answer is larger by `more_bytes`.
    """
    program = program or program_of(job, trial, case)
    reply, blobs = job.runner.ask(
        "call",
        [case.expectation.packed_inputs],
        expected_bytes=case.expectation.answer_bytes + more_bytes,
        name=program.name,
        silenced=silenced,
        salt=secrets.randbelow(2) if salt is None else salt,
        seed=secrets.randbits(48),
        order=secrets.randbelow(ORDERS),
        measure=measure,
        only=None if only is None else list(only),
    )
    return checks.read_answer(program.tape.tree, reply, blobs, job.settings.device), reply


def judge(job: Job, trial: Trial, case: Case, answer: checks.Answer) -> None:
    """All questions about one answer, in order."""
    if case.verify is None:
        checks.check_structure(case, answer)
        checks.check_form(case, answer)
        rows, failure = checks.measure(case, answer)
    else:
        rows, failure = checks.ask_verifier(case, case.verify, answer)
    job.accuracy += rows
    if failure is not None:
        failure = checks.explain_wrong(failure, case, answer, case.stale)
        if job.programs.misfit:
            failure = Failed(failure.finding, f"{failure.message}\nlikely cause: {job.programs.misfit}")
        raise failure
    checks.check_inputs(case, answer)
    checks.check_aliases(case, job.programs.of(trial, case).tape)


def right_in_silence(job: Job, trial: Trial, case: Case) -> list[str]:
    """Outputs that are right although no kernel runs, whatever fresh memory was filled with."""
    right: set[str] = set()
    for salt in (0, 1):
        try:
            answer, _ = call(job, trial, case, silenced=True, salt=salt)
        except Failed as failure:
            if failure.worker_died:
                raise
            return []  # an operator that fails on what no kernel has written needs the kernels
        found = set(checks.still_right(case, answer))
        right = found if salt == 0 else right & found
        if not right:
            return []
    return sorted(right)


def launch_counts(launches: list[dict[str, Any]]) -> list[KernelLaunch]:
    """Launches by kernel."""
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

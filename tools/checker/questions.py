"""Questions to a candidate's tapes in the executor, and the first look at each answer.

What is asked in which order is the stages' affair (`pipeline.py`, `clock_stages.py`, `sorting.py`).
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from typing import Any

from triton_agent.tools.answers import checks
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.processes.payloads import Payload
from triton_agent.tools.results import KernelLaunch
from triton_agent.tools.truth.plan import Case, Trial

ORDERS = 1 << 30
"""Seeds of the order in which the interpreter runs programs."""


def program_of(job: Job, trial: Trial, case: Case) -> Program:
    """Return the tape of a call after the executor was given it, and the parameters of the case."""
    payloads, news = _news_for_executor(job, trial, case)
    if news:
        job.runner.ask("prepare", payloads, **news)
    return job.programs.of(trial, case)


def send_program(job: Job, program: Program, state: Payload) -> None:
    """Give the executor a tape that belongs to no case, and its parameters."""
    news: dict[str, Any] = {"name": program.name, "program": _program_as_sent(job, program), "parameters": True}
    job.runner.ask("prepare", [program.init, state], **news)


def _news_for_executor(job: Job, trial: Trial, case: Case) -> tuple[list[Payload], dict[str, Any]]:
    """Return what the executor does not have yet of a tape and its parameters, as parts of a message."""
    program = job.programs.of(trial, case)
    payloads: list[Payload] = []
    news: dict[str, Any] = {}
    if program.name not in job.prepared:
        payloads.append(program.init)
        news["program"] = _program_as_sent(job, program)
        job.prepared[program.name] = None
    if job.prepared[program.name] != case.version or case.expectation.state_after:
        payloads.append(trial.states[case.version])
        news["parameters"] = True
        job.prepared[program.name] = case.version
    return payloads, {"name": program.name, **news} if news else {}


def _program_as_sent(job: Job, program: Program) -> dict[str, Any]:
    return {
        "tape": program.encoded,
        "kernels": program.kernels,
        "seed": program.seed,
        "conditions": dataclasses.asdict(job.settings.conditions),
    }


def ask_once(job: Job, trial: Trial, case: Case) -> dict[str, Any]:
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
    program: Program | None = None,
    more_bytes: int = 0,
) -> tuple[checks.Answer, dict[str, Any]]:
    """Make one call; return its answer and the executor's reply.

    `salt`: what fresh memory is filled with; drawn, so that no byte of an answer is there by itself in every case.
    `only`: numbers of the programs to run, in the interpreter. `program`: another tape, which the executor has,
    and whose answer is larger by `more_bytes`.
    """
    payloads: list[Payload] = []
    news: dict[str, Any] = {}
    if program is None:
        program = job.programs.of(trial, case)
        payloads, news = _news_for_executor(job, trial, case)
    reply, blobs = job.runner.ask(
        "call",
        [*payloads, case.expectation.packed_inputs],
        expected_bytes=case.expectation.answer_bytes + more_bytes,
        **{"name": program.name, **news},
        silenced=silenced,
        salt=secrets.randbelow(2) if salt is None else salt,
        seed=secrets.randbits(48),
        order=secrets.randbelow(ORDERS),
        measure=measure,
        only=None if only is None else list(only),
    )
    return checks.read_answer(program.tape.tree, reply, blobs, job.settings.device), reply


def judge(job: Job, trial: Trial, case: Case, answer: checks.Answer) -> None:
    """Check one answer completely."""
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
    """Return the outputs that are right without any kernel, whatever fresh memory was filled with."""
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
    """Sum up launches by kernel; bytes are None where something was not counted."""
    found = []
    for name in dict.fromkeys(launch["kernel"] for launch in launches):
        own = [launch for launch in launches if launch["kernel"] == name]
        loaded, stored = ([launch[key] for launch in own] for key in ("bytes_loaded", "bytes_stored"))
        found.append(
            KernelLaunch(
                kernel=name,
                launches=len(own),
                programs=sum(launch["programs"] for launch in own),
                bytes_loaded=None if None in loaded else sum(loaded),
                bytes_stored=None if None in stored else sum(stored),
            )
        )
    return found

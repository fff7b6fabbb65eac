"""Judges chains of calls of a module that keeps a state: each call begins with the state that the one before left.

All other cases begin with a state of the reference. So a kernel could count calls in the last bits of a state, where no
comparison sees it, and do something else later on. Not covered: what begins after more calls than a chain has.
"""

from __future__ import annotations

import time

from triton_agent.tools.answers import checks
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.questions import call, judge, program_of, send_state
from triton_agent.tools.processes.protocol import GetState, State
from triton_agent.tools.truth.plan import Case, Trial

LENGTHS = (4, 8, 16, 32)
"""Numbers of calls in a chain."""
CHAIN_S = 1.0
"""A chain is as long as its calls are expected to take at most this time, or else of the least length."""
TIMED = 3
"""Calls of which the fastest tells how long one takes: other work on the machine may slow any of them down."""
CHAINED_BYTES = 16 << 20
"""Largest size of a call's inputs for which a chain is made."""


def check_chains(job: Job) -> None:
    """Raise `Failed` if the last call of a chain has a wrong answer or leaves a wrong state.

    The chain is made at the main sizes, and also at the smallest ones if a longer chain fits there.
    """
    main = job.plan.trials[job.plan.main]
    stateful = [found for trial in job.trials() if (found := _changing_buffers(trial)) is not None]
    if not stateful:
        return
    for trial, given in dict.fromkeys([*(it for it in stateful if it[0] is main), stateful[0]]):
        if _check_chain(job, trial, given) == LENGTHS[-1]:
            return


def _changing_buffers(trial: Trial) -> tuple[Trial, Case] | None:
    """Return the trial with its first case that changes buffers, unless it is too large or changes inputs as well."""
    found = next((case for case in trial.cases if case.expectation.state_after), None)
    if found is None or trial.chain is None or found.expectation.packed_inputs.size_bytes > CHAINED_BYTES:
        return None
    if checks.mutated_inputs(found):
        return None
    return trial, found


def _check_chain(job: Job, trial: Trial, given: Case) -> int:
    """Check a chain of calls in the mode of this case; return how many there were."""
    assert trial.chain is not None
    program = program_of(job, trial, given)
    most = CHAIN_S / min(_seconds(job, trial, given) for _ in range(TIMED))
    chain = trial.chain(given, max((length for length in LENGTHS if length <= most), default=LENGTHS[0]))
    if chain is None or any(job.programs.of(trial, case) is not program for case in chain.cases):
        return 0
    send_state(job, program, trial.states[0])
    job.prepared[program.name] = None
    for number in range(chain.count):
        job.gpu.pause()
        case = chain.cases[number % len(chain.cases)]
        answer, _ = call(job, trial, case, program=program)
    judge(job, trial, case, answer)
    reply, blobs = job.runner.ask(GetState(name=program.name), State, expected_bytes=case.expectation.state_bytes)
    checks.check_state(case, reply, blobs, job.settings.device)
    return chain.count


def _seconds(job: Job, trial: Trial, case: Case) -> float:
    """Return how long a call takes, the transfer of its inputs and outputs included."""
    began = time.perf_counter()
    call(job, trial, case)
    return time.perf_counter() - began

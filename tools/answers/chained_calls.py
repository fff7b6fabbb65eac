"""Judges calls that get what the call before left or returned: its state, its answers, the inputs that it changed.

All other cases begin with inputs and a state of the reference. So a kernel could count calls in the last bits of what
it leaves, where no comparison sees it, and do something else later on. Not covered: what begins after more calls.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import torch

from triton_agent.tools.answers import checks
from triton_agent.tools.cases.plan import Case, Trial
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.questions import call, judge, program_of, send_state, state_of
from triton_agent.tools.processes.payloads import pack
from triton_agent.tools.processes.tensors import nested_tensors

LENGTHS = (4, 8, 16, 32)
"""Numbers of calls in a chain."""
CHAIN_S, SMALL_CHAIN_S = 1.0, 3.0
"""A chain is as long as its calls are expected to take at most this time, or else of the least length. The second holds
at the smallest sizes."""
TIMED = 3
"""Calls of which the fastest tells how long one takes: other work on the machine may slow any of them down."""
CHAINED_BYTES, CHAINED_ANSWERS_BYTES = 16 << 20, 256 << 20
"""Largest size of a call's inputs for which a chain is made, and of the answers of all of its calls."""
HANDED_ON_BYTES, HANDED_ON_S = 1 << 20, 0.5
"""Largest size of a call's inputs for which what a call returned is handed on, and time after which no more is."""
HANDED_ON, CHANGED_ON = 2, 16
"""Number of calls that get what the one before returned; the second is for modules that change their inputs, such as a
step of an optimiser."""


def check_chains(job: Job) -> None:
    """Raise `Failed` if a call of a chain has a wrong answer, or all of them leave a wrong state.

    The chain is made at the main sizes, and also at the smallest ones if a longer chain fits there.
    """
    main = job.plan.trials[job.plan.main]
    stateful = [found for trial in job.trials() if (found := _changing_buffers(trial)) is not None]
    if not stateful:
        return
    for trial, given in dict.fromkeys([*(it for it in stateful if it[0] is main), stateful[0]]):
        seconds = SMALL_CHAIN_S if (trial, given) == stateful[0] else CHAIN_S
        if _check_chain(job, trial, given, seconds) == LENGTHS[-1]:
            return


def _changing_buffers(trial: Trial) -> tuple[Trial, Case] | None:
    """Return the trial with its first case that changes buffers, unless it is too large or changes inputs as well."""
    found = next((case for case in trial.cases if case.expectation.state_after), None)
    if found is None or trial.chain is None or found.expectation.packed_inputs.size_bytes > CHAINED_BYTES:
        return None
    if checks.mutated_inputs(found):
        return None
    return trial, found


def _check_chain(job: Job, trial: Trial, given: Case, seconds: float) -> int:
    """Check a chain of calls in the mode of this case, the last one in the other mode; return how many there were."""
    assert trial.chain is not None
    most = min(
        seconds / min(_seconds(job, trial, given) for _ in range(TIMED)),
        CHAINED_ANSWERS_BYTES / max(given.expectation.answer_bytes, 1),
    )
    count = max((length for length in LENGTHS if length <= most), default=LENGTHS[0])
    last = next((it for it in trial.cases if it.train != given.train and it.distribution == given.distribution), None)
    chain = trial.chain(given, last, count)
    if chain is None:
        return 0
    program, state = program_of(job, trial, chain.cases[0]), trial.states[0]
    send_state(job, program, state)
    for case in chain.cases:
        job.gpu.pause()
        if job.programs.of(trial, case) is not program:
            state = pack(_with_changes(state.unpack(), state_of(job, program, case)))
            program = program_of(job, trial, case)
            send_state(job, program, state)
        job.prepared[program.name] = None
        answer, _ = call(job, trial, case, program=program)
        judge(job, trial, case, answer)
    checks.check_state(case, state_of(job, program, case))
    return count


def _with_changes(state: dict[str, torch.Tensor], after: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return parameters and buffers with the values that a call left."""
    for name, tensor in after.items():
        if name in state and state[name].shape == tensor.shape:
            state[name] = tensor.to(state[name].dtype, copy=True)  # large ones lie in one memory, whatever their dtypes
    return state


def _seconds(job: Job, trial: Trial, case: Case) -> float:
    """Return how long a call takes, the transfer of its inputs and outputs included."""
    began = time.perf_counter()
    call(job, trial, case)
    return time.perf_counter() - began


def check_handing_on(job: Job) -> None:
    """Raise `Failed` if a call is wrong that gets what the one before returned, or left in inputs that it changes."""
    small = [
        it
        for it in job.trials()
        if it.following and it.cases[0].expectation.packed_inputs.size_bytes <= HANDED_ON_BYTES
    ]
    if not small:
        return
    trial = min(small, key=lambda it: it.cases[0].expectation.packed_inputs.size_bytes)
    for first in [next(it for it in trial.cases if it.train == train) for train in {it.train for it in trial.cases}]:
        if first.verify is None:
            _hand_on(job, trial, first)


def _hand_on(job: Job, trial: Trial, first: Case) -> None:
    """Check calls in the mode of the first case that get what the call before returned."""
    assert trial.following is not None
    began = time.monotonic()
    state, case = trial.states[first.version].unpack(), first
    program = program_of(job, trial, first)
    answer, _ = call(job, trial, first, program=program)
    turns = CHANGED_ON if first.expectation.inputs_changed else HANDED_ON
    for turn in range(turns):
        inputs = _handed_on(first, answer, everywhere=turn % 2 == 1)
        if not inputs or time.monotonic() > began + HANDED_ON_S:
            break
        if case.expectation.state_after:
            state = _with_changes(state, state_of(job, program, case))
        following = trial.following(first, inputs, state)
        if following is None:
            break
        case = following.case
        job.gpu.pause()
        send_state(job, program, following.state)
        answer, _ = call(job, trial, case, program=program)
        judge(job, trial, case, answer)
        if case.expectation.state_after:
            checks.check_state(case, state_of(job, program, case))
    job.prepared[program.name] = None


def _handed_on(case: Case, answer: checks.Answer, *, everywhere: bool) -> dict[int, torch.Tensor]:
    """Return new values of inputs, by number: what the call changed, and outputs of the same shape and dtype.

    The last inputs get outputs, as states do. With `everywhere` all get one, as in a stack of blocks.
    """
    given = nested_tensors(case.expectation.packed_inputs.unpack())
    inputs = {number: tensor.clone() for number, tensor in answer.changed.items() if tensor.is_floating_point()}
    free = list(answer.tensors)
    for number in reversed(range(len(given))):
        if number in inputs or not given[number].is_floating_point():
            continue
        alike = [it for it in free if it.shape == given[number].shape and it.dtype == given[number].dtype]
        if alike:
            inputs[number] = alike[-1].clone()
            if not everywhere:
                free = [it for it in free if it is not alike[-1]]
    return inputs

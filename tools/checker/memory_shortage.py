"""Decides if a candidate or a reference ran out of GPU memory because other processes had taken it.

An executor measures the card when an allocation fails. As long as it holds no more than it may, with what it asked for,
others had the memory. Where an executor crashed, nothing was measured. So the card is looked at after the executor has
freed its memory: if less is free than a call at the problem's sizes may need, the verdict does not stand. The caller
holds a shared lease, since freeing memory would disturb timing. A reference that runs out of memory while others hold
much of the card says nothing about the problem. Not covered: crashes for want of memory that others have freed since.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import torch

from triton_agent.tools.errors import InstrumentError, MemoryTaken
from triton_agent.tools.processes.protocol import MemoryRefusal
from triton_agent.tools.results import Finding
from triton_agent.tools.sandbox.sandbox import MOST_OF_A_CARD

if TYPE_CHECKING:  # a plan's truth is compared by code that needs `session.py`, which needs this module
    from triton_agent.tools.cases.plan import Plan

CONTEXT_BYTES = 1 << 30
"""Memory of a process on the card before it allocates any tensor."""
CALLS_HELD = 24
"""Number of calls whose inputs and answers must fit: a worker keeps those of one variant until it has been judged
there, and a call has intermediate results."""
GIVING_BACK_S = 5.0
"""Time that an ended process may take to release its memory."""
POLL_S = 0.1

MUCH_OF_A_CARD = 1 / 8
"""Share of the card that others must hold to be the cause; otherwise the reference would not have fitted anyway."""

FEWER = "judge fewer at once, or end what holds the memory"

SHORT_OF_MEMORY = frozenset({Finding.MEMORY, Finding.CRASHED})
"""Findings that may be caused by a shortage; an executor that cannot get memory may crash."""


def taken_at(refusal: MemoryRefusal) -> MemoryTaken | None:
    """Return why memory that was refused to an executor counts as taken, or None if the candidate asked for too much.

    An allocation of unknown size may have been large. It counts as taken only if the card was nearly full.
    """
    if refusal.held_bytes + (refusal.asked_bytes or 0) > refusal.limit_bytes:
        return None
    if refusal.asked_bytes is None and refusal.free_bytes >= CONTEXT_BYTES:
        return None
    asked = "memory" if refusal.asked_bytes is None else f"{refusal.asked_bytes >> 20:,} MiB"
    return MemoryTaken(
        f"the GPU's memory is taken: {refusal.free_bytes >> 20:,} MiB were free when the candidate needed {asked}; it "
        f"held {refusal.held_bytes >> 20:,} MiB of {refusal.limit_bytes >> 20:,} that it may use",
        remedy=FEWER,
    )


def memory_was_taken(plan: Plan) -> MemoryTaken | None:
    """Return why a verdict of insufficient memory does not stand, or None if it stands."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return None
    deadline = time.monotonic() + GIVING_BACK_S
    free, total = _free_and_total()
    needed = room_needed(plan, total)
    while free < needed and time.monotonic() < deadline:
        time.sleep(POLL_S)
        free, total = _free_and_total()
    if free >= needed:
        return None
    return MemoryTaken(
        f"the GPU's memory is taken: {free >> 20:,} of {total >> 20:,} MiB are free, {needed >> 20:,} may be needed",
        remedy=FEWER,
    )


def memory_was_taken_from(error: BaseException) -> InstrumentError | None:
    """Return an InstrumentError if a reference failed because others hold the memory it needed; otherwise None."""
    while not _is_shortage(error):
        if error.__cause__ is None:
            return None
        error = error.__cause__
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return None
    free, total = _free_and_total()
    others = total - free - torch.cuda.memory_reserved() - CONTEXT_BYTES
    if others < MUCH_OF_A_CARD * total:
        return None
    return InstrumentError(
        f"the GPU's memory is taken: other processes hold {others >> 20:,} of {total >> 20:,} MiB",
        remedy="work on fewer problems at once, or end what holds the memory",
    )


def _is_shortage(error: BaseException) -> bool:
    """Return True for an out-of-memory error. Libraries report it as a failed allocation of a workspace or handle."""
    return isinstance(error, torch.OutOfMemoryError) or "STATUS_ALLOC_FAILED" in str(error)


def _free_and_total() -> tuple[int, int]:
    """Return the free and total bytes of the card, after releasing this process's cached memory."""
    with contextlib.suppress(RuntimeError):  # raised while torch's compiler records a CUDA graph
        torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()


def room_needed(plan: Plan, total_bytes: int) -> int:
    """Return the memory that a candidate may reasonably need."""
    cases = [case.expectation for trial in plan.trials for case in trial.cases]
    largest = max((case.packed_inputs.size_bytes + case.answer_bytes for case in cases), default=0)
    return min(CONTEXT_BYTES + CALLS_HELD * largest, int(MOST_OF_A_CARD * total_bytes))

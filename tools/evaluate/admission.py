"""Reserves memory of a card for a problem before anything of it runs there.

Every evaluator on a GPU is admitted here, so problems wait for each other, in whatever commands, instead of running out
of memory. What a verdict needs is predicted on fake tensors in a process of its own, since what the problem's code
keeps from that call must not reach the checker.

Not covered: references that do not run on fake tensors, for which half of the card is reserved.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator

from triton_agent.tools.errors import WorkerLost
from triton_agent.tools.evaluate.checker_process import forked, required, understood
from triton_agent.tools.machine.card_memory import Reservation, capacity_of
from triton_agent.tools.machine.hardware import VISIBLE, Gpu, visible_gpus
from triton_agent.tools.processes.codec import to_plain
from triton_agent.tools.processes.protocol import Bug, CheckerSettings, Refused, Size, Sized
from triton_agent.tools.processes.wire import Channel, ChannelClosed, ChannelTimeout
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.race.baseline_names import COMPILED

VERDICT_TIMES, VERDICT_MORE_BYTES = 2.5, 6 << 30
"""Memory that a verdict may take: a multiple of the peak of one call of the reference, plus bytes (decision 13)."""
COMPILED_TIMES = 1.0
"""The same for the process that times the compiled baselines: it makes one call at a time."""
SIZING_S = 60.0
"""Time limit for the prediction, after which the peak counts as unknown."""


@contextlib.contextmanager
def admitted(nursery: Nursery, told: CheckerSettings, say: Callable[[str], None]) -> Iterator[None]:
    """Reserve memory for a verdict during the block, waiting until it is free; then `say` gets a sentence.

    Does nothing without a GPU, or if the card's memory is unknown. Closing the nursery ends the wait.
    """
    with contextlib.ExitStack() as stack:
        if told.settings.device == "cuda":
            with forked(nursery.for_checkers(), told) as channel:
                channel.send(to_plain(Size()))
                gpu = _gpu(told.settings.card, os.environ.get(VISIBLE))  # takes a second, as the prediction does
                if gpu is not None and (capacity_bytes := capacity_of(gpu)):
                    compiles = told.settings.timed and any(name in COMPILED for name in told.settings.baselines)
                    size_bytes = bytes_needed(_peak_bytes(channel), capacity_bytes, compiles=compiles)
                    what = f"judging {told.problem.name}"
                    request = Reservation(gpu.uuid, size_bytes, capacity_bytes=capacity_bytes, what=what)
                    stack.callback(request.close)
                    if not told.settings.waits_for_memory:
                        request.take()
                    elif not request.wait(say, given_up=channel.is_readable):
                        raise WorkerLost("the processes ended while it waited for the GPU's memory")
        yield


def bytes_needed(peak_bytes: int | None, capacity_bytes: int, *, compiles: bool = False) -> int:
    """Return the memory to reserve for a verdict; `peak_bytes` of one call is None if it is unknown.

    `compiles`: it is timed against compiled baselines.
    """
    if peak_bytes is None:
        return capacity_bytes // 2
    times = VERDICT_TIMES + (COMPILED_TIMES if compiles else 0.0)
    return min(capacity_bytes, int(times * peak_bytes) + VERDICT_MORE_BYTES)


def _peak_bytes(channel: Channel) -> int | None:
    """Return the predicted peak of one call; None if the reference cannot be followed. Raise its `ProblemError`."""
    try:
        plain, _ = channel.receive(SIZING_S)
    except (ChannelTimeout, ChannelClosed):  # if the problem does that to the checker as well, that reports it
        return None
    return required(Sized, understood(Sized | Refused | Bug, plain)).peak_bytes


@functools.cache
def _gpu(card: str, visible: str | None) -> Gpu | None:
    """Return the card with this UUID, or the first one; `visible` tells different environments apart."""
    return next((gpu for gpu in visible_gpus() if card in ("", gpu.uuid)), None)

"""A second process that reads a problem along with the checker: it finds other sizes, and draws inputs for the clock.

Both take a CPU seconds where inputs are large, and neither waits for what the checker finds out meanwhile. On a GPU
only, where the problem is checked at its own sizes. Forked off the checker, it must be begun before that touches CUDA.
What it cannot tell, for whatever reason, the checker finds out for itself, and meets what went wrong.

Whoever asks it must not hold a place at the GPU: it takes one itself, and would stand behind those who wait for us.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
from collections.abc import Callable

import torch

from triton_agent.tools.isolate import privileges
from triton_agent.tools.isolate.payloads import Payload, announced, pack, received
from triton_agent.tools.isolate.wire import Channel, ChannelClosed
from triton_agent.tools.problem import ProblemSpec
from triton_agent.tools.verify.plan import secret_seed
from triton_agent.tools.verify.reference import load
from triton_agent.tools.verify.variants import FULL_SIZE, Variant, family

TIMING_SETS = 3
"""Sets of inputs that timed calls rotate through: one would let a memory of earlier answers look like speed."""

LARGE_BYTES = 1 << 30
"""Of a set from which on there is one: a second would double what both processes hold, and no cache keeps this much."""

AtGpu = Callable[[], contextlib.AbstractContextManager[None]]


class SecondReader:
    """At work from its construction; asked in this order, each once at most, and closed."""

    def __init__(self, spec: ProblemSpec, at_gpu: AtGpu, *, device: str, sizes: bool) -> None:
        """`at_gpu`: a shared place at the GPU, taken in that process. `sizes`: whether it will be asked for any."""
        self._channel, theirs = Channel.pair()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                privileges.die_with_parent()
                self._channel.let_go()
                _read(spec, theirs, at_gpu, device, sizes)
            finally:
                os._exit(0)
        theirs.let_go()

    def variants(self) -> list[Variant] | None:
        """The sizes as given first; None where it cannot tell."""
        try:
            message, _ = self._channel.receive()
        except ChannelClosed:
            return None
        return [Variant(**variant) for variant in message["variants"]]

    def timing_sets(self) -> tuple[Payload, ...] | None:
        """Drawn as given; None where it cannot tell."""
        try:
            message, blobs, files = self._channel.receive_with_fds()
        except ChannelClosed:
            return None
        return tuple(received(message, blobs, files))

    def close(self) -> None:
        """Ends it, and waits for that; with a place at the GPU, whose driver is busy when a process leaves.

        Nothing happens the second time.
        """
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
            self._channel.close()


def _read(spec: ProblemSpec, channel: Channel, at_gpu: AtGpu, device: str, sizes: bool) -> None:
    torch.set_num_threads(1)  # others that there were are not here after a fork
    if sizes:
        with at_gpu():
            variants = family(spec, secret_seed(), limits=FULL_SIZE, device=device)
            _require_health(device)
        channel.send({"variants": [dataclasses.asdict(variant) for variant in variants]})
    with at_gpu():  # a file may make its inputs there
        payloads = timing_sets(spec, device)
    kinds, inline, files = announced(payloads)
    channel.send(kinds, inline, tuple(files))
    with contextlib.suppress(ChannelClosed):
        channel.receive()  # stays until it is let go


def _require_health(device: str) -> None:
    """Raises where a size was dropped for what the GPU did, and not for what the original does there."""
    if device == "cuda":
        torch.cuda.synchronize()
        if torch.cuda.memory_stats().get("num_ooms", 0):
            raise MemoryError("the GPU's memory did not suffice for a size that was tried")


def timing_sets(spec: ProblemSpec, device: str) -> tuple[Payload, ...]:
    """A few draws of the inputs as given."""
    reference = load(spec)
    sets = [pack(reference.make_inputs_on(device, secret_seed()))]
    if sets[0].size_bytes <= LARGE_BYTES:
        sets += [pack(reference.make_inputs_on(device, secret_seed())) for _ in range(TIMING_SETS - 1)]
    return tuple(sets)

"""Fake workers, run by threads of the test, for the messages between checker and worker; and sample tensors."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

import torch

from triton_agent.tools.checker.session import Session
from triton_agent.tools.processes import answers
from triton_agent.tools.processes.payloads import LARGE_BYTES, receive_request
from triton_agent.tools.processes.protocol import Call, Called, Prepare
from triton_agent.tools.processes.tensors import DTYPES, describe, row
from triton_agent.tools.processes.wire import Channel, ChannelClosed


def filler() -> torch.Tensor:
    """Return a tensor so large that the payload with it is sent as a file."""
    return torch.arange(LARGE_BYTES, dtype=torch.int32)


def of_every_dtype() -> list[torch.Tensor]:
    bits = torch.arange(96, dtype=torch.uint8) % 2
    return [bits.bool() if dtype is torch.bool else bits.clone().view(dtype) for dtype in DTYPES.values()]


def of_every_form() -> list[torch.Tensor]:
    base = torch.arange(60.0)
    return [
        torch.empty(0),
        torch.empty(3, 0, 2, dtype=torch.int64),
        torch.tensor(2.5),
        base.reshape(5, 12).t(),
        base[7:50:3],
        torch.ones(1).expand(4, 6),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(4, dtype=torch.complex64).conj(),
        torch.randn(4, dtype=torch.complex64).imag,
        torch.nn.Parameter(torch.ones(2)),
    ]


ANY_CALL = Call(prepare=Prepare(name="m"), salt=0, seed=0, order=0)
NOTHING = Called(outputs=(), changed=(), inputs=())


def honest(channel: Channel) -> None:
    """Return the payload it was sent, using the code of real workers."""
    with contextlib.suppress(ChannelClosed):
        while True:
            _, payloads = receive_request(channel, Call)
            values = payloads[0].unpack()
            called = Called(outputs=tuple(describe(t) for t in values), changed=(), inputs=())
            answers.hand_over(channel, called, [[row(t) for t in values]])


@contextlib.contextmanager
def played_by(worker: Callable[[Channel], None]) -> Iterator[Session]:
    """Open a session with a fake worker in a thread. Exceptions in the thread are raised here."""
    ours, theirs = Channel.pair()
    raised: list[BaseException] = []

    def play() -> None:
        try:
            worker(theirs)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=play)
    thread.start()
    try:
        yield Session(ours, call_timeout_s=20, deadline=time.monotonic() + 20, ready=True)
    finally:
        ours.close()
        thread.join()
        theirs.close()
    assert not raised, raised


def descriptors() -> set[str]:
    """Return the file descriptors of this process with their targets."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.add(f"{name} -> {os.readlink(f'/proc/self/fd/{name}')}")
    return found

"""The process that measures baselines: `python -m triton_agent.runs.bench.baselines.process`, asked in JSON on stdin.

It is told of problems, and of how many may compile at once. It imports torch once, makes no CUDA context itself, and
forks a child for each problem. A batch of children compile side by side; once all of them are ready and still, each in
turn has the GPU to itself and measures. What one found is a line of JSON on stdout. The problem's code runs unconfined,
as a reference trusted by its user.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.wire import Channel, ChannelClosed, ChannelGarbled, ChannelTimeout
from triton_agent.tools.processes.zygote import QUIET
from triton_agent.tools.sandbox import privileges

COMPILING_S = 300.0
MEASURING_S = 120.0
"""Limits for a batch and for one problem of it; waiting for others' leases of the GPU counts."""
BATCH_AT_MOST = 16
"""Each has a CUDA context and the problem's tensors on the card."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A process with one problem."""

    index: int
    channel: Channel
    pid: int


def main() -> None:
    """All batches."""
    os.environ.update(QUIET)
    asked = json.load(sys.stdin)
    specs = [ProblemSpec.from_json(data) for data in asked["problems"]]
    import torch  # noqa: F401 - paid once, before the forks

    size = min(BATCH_AT_MOST, asked["at_once"])
    for first in range(0, len(specs), size):
        batch = range(first, min(first + size, len(specs)))
        for index, result in _measured(specs, batch):
            print(json.dumps({"problem": index, "result": result}, allow_nan=False), flush=True)


def _measured(specs: Sequence[ProblemSpec], batch: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The results of a batch, as they come."""
    children = [_fork(index, specs[index]) for index in batch]
    deadline = time.monotonic() + COMPILING_S
    prepared = {child.index: _answer(child, max(0.1, deadline - time.monotonic())) for child in children}
    for child in children:
        answer = prepared[child.index]
        if "ready" in answer:
            answer = _answer(child, MEASURING_S, go=True)
        yield child.index, answer
        _end(child)


def _answer(child: Child, limit_s: float, *, go: bool = False) -> dict[str, Any]:
    """What the child says next; one that says nothing ends here."""
    try:
        if go:
            child.channel.send({"go": True})
        message, _ = child.channel.receive(limit_s)
        return message
    except ChannelTimeout:
        failure = f"it took longer than {limit_s:.0f} s"
    except (ChannelClosed, ChannelGarbled) as error:
        failure = f"its process ended ({error})"
    _kill(child)
    return {"times": [], "failure": failure}


def _kill(child: Child) -> None:
    """It stays a zombie until it is waited for, so the number is still its own."""
    os.kill(child.pid, signal.SIGKILL)


def _end(child: Child) -> None:
    _kill(child)
    os.waitpid(child.pid, 0)
    child.channel.close()


def _fork(index: int, spec: ProblemSpec) -> Child:
    ours, theirs = Channel.pair()
    parent = os.getpid()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        theirs.let_go()
        return Child(index=index, channel=ours, pid=pid)
    privileges.die_with_parent()
    if os.getppid() == parent:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the problem's code prints is no result
        _serve(theirs, spec)
    os._exit(0)


def _serve(channel: Channel, spec: ProblemSpec) -> None:
    """In the child: get ready, wait for the word, measure."""
    from triton_agent.runs.bench.baselines.clock import Contest

    try:
        contest = Contest(spec)
        channel.send({"ready": True})
        channel.receive()
        answer = contest.measure()
    except ChannelClosed:
        return
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        first = (str(error).strip().splitlines() or [""])[0]
        answer = {"times": [], "failure": f"{type(error).__name__}: {first}"[:300]}
    channel.send(answer)
    channel.receive()  # until the parent has read it and ends this


if __name__ == "__main__":
    main()

"""The checker's connection to a tracer, a compile worker or an executor: requests with deadlines, and their failures.

A failure on the other side becomes a `Failed` with a finding of the decision table. If a worker dies before READY, or
raises an error of its own and not of its candidate, an `InstrumentError` is raised instead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import NoReturn, TypeVar

import torch

from triton_agent.tools.candidate.failure_text import OUT_OF_RESOURCES, condense
from triton_agent.tools.checker.memory_shortage import taken_at
from triton_agent.tools.errors import NotJudgeableHere, WorkerNeverReady
from triton_agent.tools.machine.baton import BATON
from triton_agent.tools.processes.answers import collect
from triton_agent.tools.processes.codec import from_plain
from triton_agent.tools.processes.deaths import Ending, Sign, cause_of
from triton_agent.tools.processes.payloads import Payload, send_request
from triton_agent.tools.processes.protocol import Broken, Load, Raised, Ready, Trace, WorkerRequest
from triton_agent.tools.processes.wire import Channel, ChannelClosed, ChannelGarbled, ChannelTimeout
from triton_agent.tools.results import Finding

ENDINGS = {
    "reads_values": (
        Finding.READS_VALUES,
        "values of a tensor are read in Python (.item(), .tolist(), nonzero, a condition on a tensor); pass the tensor "
        "to the kernel and read it there",
    ),
    "not_on_tape": (
        Finding.NOT_RECORDED,
        "forward runs once without data, and what it does is recorded; leave out what cannot be",
    ),
    "retained": (
        Finding.RETAINED_INPUT,
        "a call uses what an earlier call computed from its inputs; compute everything from the inputs of the call",
    ),
    "foreign": (Finding.DISGUISED_TENSOR, "forward returns something else than plain tensors and values"),
    "kernel": (Finding.KERNEL_LANGUAGE, "a kernel uses something that is not part of Triton's language"),
}
"""Reasons why a candidate has no tape, each with its finding and advice for the author."""
SIGNS: dict[type[Exception], Sign] = {
    ChannelClosed: Sign.ENDED,
    ChannelTimeout: Sign.SILENT,
    ChannelGarbled: Sign.GARBLED,
}
READY_TIMEOUT_S = 60.0
"""A zygote forks in milliseconds; if it takes a minute, the machine is in trouble."""


class Failed(Exception):
    """The candidate failed: `finding`, and a message for its author. Caught at the edge of the pipeline."""

    def __init__(
        self,
        finding: Finding,
        message: str,
        *,
        ending: Ending | None = None,
        may_lack_memory: bool = False,
        lacks_resources: bool = False,
    ) -> None:
        """`may_lack_memory`: the process that failed uses the GPU, and nobody measured if memory was short there."""
        super().__init__(message)
        self.finding = finding
        self.message = message
        self.ending = ending
        """Set if a worker died or did not answer."""
        self.may_lack_memory = may_lack_memory
        self.lacks_resources = lacks_resources
        """True if a kernel needs more shared memory or threads than the GPU has, so that Triton does not launch it."""

    def during(self, case: str) -> Failed:
        """Return the same failure with the name of the case in its message."""
        ending = self.ending
        if ending is not None:  # the driver words this message once it knows how the process ended
            ending = dataclasses.replace(ending, doing=f"the call at {case}")
            said, may_lack = cause_of(ending).message, self.may_lack_memory
            return Failed(self.finding, said, ending=ending, may_lack_memory=may_lack)
        said = f"case {case}: {self.message}"
        return Failed(self.finding, said, may_lack_memory=self.may_lack_memory, lacks_resources=self.lacks_resources)

    @property
    def worker_died(self) -> bool:
        return self.ending is not None and self.ending.sign is Sign.ENDED


Answer = TypeVar("Answer")


class Session:
    """Talks to one worker about one candidate."""

    def __init__(
        self, channel: Channel, *, call_timeout_s: float, deadline: float, ready: bool = False, kind: str = ""
    ) -> None:
        """`ready`: the worker has already reported that it is ready, in a session for another candidate.

        `kind` is the worker's, as in `worker_pool.py`.
        """
        self.channel = channel
        self.kind = kind
        self.call_timeout_s = call_timeout_s
        self.deadline = deadline
        self.layers: tuple[str, ...] = ()
        self.is_ready = ready
        self.is_sound = True
        """True if every request so far was answered, if only by a report of the candidate's failure."""

    @contextlib.contextmanager
    def off_its_time(self) -> Iterator[None]:
        """Extend the deadline by the duration of this block, a wait that the candidate does not cause."""
        began = time.monotonic()
        try:
            with BATON.put_down():
                yield
        finally:
            self.deadline += time.monotonic() - began

    def await_ready(self) -> None:
        """Wait until the worker reports that it is ready, at the first call only."""
        if self.is_ready:
            return
        try:
            with BATON.put_down():
                plain, _ = self.channel.receive(READY_TIMEOUT_S)
            self.layers = from_plain(Ready, plain).layers
        except tuple(SIGNS) as error:
            cause = cause_of(Ending(sign=SIGNS[type(error)], detail=str(error)))
            raise WorkerNeverReady(cause.message, remedy="run `triton-agent doctor`") from error
        self.is_ready = True

    def ask(
        self,
        request: WorkerRequest,
        answer: type[Answer],
        payloads: Sequence[Payload] = (),
        *,
        timeout_s: float | None = None,
        expected_bytes: int = 0,
    ) -> tuple[Answer, list[torch.Tensor]]:
        """Send a request and return its answer; raise `Failed` if the candidate failed at it.

        `expected_bytes` is the size of the correct answer, if known.
        """
        began = time.monotonic()
        wanted_s, left_s = timeout_s or self.call_timeout_s, max(0.05, self.deadline - began)
        limit_s = min(wanted_s, left_s)
        # The candidate's own Python runs in the tracer, so what a tracer says of itself may be forged.
        is_believed = not isinstance(request, (Load, Trace))
        self.is_sound = False
        try:
            with BATON.put_down():
                send_request(self.channel, request, payloads)
                plain, data = self.channel.receive(limit_s)
                left_s = max(0.05, limit_s - (time.monotonic() - began))
                rows = collect(self.channel, plain, data, expected_bytes=expected_bytes, timeout_s=left_s)
            kinds = Raised | Broken | answer if is_believed else Raised | answer
            reply: Raised | Broken | Answer = from_plain(kinds, plain)
        except tuple(SIGNS) as error:
            ending = Ending(
                sign=SIGNS[type(error)],
                doing=request.does,
                worker=self.kind,
                runs_candidate=not is_believed,
                limit_s=limit_s,
                of_verdict=limit_s < wanted_s,
                detail=str(error),
            )
            cause = cause_of(ending)
            assert cause.finding is not None
            raise Failed(cause.finding, cause.message, ending=ending, may_lack_memory=is_believed) from error
        if isinstance(reply, Broken):
            raise reply.error
        self.is_sound = True
        if isinstance(reply, Raised):
            self._fail(reply, is_believed=is_believed)
        return reply, rows

    def _fail(self, raised: Raised, *, is_believed: bool) -> NoReturn:
        refusal = raised.refusal if is_believed else None
        taken = taken_at(refusal) if refusal is not None else None
        if taken is not None:
            raise taken
        ending = ENDINGS.get(raised.ending)
        if ending is not None:
            where = f"line {raised.lines[-1].line}: " if raised.lines else ""
            said = f"{where}{raised.text[:300]}".strip()
            raise Failed(ending[0], f"{said}\nlikely cause: {ending[1]}" if said else ending[1])
        condensed = condense(raised)
        if raised.unsupported and is_believed:
            raise NotJudgeableHere(
                f"the kernel uses a feature that cannot be run without a GPU: {condensed.message}",
                remedy="evaluate it on a machine with a GPU",
            )
        lacks_resources = is_believed and OUT_OF_RESOURCES in raised.kinds
        may_lack = is_believed and (refusal is None or refusal.asked_bytes is None)
        raise Failed(condensed.finding, condensed.message, may_lack_memory=may_lack, lacks_resources=lacks_resources)

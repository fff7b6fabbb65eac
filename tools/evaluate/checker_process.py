"""The driver's side of the checker: starts it, sends it candidates, returns its verdicts, restarts it after a crash.

A checker may die: a reference crashes in native code, a GPU fails, the machine runs out of memory. Each verdict in
progress then ends with an `InstrumentError`, and the next candidate gets a new checker for the same problem, with new
seeds. A checker that dies several times in a row without a verdict is not restarted. Nothing here needs torch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from triton_agent.tools.audit.report import AuditReport
from triton_agent.tools.errors import InstrumentError, WorkerLost
from triton_agent.tools.evaluate.worker_pool import Team
from triton_agent.tools.problem.confinement import confinement_for, require_layers
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.codec import from_plain, to_plain
from triton_agent.tools.processes.holdings import File
from triton_agent.tools.processes.protocol import (
    AtStage,
    Audit,
    Audited,
    AuditStep,
    Bug,
    CheckerSettings,
    JobAnswer,
    Judge,
    LoadProblem,
    ProblemLoaded,
    Refused,
    Wanted,
)
from triton_agent.tools.processes.wire import Channel, ChannelClosed, ChannelGarbled, ChannelTimeout
from triton_agent.tools.processes.zygotes import Child, Nursery, Zygote
from triton_agent.tools.settings import EvaluatorSettings

SILENCE_S = 300.0
"""Longest wait for a message; loading a problem and running its reference are the longest silent steps."""
VERDICT_SLACK_S = 60.0
"""Time beyond the checker's own limit after which the checker is assumed to hang."""
DEATHS_AT_MOST = 3
"""Deaths in a row, without a verdict in between, after which the checker is not restarted."""

Kind = TypeVar("Kind")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Lost:
    """Replaces an answer if the checker died."""

    why: str


class CheckerProcess:
    """The checker of one problem. Every method may be called from any thread."""

    def __init__(self, nursery: Nursery, settings: CheckerSettings) -> None:
        self._nursery = nursery
        self._settings = settings
        self._timeout_s = settings.settings.total_timeout_s + VERDICT_SLACK_S
        self._jobs: dict[int, queue.SimpleQueue[dict[str, Any] | _Lost]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._beginning = threading.Lock()
        self._channel: Channel | None = None
        self._child: Child | None = None
        self._lost = "the checker was never begun"
        self._deaths = 0
        self._closed = False
        self.lent: dict[File, int] = {}
        """In-memory files of the checker that workers receive, with their sizes; set by `facts`."""

    def begin(self) -> None:
        """Fork the checker and have it load the problem; `facts` waits until it is loaded."""
        channel, theirs = Channel.pair()
        self._child = self._nursery.for_checkers().fork("checker", theirs, self._settings)
        self._channel = channel
        channel.send(to_plain(LoadProblem()))

    def facts(self) -> ProblemLoaded:
        """Wait until the checker has loaded the problem, and return the facts about it.

        A reference may end its process, or break its GPU's context, with inputs in a memory layout that its kernels
        cannot read. The problem is then loaded once more without other layouts.
        """
        try:
            prepared = self._loaded()
        except WorkerLost:
            if not self._settings.settings.layouts:
                raise
            self._end()
            self._settings = dataclasses.replace(
                self._settings, settings=dataclasses.replace(self._settings.settings, layouts=False)
            )
            self.begin()
            prepared = self._loaded()
        assert self._channel is not None
        self.lent = {(device, number): size for device, number, size in prepared.lent}
        with self._lock:
            self._lost = ""
        threading.Thread(target=self._listen, args=(self._channel,), daemon=True).start()
        return prepared

    def _loaded(self) -> ProblemLoaded:
        assert self._channel is not None
        with _deaths_reported(self._nursery, "while it loaded the problem"):
            plain, _ = self._channel.receive(SILENCE_S)
        return required(ProblemLoaded, understood(ProblemLoaded | Refused | Bug, plain))

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._end()

    @contextlib.contextmanager
    def job(self) -> Iterator[CheckerJob]:
        """Register one candidate with the checker, restarting the checker if it died."""
        with self._beginning:
            if self._lost and not self._closed:
                if self._deaths >= DEATHS_AT_MOST:
                    raise WorkerLost(f"the checker died {self._deaths} times in a row; the last time, {self._lost}")
                self._end()
                self.begin()
                self.facts()
        job = CheckerJob(self, next(self._numbers))
        with self._lock:
            if self._lost:
                raise WorkerLost(self._lost, remedy="start the evaluator anew")
            self._jobs[job.number] = job.answers
        try:
            yield job
        finally:
            self._jobs.pop(job.number, None)

    def send(self, request: Judge, fds: tuple[int, ...]) -> None:
        assert self._channel is not None
        try:
            self._channel.send(to_plain(request), fds=fds)
        except ChannelClosed as error:
            raise WorkerLost("the checker is gone", remedy="evaluate it again") from error

    def await_answer(self, answers: queue.SimpleQueue[dict[str, Any] | _Lost]) -> AtStage | JobAnswer:
        try:
            plain = answers.get(timeout=self._timeout_s)
        except queue.Empty as error:
            raise InstrumentError("the checker gave no verdict in time") from error
        if isinstance(plain, _Lost):
            raise WorkerLost(plain.why, remedy="evaluate it again")
        answer: AtStage | JobAnswer = understood(AtStage | JobAnswer, plain)
        if not isinstance(answer, (AtStage, Refused, Bug)):
            self._deaths = 0
        return answer

    def _end(self) -> None:
        """Close the channel, which ends the checker, and reap it; its zygote may have ended already."""
        if self._channel is not None:
            self._channel.close()
        if self._child is not None:
            with contextlib.suppress(WorkerLost):
                self._child.reap()
            self._child = None

    def _listen(self, channel: Channel) -> None:
        """Pass the checker's messages to their jobs; if it dies, notify every job."""
        while True:
            try:
                message, _ = channel.receive()
            except (ChannelClosed, OSError, ValueError):
                break
            waiting = self._jobs.get(message.get("job", 0))
            if waiting is not None:
                waiting.put(message)
        with self._lock:
            self._lost = f"the checker died:\n{self._nursery.log_tail()}"
            self._deaths += 1
            for waiting in self._jobs.values():
                waiting.put(_Lost(why=self._lost))


class CheckerJob:
    """One candidate that is judged by the checker."""

    def __init__(self, checker: CheckerProcess, number: int) -> None:
        self.number = number
        self.answers: queue.SimpleQueue[dict[str, Any] | _Lost] = queue.SimpleQueue()
        self._checker = checker

    def answer(
        self,
        kind: type[Kind],
        source: str,
        team: Team,
        wanted: Wanted,
        *,
        as_given: bool = False,
        file: str = "",
        lengths: tuple[tuple[int, ...], ...] = (),
        on_stage: Callable[[str], None] | None = None,
    ) -> Kind:
        """Send the candidate's text and the sockets of its workers, and wait for the answer.

        Raise the error that the checker reports instead of an answer.
        """
        workers = team.handed_over()
        request = Judge(
            job=self.number,
            source=source,
            workers=workers,
            wanted=wanted,
            as_given=as_given,
            file=file,
            lengths=lengths,
        )
        self._checker.send(request, team.descriptors())
        team.let_go()
        while True:
            message = self._checker.await_answer(self.answers)
            if isinstance(message, AtStage):
                if on_stage is not None:
                    on_stage(message.stage)
                continue
            team.keep(message.workers)
            return required(kind, message)


def audit_problem(
    spec: ProblemSpec,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    nursery: Nursery | None = None,
    trust: bool = True,
) -> AuditReport:
    """Try wrong answers on the problem, in a separate checker. Raise `ProblemError` if the problem is unusable.

    `on_progress` is called with the number of answers tried and the number of all answers. A given `nursery` stays
    open. With `trust=False` the problem runs confined.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="triton-agent-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if nursery is None:
            nursery = stack.enter_context(Nursery(str(folder / "zygote.log")))
        if not trust:
            require_layers()
        confinement = None if trust else confinement_for(spec, folder / "checker", gpu=False)
        settings = CheckerSettings(problem=spec, settings=EvaluatorSettings(), confinement=confinement)
        channel = stack.enter_context(forked(nursery.base, settings))
        stack.enter_context(_deaths_reported(nursery, "while it tried the problem"))
        channel.send(to_plain(Audit()))
        while True:
            plain, _ = channel.receive(SILENCE_S)
            message = understood(AuditStep | Audited | Refused | Bug, plain)
            if not isinstance(message, AuditStep):
                return required(Audited, message).report
            if on_progress is not None:
                on_progress(message.tried, message.answers)


@contextlib.contextmanager
def forked(zygote: Zygote, settings: CheckerSettings) -> Iterator[Channel]:
    """Fork a checker for a single question, and end it after the block."""
    channel, theirs = Channel.pair()
    with contextlib.closing(channel):
        child = zygote.fork("checker", theirs, settings)
        try:
            yield channel
        finally:
            with contextlib.suppress(WorkerLost):  # its zygote has ended
                child.reap()


@contextlib.contextmanager
def _deaths_reported(nursery: Nursery, when: str) -> Iterator[None]:
    try:
        yield
    except ChannelTimeout as error:
        raise InstrumentError(
            f"the reference did not finish within {SILENCE_S:.0f} s", remedy="make the problem smaller"
        ) from error
    except ChannelClosed as error:
        raise WorkerLost(f"the checker died {when}:\n{nursery.log_tail()}") from error


def understood(kind: Any, plain: dict[str, Any]) -> Any:
    try:
        return from_plain(kind, plain)
    except ChannelGarbled as error:
        raise InstrumentError(f"a bug of ours: the checker's message cannot be read ({error})") from error


def required(kind: type[Kind], message: object) -> Kind:
    """Return the message if it is of this kind; raise the error that the checker reports instead."""
    if isinstance(message, Refused):
        raise message.error
    if isinstance(message, Bug):
        raise RuntimeError(f"a bug of ours in the checker:\n{message.trace}")
    assert isinstance(message, kind), message
    return message

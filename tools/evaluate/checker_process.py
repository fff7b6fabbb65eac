"""The driver's side of the checker: starts it, hands it candidates, returns its verdicts, restarts it after a death.

A checker may die: a reference crashes in native code, a GPU fails, the machine runs out of memory. Each verdict under
way then ends with an `InstrumentError`, and the next candidate finds a new checker for the same problem, with new
seeds. A checker that dies several times in a row without a verdict is not restarted. Nothing here needs torch.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from triton_agent.tools.audit.report import AuditReport
from triton_agent.tools.errors import InstrumentError, WorkerLost
from triton_agent.tools.evaluate.worker_pool import Team
from triton_agent.tools.problem.confinement import confinement_for, require_layers
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.holdings import File
from triton_agent.tools.processes.wire import Channel, ChannelClosed, ChannelTimeout, error_from_json
from triton_agent.tools.processes.zygotes import Child, Nursery
from triton_agent.tools.results import to_json

SILENCE_S = 300.0
"""Longest wait for a message; loading a problem and running its reference are the longest silent steps."""
VERDICT_SLACK_S = 60.0
"""Time beyond the limit that the checker itself keeps; after that the checker is taken to be stuck."""
DEATHS_AT_MOST = 3
"""In a row, without a verdict in between: what kills a checker every time is not going to stop."""

Message = dict[str, Any]


class CheckerProcess:
    """The checker of one problem. Every method may be called from any thread."""

    def __init__(self, nursery: Nursery, settings: Message, *, verdict_timeout_s: float) -> None:
        self._nursery = nursery
        self._settings = settings
        self._timeout_s = verdict_timeout_s + VERDICT_SLACK_S
        self._jobs: dict[int, queue.SimpleQueue[Message]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._beginning = threading.Lock()
        self._channel: Channel | None = None
        self._child: Child | None = None
        self._lost = "the checker was never begun"
        self._deaths = 0
        self._closed = False
        self.lent: dict[File, int] = {}
        """The checker's files in memory that workers are given, with their sizes; set by `facts`."""

    def begin(self) -> None:
        """Fork the checker and have it load the problem; `facts` waits for that."""
        channel, theirs = Channel.pair()
        self._child = self._nursery.for_checkers().fork("checker", theirs, self._settings)
        self._channel = channel
        channel.send({"op": "prepare"})

    def facts(self) -> Message:
        """Wait until the checker has loaded the problem and return what it found out about it."""
        assert self._channel is not None
        with _deaths_reported(self._nursery, "while it loaded the problem"):
            reply, _ = self._channel.receive(SILENCE_S)
        _raise_reported(reply)
        self.lent = {(device, number): size for device, number, size in reply["lent"]}
        with self._lock:
            self._lost = ""
        threading.Thread(target=self._listen, args=(self._channel,), daemon=True).start()
        return {**reply["facts"], "card": reply["card"]}

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._end()

    @contextlib.contextmanager
    def job(self) -> Iterator[CheckerJob]:
        """Register one candidate with the checker; restart the checker if it died."""
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

    def send(self, message: Message, fds: tuple[int, ...]) -> None:
        assert self._channel is not None
        try:
            self._channel.send(message, fds=fds)
        except ChannelClosed as error:
            raise WorkerLost("the checker is gone", remedy="evaluate it again") from error

    def await_answer(self, answers: queue.SimpleQueue[Message]) -> Message:
        try:
            message = answers.get(timeout=self._timeout_s)
        except queue.Empty as error:
            raise InstrumentError("the checker gave no verdict in time") from error
        if "lost" in message:
            raise WorkerLost(message["lost"], remedy="evaluate it again")
        if "verdict" in message:
            self._deaths = 0
        return message

    def _end(self) -> None:
        """Close the channel, which ends the checker, and reap it; its zygote may be gone already."""
        if self._channel is not None:
            self._channel.close()
        if self._child is not None:
            with contextlib.suppress(WorkerLost):
                self._child.reap()
            self._child = None

    def _listen(self, channel: Channel) -> None:
        """Pass the checker's messages on to the jobs they are for; on its death, tell every job."""
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
                waiting.put({"lost": self._lost})


class CheckerJob:
    """One candidate with the checker."""

    def __init__(self, checker: CheckerProcess, number: int) -> None:
        self.number = number
        self.answers: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._checker = checker

    def hand_over(self, source: str, team: Team, **how: Any) -> None:
        """Send the candidate's text and the sockets of its processes."""
        message = {"op": "judge", "job": self.number, "source": source, "roles": team.roles(), **how}
        self._checker.send(message, team.descriptors())
        team.let_go()

    def verdict(self, team: Team, on_stage: Callable[[str], None] | None) -> Message:
        """Wait for the verdict, as plain data. Raise the error that kept the checker from reaching one."""
        while True:
            message = self._checker.await_answer(self.answers)
            team.keep(message.get("kept", ()))
            _raise_reported(message)
            if "verdict" in message:
                verdict: Message = message["verdict"]
                return verdict
            if on_stage is not None:
                on_stage(message["stage"])


def audit_problem(
    spec: ProblemSpec,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    nursery: Nursery | None = None,
    trust: bool = True,
) -> AuditReport:
    """Try wrong answers on the problem, in a checker of its own. Raise `ProblemError` if it is unusable.

    `on_progress` is called with the number of answers tried and of all answers. A given `nursery` stays open. A problem
    without `trust` runs confined.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="triton-agent-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if nursery is None:
            nursery = stack.enter_context(Nursery(str(folder / "zygote.log")))
        channel, theirs = Channel.pair()
        stack.callback(channel.close)
        settings = {"spec": spec.to_json(with_text=True), "judge": {}, "plan": {"modes": ["eval", "train"]}}
        if not trust:
            require_layers()
            settings["confinement"] = to_json(confinement_for(spec, folder / "checker", gpu=False))
        child = nursery.base.fork("checker", theirs, settings)
        stack.callback(child.reap)
        stack.enter_context(_deaths_reported(nursery, "while it tried the problem"))
        channel.send({"op": "audit"})
        while True:
            message, _ = channel.receive(SILENCE_S)
            _raise_reported(message)
            if "report" in message:
                return AuditReport.from_json(message["report"])
            if on_progress is not None:
                on_progress(int(message["tried"]), int(message["answers"]))


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


def _raise_reported(message: Message) -> None:
    """Raise the error that the checker reports, if any."""
    if "error" in message:
        raise error_from_json(message["error"])
    if "bug" in message:
        raise RuntimeError(f"a bug of ours in the checker:\n{message['bug']}")

"""The driver's end of a problem's checker: starts it, hands it candidates, hands back verdicts, begins it anew.

A checker may die: an original crashes in native code, a GPU falls off the bus, the machine runs out of memory. Verdicts
under way are lost then, each with an `InstrumentError`; the next candidate finds a new checker for the same problem,
with seeds of its own. One that dies again and again without a verdict in between is not begun once more.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from triton_agent.tools.errors import InstrumentError, WorkerLost
from triton_agent.tools.isolate.holdings import File
from triton_agent.tools.isolate.processes import Child, Nursery
from triton_agent.tools.isolate.wire import Channel, ChannelClosed, ChannelTimeout, error_from_json
from triton_agent.tools.worker_pool import Team

PREPARE_TIMEOUT_S = 300.0
VERDICT_SLACK_S = 60.0
"""Beyond the total time limit the checker keeps itself; then the checker is what is stuck."""
DEATHS_AT_MOST = 3
"""In a row, without a verdict in between: what kills a checker every time is not going to stop."""

Message = dict[str, Any]


class Referee:
    """One problem's checker, as its driver sees it; every method may be called from any thread."""

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
        """The checker's files in memory that workers are handed, with their sizes; known once `facts` are."""

    def begin(self) -> None:
        """Fork the checker and have it load the problem; `facts` waits for that."""
        channel, theirs = Channel.pair()
        self._child = self._nursery.for_checkers().fork("checker", theirs, self._settings)
        self._channel = channel
        channel.send({"op": "prepare"})

    def facts(self) -> Message:
        """What the checker found out about the problem, once it has."""
        assert self._channel is not None
        try:
            reply, _ = self._channel.receive(PREPARE_TIMEOUT_S)
        except ChannelTimeout as error:
            raise InstrumentError(
                f"the original did not finish within {PREPARE_TIMEOUT_S:.0f} s", remedy="make the problem smaller"
            ) from error
        except ChannelClosed as error:
            raise WorkerLost(f"the checker died while it loaded the problem:\n{self._nursery.log_tail()}") from error
        raise_reported(reply)
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
    def job(self) -> Iterator[Job]:
        """A place in the checker's books for one candidate; begins the checker anew if the last one died."""
        self._see_that_it_lives()
        job = Job(self, next(self._numbers))
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

    def _see_that_it_lives(self) -> None:
        with self._beginning:
            if not self._lost or self._closed:
                return
            if self._deaths >= DEATHS_AT_MOST:
                raise WorkerLost(f"the checker died {self._deaths} times in a row; the last time, {self._lost}")
            self._end()
            self.begin()
            self.facts()

    def _end(self) -> None:
        """Hang up and reap. A zygote that is gone takes nothing with it: the checker ends as its driver hangs up."""
        if self._channel is not None:
            self._channel.close()
        if self._child is not None:
            with contextlib.suppress(WorkerLost):
                self._child.reap()
            self._child = None

    def _listen(self, channel: Channel) -> None:
        """Hand what the checker says to whoever waits for it."""
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


class Job:
    """One candidate with the checker."""

    def __init__(self, referee: Referee, number: int) -> None:
        self.number = number
        self.answers: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._referee = referee

    def hand_over(self, source: str, team: Team, **how: Any) -> None:
        """The candidate, and the sockets of its processes."""
        message = {"op": "judge", "job": self.number, "source": source, "roles": team.roles(), **how}
        self._referee.send(message, team.descriptors())
        team.let_go()

    def verdict(self, team: Team, on_stage: Callable[[str], None] | None) -> Message:
        """Plain data; what kept the checker from reaching one is raised."""
        while True:
            message = self._referee.await_answer(self.answers)
            team.keep(message.get("kept", ()))
            raise_reported(message)
            if "verdict" in message:
                verdict: Message = message["verdict"]
                return verdict
            if on_stage is not None:
                on_stage(message["stage"])


def raise_reported(message: Message) -> None:
    """Errors that the checker met, as if they had been met here."""
    if "error" in message:
        raise error_from_json(message["error"])
    if "bug" in message:
        raise RuntimeError(f"a bug of ours in the checker:\n{message['bug']}")

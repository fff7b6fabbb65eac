"""One run as its loop sees it: what was asked, answered and graded; in the store before anything goes on.

The store is the truth. A run that is taken up again reads itself from it, so every answer is asked for once and every
attempt graded once, whatever a checkpoint says. A run that continues an attempt of another one knows what that one knew
when the attempt had been judged, and counts its turns on from there; what it finds itself is its own alone.
"""

from __future__ import annotations

import asyncio
import bisect
import dataclasses
import datetime
from typing import Any

from triton_agent.memory.records import Attempt, Event, Grading, Run, RunEnd
from triton_agent.memory.store import Store
from triton_agent.policy.episode import Graded
from triton_agent.tools.candidate.identity import structure_of

RECALLED = "recalled"
"""Kind of the event that keeps what memory said at the start, so that a resumed run is told the same."""


class Ledger:
    """The attempts of one run. Use from one event loop."""

    def __init__(self, store: Store, run: Run) -> None:
        self._store = store
        self.run = run
        self._attempts: dict[str, Attempt] = {}
        self._graded: dict[str, Graded] = {}
        self._history: list[Graded] = []
        self._unwritten: list[tuple[Grading, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._structures: dict[str, str] = {}
        self._inherited = _inherited(store, run)

    @classmethod
    def begin(cls, store: Store, run: Run) -> Ledger:
        """A new run, in the store at once."""
        store.add_run(run)
        return cls(store, run)

    @classmethod
    def take_up(cls, store: Store, run_id: str) -> Ledger:
        """A run that was begun before."""
        ledger = cls(store, store.run(run_id))
        for attempt in store.attempts(ledger.run.id):
            ledger._enter(attempt)
            gradings = store.gradings(attempt.key)
            if gradings:
                ledger._settle(gradings[-1])
        return ledger

    # -- what is known ---------------------------------------------------------------------------------------------

    def attempts(self) -> list[Attempt]:
        return list(self._attempts.values())

    def attempt(self, key: str) -> Attempt:
        return self._attempts[key]

    def is_graded(self, key: str) -> bool:
        return key in self._graded

    def graded(self, key: str) -> Graded:
        return self._graded[key]

    def history(self, before_turn: int | None = None) -> list[Graded]:
        """What was graded, in the order it was asked for; what could not be measured is in it."""
        if before_turn is None:
            return list(self._history)
        return [item for item in self._history if item.attempt.turn < before_turn]

    def past(self, before_turn: int) -> list[Graded]:
        """The history, after that of the run which this one continues."""
        return [*self._inherited, *self.history(before_turn)]

    @property
    def first_turn(self) -> int:
        """0, or the one after the turn that this run continues."""
        return self._inherited[-1].attempt.turn + 1 if self._inherited else 0

    def of_turn(self, turn: int) -> list[Attempt]:
        """The answers of a turn that were given already, in order."""
        found = [attempt for attempt in self._attempts.values() if attempt.turn == turn]
        return sorted(found, key=lambda attempt: attempt.index)

    def asked(self, policy: str, before_turn: int) -> int:
        """How many answers a policy was asked for in earlier turns."""
        earlier = [attempt for attempt in self._attempts.values() if attempt.turn < before_turn]
        earlier += [item.attempt for item in self._inherited]
        return sum(attempt.completion.policy == policy for attempt in earlier)

    def twin_of(self, attempt: Attempt) -> Graded | None:
        """An earlier graded attempt with the same file, but for names and layout."""
        if attempt.source is None:
            return None
        key = self._structures.get(structure_of(attempt.source))
        return self.graded(key) if key is not None and key != attempt.key else None

    # -- what becomes known ----------------------------------------------------------------------------------------

    async def add_attempts(self, attempts: list[Attempt]) -> None:
        """Answers, stored before anybody judges them."""
        if attempts:
            await asyncio.to_thread(self._store.add_attempts, attempts)
        for attempt in attempts:
            self._enter(attempt)

    async def add_grading(self, grading: Grading) -> None:
        """A verdict; those that come in while one is being written are written together."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unwritten.append((grading, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await written
        self._settle(grading)

    async def _write(self) -> None:
        while self._unwritten:
            batch, self._unwritten = self._unwritten, []
            try:
                troubles = await asyncio.to_thread(self._commit, [grading for grading, _ in batch])
            except Exception as error:
                troubles = [error] * len(batch)
            for (_, written), trouble in zip(batch, troubles):
                if trouble is not None:
                    written.set_exception(trouble)
                else:
                    written.set_result(None)
        self._writing = None

    def _commit(self, gradings: list[Grading]) -> list[Exception | None]:
        return self._store.commit([self._store.prepare(grading) for grading in gradings])

    async def note(self, kind: str, **data: Any) -> None:
        """An event, for those who watch or look back."""
        now = datetime.datetime.now(datetime.UTC)
        await asyncio.to_thread(self._store.add_event, Event(run=self.run.id, kind=kind, at=now, data=data))

    def noted(self, kind: str) -> list[Event]:
        return [event for event in self._store.events(self.run.id) if event.kind == kind]

    def ended(self) -> RunEnd | None:
        """How the run ended when it was last under way; None where it did not."""
        return self._store.end(self.run.id)

    def seconds_before(self) -> float:
        """What an earlier end says that was used of the time."""
        end = self.ended()
        return float(end.summary.get("spent", {}).get("seconds", 0.0)) if end is not None else 0.0

    async def end(self, stop_reason: str, best: str | None, summary: dict[str, Any]) -> RunEnd:
        now = datetime.datetime.now(datetime.UTC)
        ended = RunEnd(run=self.run.id, stop_reason=stop_reason, best=best, ended_at=now, summary=summary)
        await asyncio.to_thread(self._store.end_run, ended)
        return ended

    def _enter(self, attempt: Attempt) -> None:
        self._attempts[attempt.key] = attempt

    def _settle(self, grading: Grading) -> None:
        attempt = self._attempts[grading.attempt]
        known = Graded(attempt=attempt, grading=grading)
        self._graded[attempt.key] = known
        bisect.insort(self._history, known, key=lambda item: (item.attempt.turn, item.attempt.index))
        if attempt.source is not None and grading.evaluation is not None:
            self._structures.setdefault(structure_of(attempt.source), attempt.key)


def _inherited(store: Store, run: Run) -> tuple[Graded, ...]:
    """What was known, over all the runs that led there, when the attempt that this run continues had been judged."""
    found: list[Graded] = []
    origin, seen = run.forked_from, {run.id}
    while origin is not None and store.has_attempt(origin):  # a run that was imported may have come without the other
        attempt = store.attempt(origin)
        if attempt.run in seen:  # only a file from elsewhere tells of a circle
            break
        seen.add(attempt.run)
        earlier = [item for item in store.attempts(attempt.run) if item.turn <= attempt.turn]
        judged = ((item, store.gradings(item.key)) for item in earlier)
        found = [*(Graded(attempt=item, grading=gradings[-1]) for item, gradings in judged if gradings), *found]
        origin = store.run(attempt.run).forked_from
    return tuple(found)


def graded_like(attempt: Attempt, twin: Graded) -> Grading:
    """The verdict of a file that is the same but for names."""
    evaluation = twin.grading.evaluation
    assert evaluation is not None and attempt.source is not None
    note = f"the same file as {twin.attempt.key} but for names and layout: not evaluated again"
    return dataclasses.replace(
        twin.grading,
        attempt=attempt.key,
        evaluation=dataclasses.replace(evaluation, notes=(*evaluation.notes, note)),
        graded_at=datetime.datetime.now(datetime.UTC),
    )

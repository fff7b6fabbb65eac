"""One run as its loop sees it: what was asked, answered and graded; in the store before anything goes on.

The store is the truth. A run that is taken up again reads itself from it, so every answer is asked for once and every
attempt graded once, whatever a checkpoint says.
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
from triton_agent.tools.source_identity import structure_of

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

    def of_turn(self, turn: int) -> list[Attempt]:
        """The answers of a turn that were given already, in order."""
        found = [attempt for attempt in self._attempts.values() if attempt.turn == turn]
        return sorted(found, key=lambda attempt: attempt.index)

    def asked(self, policy: str, before_turn: int) -> int:
        """How many answers a policy was asked for in earlier turns."""
        return sum(a.completion.policy == policy and a.turn < before_turn for a in self._attempts.values())

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

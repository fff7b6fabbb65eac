"""The attempts of one run, as the loop sees them. Each is stored before the loop continues.

The store is the truth. A resumed run is read from it, so every answer is requested once and every attempt graded once,
whatever a checkpoint says. A run that was forked from an attempt starts with the history up to that attempt's turn and
continues the count of turns; its own results are stored under its own id only.
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
"""Kind of the event that stores the recalled lessons, so that a resumed run shows the same lessons again."""


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
        """Start a new run and store it at once."""
        store.add_run(run)
        return cls(store, run)

    @classmethod
    def resume(cls, store: Store, run_id: str) -> Ledger:
        """Continue a stored run."""
        ledger = cls(store, store.run(run_id))
        for attempt in store.attempts(ledger.run.id):
            ledger._enter(attempt)
            gradings = store.gradings(attempt.key)
            if gradings:
                ledger._record_grading(gradings[-1])
        return ledger

    # -- reading ---------------------------------------------------------------------------------------------------

    def attempts(self) -> list[Attempt]:
        return list(self._attempts.values())

    def attempt(self, key: str) -> Attempt:
        return self._attempts[key]

    def is_graded(self, key: str) -> bool:
        return key in self._graded

    def graded(self, key: str) -> Graded:
        return self._graded[key]

    def history(self, before_turn: int | None = None) -> list[Graded]:
        """Return the graded attempts by turn and index, including those that could not be measured."""
        if before_turn is None:
            return list(self._history)
        return [item for item in self._history if item.attempt.turn < before_turn]

    def past(self, before_turn: int) -> list[Graded]:
        """Return the history, preceded by the history of the run that this run was forked from."""
        return [*self._inherited, *self.history(before_turn)]

    @property
    def first_turn(self) -> int:
        """0; in a forked run, the turn after the one that it was forked from."""
        return self._inherited[-1].attempt.turn + 1 if self._inherited else 0

    def of_turn(self, turn: int) -> list[Attempt]:
        """Return the answers of a turn so far, in order."""
        found = [attempt for attempt in self._attempts.values() if attempt.turn == turn]
        return sorted(found, key=lambda attempt: attempt.index)

    def asked(self, policy: str, before_turn: int) -> int:
        """Return how many answers a policy gave before this turn."""
        earlier = [attempt for attempt in self._attempts.values() if attempt.turn < before_turn]
        earlier += [item.attempt for item in self._inherited]
        return sum(attempt.completion.policy == policy for attempt in earlier)

    def twin_of(self, attempt: Attempt) -> Graded | None:
        """Return an earlier graded attempt whose file differs only in names and layout."""
        if attempt.source is None:
            return None
        key = self._structures.get(structure_of(attempt.source))
        return self.graded(key) if key is not None and key != attempt.key else None

    # -- adding ----------------------------------------------------------------------------------------------------

    async def add_attempts(self, attempts: list[Attempt]) -> None:
        """Store answers before they are judged."""
        if attempts:
            await asyncio.to_thread(self._store.add_attempts, attempts)
        for attempt in attempts:
            self._enter(attempt)

    async def add_grading(self, grading: Grading) -> None:
        """Store a verdict. Verdicts that arrive during a write are written together in the next one."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unwritten.append((grading, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await written
        self._record_grading(grading)

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
        """Store an event, for live display and history."""
        now = datetime.datetime.now(datetime.UTC)
        await asyncio.to_thread(self._store.add_event, Event(run=self.run.id, kind=kind, at=now, data=data))

    def noted(self, kind: str) -> list[Event]:
        return [event for event in self._store.events(self.run.id) if event.kind == kind]

    def ended(self) -> RunEnd | None:
        """Return the last end of the run; None if it never ended."""
        return self._store.end(self.run.id)

    def seconds_before(self) -> float:
        """Return the seconds used up to the last end of the run."""
        end = self.ended()
        return float(end.summary.get("spent", {}).get("seconds", 0.0)) if end is not None else 0.0

    async def end(self, stop_reason: str, best: str | None, summary: dict[str, Any]) -> RunEnd:
        now = datetime.datetime.now(datetime.UTC)
        ended = RunEnd(run=self.run.id, stop_reason=stop_reason, best=best, ended_at=now, summary=summary)
        await asyncio.to_thread(self._store.end_run, ended)
        return ended

    def _enter(self, attempt: Attempt) -> None:
        self._attempts[attempt.key] = attempt

    def _record_grading(self, grading: Grading) -> None:
        attempt = self._attempts[grading.attempt]
        known = Graded(attempt=attempt, grading=grading)
        self._graded[attempt.key] = known
        bisect.insort(self._history, known, key=lambda item: (item.attempt.turn, item.attempt.index))
        if attempt.source is not None and grading.evaluation is not None:
            self._structures.setdefault(structure_of(attempt.source), attempt.key)


def _inherited(store: Store, run: Run) -> tuple[Graded, ...]:
    """Return the graded attempts of all runs that this run descends from, each up to the turn in which it was
    forked.
    """
    found: list[Graded] = []
    origin, seen = run.forked_from, {run.id}
    while origin is not None and store.has_attempt(origin):  # an imported run may lack the run it was forked from
        attempt = store.attempt(origin)
        if attempt.run in seen:  # only an imported file can hold a cycle
            break
        seen.add(attempt.run)
        earlier = [item for item in store.attempts(attempt.run) if item.turn <= attempt.turn]
        judged = ((item, store.gradings(item.key)) for item in earlier)
        found = [*(Graded(attempt=item, grading=gradings[-1]) for item, gradings in judged if gradings), *found]
        origin = store.run(attempt.run).forked_from
    return tuple(found)


def graded_like(attempt: Attempt, twin: Graded) -> Grading:
    """Return the verdict of `twin` for an attempt whose file differs only in names and layout."""
    evaluation = twin.grading.evaluation
    assert evaluation is not None and attempt.source is not None
    note = f"differs from {twin.attempt.key} only in names and layout: not evaluated again"
    return dataclasses.replace(
        twin.grading,
        attempt=attempt.key,
        evaluation=dataclasses.replace(evaluation, notes=(*evaluation.notes, note)),
        graded_at=datetime.datetime.now(datetime.UTC),
    )

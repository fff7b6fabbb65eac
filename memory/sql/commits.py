"""Group commit: records that arrive while a commit is under way are written together by the next one.

A commit is mostly waiting for the disk and costs the same for one record as for hundreds. No thread waits for others to
join: the first thread writes at once, for itself and for all threads that have arrived meanwhile. A record is
acknowledged only after it is on disk.

`GroupWriter` does the same for one thread with much to write: it returns futures instead of waiting.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import queue
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy import Connection

from triton_agent.memory.errors import (
    NotInStore,
    RecordConflict,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from triton_agent.memory.records import Grading
from triton_agent.memory.sql.database import Database
from triton_agent.memory.sql.preparing import Prepared, Preparer, Record
from triton_agent.memory.sql.writing import KnownRows, Transaction, shas_in

if TYPE_CHECKING:
    from triton_agent.memory.store import Store

MOST_AT_ONCE = 512
"""Most records in one commit, if they arrive singly: about 10 MB, written in a fraction of a second."""
FEW = 64
"""Below this number of records it is worth waiting a moment for more, since a commit has a fixed cost of some dozens of
statements.
"""
MOST_WAITING = 4 * MOST_AT_ONCE
Outcome: TypeAlias = Exception | None
"""None for a record that is on disk, otherwise the error that prevented writing it."""
_OF_THE_STORE = (StoreFull, StoreReadOnly, StoreUnreachable, StoreDamaged, RecordConflict, NotInStore)


@dataclasses.dataclass(slots=True, eq=False)
class _Ticket:
    """The records of one waiting caller."""

    batch: Sequence[Prepared]
    outcomes: list[Outcome] | None = None


class Committer:
    """Writes for all threads of a process, one transaction at a time."""

    def __init__(self, database: Database) -> None:
        self.preparer = Preparer()
        self._database = database
        self._known = KnownRows()
        self._waiting: list[_Ticket] = []
        self._line = threading.Lock()
        """Guards `_waiting`."""
        self._pen = threading.Lock()
        """Held by the thread that writes."""

    def add(self, batch: Sequence[Prepared]) -> None:
        """Commit the records; raise the first refusal, after all others were written."""
        for outcome in self.commit(batch):
            if outcome is not None:
                raise outcome

    def commit(self, batch: Sequence[Prepared]) -> list[Outcome]:
        """Return after the commit: None for each record that is on disk, otherwise why it is not."""
        ticket = _Ticket(batch)
        with self._line:
            self._waiting.append(ticket)
        while ticket.outcomes is None:
            with self._pen:
                if ticket.outcomes is None:
                    self._write(self._take())
        return ticket.outcomes

    def _take(self) -> list[_Ticket]:
        """Take waiting callers in order of arrival, up to the size of one commit."""
        with self._line:
            taken = [self._waiting.pop(0)]
            size = len(taken[0].batch)
            while self._waiting and size + len(self._waiting[0].batch) <= MOST_AT_ONCE:
                taken.append(self._waiting.pop(0))
                size += len(taken[-1].batch)
        return taken

    def _write(self, tickets: list[_Ticket]) -> None:
        """Give every ticket its outcomes, even after an error: its caller waits for them.

        Outcomes are final. A caller returns as soon as it sees them, so a ticket that is tried again has none yet.
        """
        batch = [item for ticket in tickets for item in ticket.batch]
        outcomes: list[Outcome] = [StoreError("the writer was interrupted")] * len(batch)
        try:
            outcomes = list(self._transact(batch))
        except Exception as error:
            outcomes = [error] * len(batch)
            if len(tickets) > 1 and not isinstance(error, _OF_THE_STORE):
                for ticket in tickets:  # one record broke the transaction; the others can still be written
                    self._write([ticket])
        finally:
            for ticket in tickets:
                own, outcomes = outcomes[: len(ticket.batch)], outcomes[len(ticket.batch) :]
                if ticket.outcomes is None:
                    ticket.outcomes = own

    def _transact(self, batch: list[Prepared]) -> list[StoreError | None]:
        def work(connection: Connection) -> tuple[Transaction, list[StoreError | None]]:
            transaction = Transaction(connection, self._known)
            return transaction, transaction.write(batch)

        done, outcomes = self._database.write(work)
        self._known.learn(done.known)
        self.preparer.learn(shas_in(batch))
        return outcomes


@dataclasses.dataclass(frozen=True, slots=True)
class _Task:
    """A record on its way to the writing thread."""

    record: Record
    grading: Grading | None
    future: concurrent.futures.Future[None]


class GroupWriter:
    """Writes records in a thread of its own; each future resolves once its record is on disk.

    A context manager: leaving it waits until everything is written. Records are written in the order of `add`. A
    refused record raises from its future and nowhere else.

    The writing thread also prepares the records. Preparing them in the callers' threads was measured to be slower: the
    interpreter lock changes hands several times per record, which costs more than a second processor brings.
    """

    def __init__(self, store: Store, *, linger_s: float = 0.02) -> None:
        """`linger_s` is the time for which the first record of a commit waits for others to share its cost."""
        self._store = store
        self._linger_s = linger_s
        self._tasks: queue.Queue[_Task | None] = queue.Queue(MOST_WAITING)
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
        self._thread.start()

    def __enter__(self) -> GroupWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def add(self, record: Record, grading: Grading | None = None) -> concurrent.futures.Future[None]:
        """Queue a record; blocks only while `MOST_WAITING` records are queued."""
        task = _Task(record, grading, concurrent.futures.Future())
        with self._closing:
            if self._closed:
                raise RuntimeError("the writer was closed")
            self._tasks.put(task)
        return task.future

    def close(self) -> None:
        """Stop accepting records and return when all are written."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        going_on = True
        while going_on:
            tasks = [self._tasks.get()]
            if tasks[0] is not None and self._tasks.qsize() < FEW:
                time.sleep(self._linger_s)
            while len(tasks) < MOST_AT_ONCE and tasks[-1] is not None:
                try:
                    tasks.append(self._tasks.get_nowait())
                except queue.Empty:
                    break
            going_on = tasks[-1] is not None
            self._settle([task for task in tasks if task is not None])

    def _settle(self, tasks: list[_Task]) -> None:
        """Write the records and resolve every future, also after an error, because a caller waits for it."""
        ready: list[tuple[_Task, Prepared]] = []
        for task in tasks:
            try:
                ready.append((task, self._store.prepare(task.record, task.grading)))
            except Exception as error:
                task.future.set_exception(error)
        outcomes = self._store.commit([prepared for _, prepared in ready]) if ready else []
        for (task, _), outcome in zip(ready, outcomes, strict=True):
            if outcome is None:
                task.future.set_result(None)
            else:
                task.future.set_exception(outcome)

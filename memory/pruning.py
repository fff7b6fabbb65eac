"""Removes whole runs from a store: the only operation that deletes records.

It needs the store for itself: a process that has the store open remembers which blobs are stored and would refer to a
removed one. So nothing is removed while another process has the store open, and none can open it meanwhile. Everything
happens in one transaction. Failures and techniques of the affected problems are counted again, and blobs without a
reference are removed, too.

Not covered: checkpoints beside the store, which belong to open runs; earlier copies.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, delete, func, select, text

from triton_agent.memory.errors import NotInStore, StoreUnreachable
from triton_agent.memory.knowledge import CountChanges
from triton_agent.memory.records import Grading
from triton_agent.memory.sql import encoding, packing
from triton_agent.memory.sql.database import Database
from triton_agent.memory.sql.faults import translated
from triton_agent.memory.sql.pieces import references_in
from triton_agent.memory.sql.preparing import column_text, parse_key
from triton_agent.memory.sql.tables import (
    AnswerRow,
    AttemptRow,
    Blob,
    End,
    EventRow,
    Failure,
    GradingRow,
    RunRow,
    Technique,
    ViewRow,
)
from triton_agent.memory.sql.writing import STANDING_COLUMNS, chunks
from triton_agent.memory.verdicts import AttemptState, condensed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """Counts of removed records."""

    runs: int
    attempts: int
    gradings: int
    texts: int
    """Removed blobs: sources, messages, observations."""


def sizes_bytes(connection: Connection) -> dict[str, int]:
    """Return the size of each run: its answers and verdicts as packed, without blobs that runs share."""
    packed = (AnswerRow.body, AnswerRow.token_ids, AnswerRow.log_probabilities, AnswerRow.mask)
    size = sum((func.coalesce(func.length(column), 0) for column in packed), start=sqlalchemy.literal(0))
    answers = select(RunRow.id, func.sum(size)).join(AttemptRow, AttemptRow.run_seq == RunRow.seq)
    answers = answers.join(AnswerRow, AnswerRow.attempt_id == AttemptRow.id).group_by(RunRow.id)
    gradings = select(RunRow.id, func.sum(func.length(GradingRow.body))).join(
        AttemptRow, AttemptRow.run_seq == RunRow.seq
    )
    gradings = gradings.join(GradingRow, GradingRow.attempt_id == AttemptRow.id).group_by(RunRow.id)
    found = {id: 0 for id in connection.execute(select(RunRow.id)).scalars()}
    for query in (answers, gradings):
        for id, taken in connection.execute(query):
            found[id] += int(taken or 0)
    return found


def forget(where: str | Path | None, runs: Collection[str]) -> Forgotten:
    """Remove these runs (whole ids) and all their records."""
    with contextlib.closing(Database(where)) as database:
        path, place = database.path, database.where
        if path is None:
            return database.write(lambda connection: _alone_on_server(connection, runs, place))
    with translated(place), _alone_on_file(path, place) as connection:
        done = _forget(connection, runs)
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("VACUUM")
        return done


# -- alone -------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _alone_on_file(path: Path, place: str) -> Iterator[Connection]:
    """Yield a connection within an exclusive transaction: nobody else has the file open."""
    raw = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    engine = sqlalchemy.create_engine("sqlite://", creator=lambda: raw, poolclass=sqlalchemy.StaticPool)
    try:
        try:
            raw.execute("PRAGMA locking_mode = EXCLUSIVE")
            raw.execute("PRAGMA synchronous = FULL")
            raw.execute("SELECT count(*) FROM runs").fetchone()  # takes the lock
        except sqlite3.OperationalError as error:
            raise _in_use(place) from error
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("BEGIN EXCLUSIVE")
            yield connection
    finally:
        raw.close()


def _alone_on_server(connection: Connection, runs: Collection[str], place: str) -> Forgotten:
    """Lock all tables, require that nobody else is connected, and remove the runs."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    tables = "runs, attempts, answers, gradings, ends, events, problems, blobs, failures, techniques"
    connection.execute(text(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE"))
    if connection.execute(text(f"{others} AND backend_type = 'client backend'")).scalar():
        raise _in_use(place)
    return _forget(connection, runs)


def _in_use(place: str) -> StoreUnreachable:
    return StoreUnreachable(
        "somebody else has it open", where=place, remedy="wait until no run, trainer or viewer uses it, then try again"
    )


# -- forgetting --------------------------------------------------------------------------------------------------------


def _forget(connection: Connection, runs: Collection[str]) -> Forgotten:
    seqs = _numbers(connection, runs)
    attempts, problems = [], set(connection.execute(select(RunRow.problem_id).where(RunRow.seq.in_(seqs))).scalars())
    for some in chunks(seqs):
        for row in connection.execute(select(AttemptRow.id, AttemptRow.problem_id).where(AttemptRow.run_seq.in_(some))):
            attempts.append(row.id)
            problems.add(row.problem_id)
    gradings = 0
    for part in chunks(attempts):
        gradings += connection.execute(delete(GradingRow).where(GradingRow.attempt_id.in_(part))).rowcount
        connection.execute(delete(AnswerRow).where(AnswerRow.attempt_id.in_(part)))
        connection.execute(delete(AttemptRow).where(AttemptRow.id.in_(part)))
    for some in chunks(seqs):
        for table in (End, EventRow):
            connection.execute(delete(table).where(table.run_seq.in_(some)))
        connection.execute(delete(RunRow).where(RunRow.seq.in_(some)))
    for problem in sorted(problems):
        _count_anew(connection, problem)
    texts = _sweep(connection)
    return Forgotten(runs=len(seqs), attempts=len(attempts), gradings=gradings, texts=texts)


def _numbers(connection: Connection, runs: Collection[str]) -> list[int]:
    found: dict[str, int] = {}
    for some in chunks(sorted(runs)):
        found |= {
            row.id: row.seq for row in connection.execute(select(RunRow.id, RunRow.seq).where(RunRow.id.in_(some)))
        }
    if missing := sorted(set(runs) - found.keys()):
        raise NotInStore(f"there is no run {missing[0]!r:.100}")
    return sorted(found.values())


def _count_anew(connection: Connection, problem: int) -> None:
    """Recount failures and techniques of a problem from its remaining attempts; without any, remove the problem."""
    for table in (Failure, Technique):
        connection.execute(delete(table).where(table.problem_id == problem))
    rows = connection.execute(
        select(AttemptRow).where(AttemptRow.problem_id == problem).order_by(AttemptRow.id)
    ).mappings()
    left = rows.all()
    used = connection.execute(select(RunRow.seq).where(RunRow.problem_id == problem).limit(1)).first()
    if not left and used is None:
        connection.execute(delete(ViewRow).where(ViewRow.id == problem))
        return
    ledger = CountChanges()
    newest = {row["failure_key"]: row["id"] for row in left if row["failure_key"] is not None}
    messages = {key: _message(connection, attempt) for key, attempt in newest.items()}
    for row in left:
        own = _standing(row)
        ledger.judged(problem, row["id"], AttemptState(), own, messages.get(row["failure_key"], ""))
        parent = _parent(connection, row["parent"])
        if parent is not None:
            ledger.tried(problem, row["id"], row["techniques"], own, parent)
    ledger.write(connection)


def _standing(row: Any) -> AttemptState:
    return AttemptState(**{name: row[name] for name in STANDING_COLUMNS})


def _message(connection: Connection, attempt: int) -> str:
    """Return the condensed message of the newest verdict."""
    query = select(GradingRow.body).where(GradingRow.attempt_id == attempt, GradingRow.status.is_not(None))
    body = connection.execute(query.order_by(GradingRow.graded_us.desc(), GradingRow.id.desc()).limit(1)).scalar()
    verdict = encoding.from_text(Grading, packing.unsqueeze(body)).evaluation if body is not None else None
    return column_text(condensed(verdict.message)) if verdict is not None else ""


def _parent(connection: Connection, key: str | None) -> AttemptState | None:
    if not key:
        return None
    try:
        run, turn, answer = parse_key(key)
    except NotInStore:
        return None
    query = select(AttemptRow).join(RunRow, RunRow.seq == AttemptRow.run_seq)
    query = query.where(RunRow.id == column_text(run), AttemptRow.turn == turn, AttemptRow.answer == answer)
    row = connection.execute(query.with_only_columns(*AttemptRow.__table__.c)).mappings().first()
    return None if row is None else _standing(row)


# -- texts that nothing refers to --------------------------------------------------------------------------------------


def _sweep(connection: Connection) -> int:
    """Remove blobs that no record refers to, directly or through another blob; return their number."""
    kept: set[bytes] = set()
    waiting = set(_referred_to(connection))
    while waiting:
        kept |= waiting
        waiting = set(_parts(connection, waiting)) - kept
    gone = [sha for sha in connection.execute(select(Blob.sha)).scalars() if bytes(sha) not in kept]
    for some in chunks(gone):
        connection.execute(delete(Blob).where(Blob.sha.in_(some)))
    return len(gone)


def _referred_to(connection: Connection) -> Iterator[bytes]:
    columns = (
        ViewRow.view_sha,
        AttemptRow.source_sha,
        AnswerRow.observation_sha,
        AnswerRow.conversation_sha,
        AnswerRow.prompt_ids_sha,
    )
    for column in columns:
        yield from (bytes(sha) for sha in connection.execute(select(column).distinct()).scalars() if sha is not None)


def _parts(connection: Connection, shas: Iterable[bytes]) -> Iterator[bytes]:
    for some in chunks(sorted(shas)):
        for data in connection.execute(select(Blob.data).where(Blob.sha.in_(some))).scalars():
            yield from references_in(packing.unsqueeze(data))

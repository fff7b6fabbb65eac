"""Queries for attempts and their gradings."""

from __future__ import annotations

import array
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, select, tuple_

from triton_agent.memory.errors import NotInStore
from triton_agent.memory.listing import AttemptFilter, AttemptHeader, HeaderFilter
from triton_agent.memory.observation import Observation
from triton_agent.memory.records import Attempt, Grading, attempt_key
from triton_agent.memory.sql.library import Library, Opened
from triton_agent.memory.sql.pieces import Pieces, get_observation, put_together
from triton_agent.memory.sql.preparing import (
    PreparedAttempt,
    attempt_digest,
    column_text,
    microseconds,
    moment_of,
    parse_key,
)
from triton_agent.memory.sql.reading_runs import changed, find_run, interval_of, problems_called, record_of
from triton_agent.memory.sql.tables import AnswerRow, AttemptRow, GradingRow, RunRow, ViewRow
from triton_agent.tools.results import Finding, Status

CHUNK = 256
"""Attempts read at once: about 5 MB."""
RUNS_AT_ONCE = 500
"""Runs named in one query, since SQLite limits the number of values."""


def attempt_headers(connection: Connection, name: str, wanted: HeaderFilter) -> list[AttemptHeader]:
    """List the attempts of a run by turn and answer, or the best first."""
    run = find_run(connection, name)
    seq = select(RunRow.seq).where(RunRow.id == run).scalar_subquery()
    query = select(*(getattr(AttemptRow, name) for name in _HEADER_COLUMNS)).where(AttemptRow.run_seq == seq)
    query = query.where(*_header_conditions(wanted)).limit(wanted.limit)
    if wanted.best_first:
        rows = connection.execute(query.where(AttemptRow.merit.is_not(None)).order_by(AttemptRow.merit.desc()))
    elif wanted.before is not None:
        rows = connection.execute(query.order_by(AttemptRow.turn.desc(), AttemptRow.answer.desc()))
    else:
        rows = connection.execute(query.order_by(AttemptRow.turn, AttemptRow.answer))
    return [_header(run, *row) for row in rows]


def attempt_header(connection: Connection, key: str) -> AttemptHeader | None:
    """Return the header of one attempt; None if it is not in this store."""
    try:
        run, turn, answer = parse_key(key)
    except NotInStore:  # a key of another form, from another program
        return None
    query = select(*(getattr(AttemptRow, name) for name in _HEADER_COLUMNS)).join(
        RunRow, AttemptRow.run_seq == RunRow.seq
    )
    query = query.where(RunRow.id == column_text(run), AttemptRow.turn == turn, AttemptRow.answer == answer)
    row = connection.execute(query).one_or_none()
    return None if row is None else _header(run, *row)


def _header_conditions(wanted: HeaderFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.status is not None:
        yield AttemptRow.status == wanted.status.value
    if wanted.timed:
        yield AttemptRow.speedup.is_not(None)
    if wanted.children_of is not None:
        yield AttemptRow.parent == column_text(wanted.children_of)
    if wanted.after is not None:
        _, turn, answer = parse_key(wanted.after)
        yield tuple_(AttemptRow.turn, AttemptRow.answer) > (turn, answer)
    if wanted.before is not None:
        _, turn, answer = parse_key(wanted.before)
        yield tuple_(AttemptRow.turn, AttemptRow.answer) < (turn, answer)


_HEADER_COLUMNS = (
    *("turn", "answer", "parent", "status", "finding", "unmeasured", "speedup", "speedup_low", "speedup_high"),
    *("device", "policy", "policy_version", "source_sha", "tokens", "created_us"),
)


def _header(
    run: str,
    turn: int,
    answer: int,
    parent: str | None,
    status: str | None,
    finding: str | None,
    unmeasured: str | None,
    speedup: float | None,
    low: float | None,
    high: float | None,
    device: str | None,
    policy: str,
    policy_version: str,
    source_sha: bytes | None,
    tokens: int,
    created_us: int,
) -> AttemptHeader:
    """Arguments are positional for speed: a run may have thousands of attempts."""
    return AttemptHeader(
        key=attempt_key(run, turn, answer),
        turn=turn,
        index=answer,
        parent=parent,
        status=None if status is None else Status(status),
        finding=None if finding is None else Finding(finding),
        unmeasured=unmeasured or "",
        speedup=interval_of(speedup, low, high),
        device=device or "",
        policy=policy,
        policy_version=policy_version,
        source=None if source_sha is None else source_sha.hex(),
        tokens=tokens,
        created_at=moment_of(created_us),
    )


def attempt_id(connection: Connection, key: str) -> int | None:
    """Return the row id of an attempt; None if there is none."""
    run, turn, answer = parse_key(key)
    query = select(AttemptRow.id).join(RunRow, AttemptRow.run_seq == RunRow.seq)
    query = query.where(RunRow.id == column_text(run), AttemptRow.turn == turn, AttemptRow.answer == answer)
    found: int | None = connection.execute(query).scalar()
    return found


def require_attempt(connection: Connection, key: str) -> int:
    found = attempt_id(connection, key)
    if found is None:
        run = find_run(connection, parse_key(key)[0])
        count = connection.execute(select(RunRow.attempts).where(RunRow.id == run)).scalar()
        raise NotInStore(f"there is no attempt {key!r:.100}", remedy=f"run {run} has {count} attempts")
    return found


def attempts_by_id(connection: Connection, library: Library, ids: Sequence[int]) -> list[Attempt]:
    """Read attempts, in the order of `ids`."""
    own = (AttemptRow.id, AttemptRow.turn, AttemptRow.answer, AttemptRow.parent, AttemptRow.digest)
    query = select(RunRow.id.label("run"), *own, AttemptRow.source_sha, ViewRow.view_sha, *AnswerRow.__table__.c)
    query = query.join(AnswerRow, AnswerRow.attempt_id == AttemptRow.id).join(RunRow, RunRow.seq == AttemptRow.run_seq)
    query = query.join(ViewRow, ViewRow.id == AttemptRow.problem_id).where(AttemptRow.id.in_(ids))
    rows = {row["id"]: row for row in connection.execute(query).mappings()}
    ordered = [rows[number] for number in ids if number in rows]
    return _put_together(connection, library, ordered)


_SHARED = ("observation_sha", "source_sha", "conversation_sha", "prompt_ids_sha")


def _put_together(connection: Connection, library: Library, rows: Sequence[RowMapping]) -> list[Attempt]:
    parts = Opened(library.fetch_with_parts(connection, (row[name] for row in rows for name in _SHARED)))
    observations: dict[bytes, Observation] = {}
    attempts = []
    for row in rows:
        sha = row["observation_sha"]
        if sha not in observations:
            observations[sha] = get_observation(
                parts.get(sha), parts.get, lambda view_sha: library.view(connection, view_sha)
            )
        pieces = Pieces(**{field.name: row[field.name] for field in dataclasses.fields(Pieces)})
        if attempt_digest(pieces, row["parent"]) != row["digest"]:
            raise changed(attempt_key(row["run"], row["turn"], row["answer"]))
        place: dict[str, Any] = {"run": row["run"], "turn": row["turn"], "index": row["answer"]}
        attempts.append(put_together(pieces, parts.get, **place, parent=row["parent"], observation=observations[sha]))
    return attempts


def attempt_ids(connection: Connection, name: str) -> list[int]:
    """Return the row ids of a run's attempts, by turn and answer."""
    query = select(AttemptRow.id).join(RunRow, AttemptRow.run_seq == RunRow.seq)
    query = query.where(RunRow.id == find_run(connection, name)).order_by(AttemptRow.turn, AttemptRow.answer)
    return list(connection.execute(query).scalars())


def trajectory_ids(connection: Connection, key: str) -> list[int]:
    """Return the row ids from the first ancestor in the store to the attempt itself."""
    path = [require_attempt(connection, key)]
    while (above := _parent_id(connection, path[-1])) is not None and above not in path:
        path.append(above)
    return path[::-1]


def _parent_id(connection: Connection, number: int) -> int | None:
    """Return the parent's row id; None without a parent in this store."""
    parent = connection.execute(select(AttemptRow.parent).where(AttemptRow.id == number)).scalar()
    try:
        return None if parent is None else attempt_id(connection, parent)
    except NotInStore:  # a key of another form, from another program
        return None


def is_same_attempt(connection: Connection, item: PreparedAttempt) -> bool:
    """Return True if the stored attempt is equal but was encoded differently; see `is_same_run`."""
    found = attempt_id(connection, item.record.key)
    return found is not None and attempts_by_id(connection, Library(), [found]) == [item.record]


# Gradings


def gradings_by_attempt(connection: Connection, ids: Iterable[int]) -> dict[int, list[Grading]]:
    """Return the gradings of each attempt, oldest first."""
    wanted = list(ids)
    found: dict[int, list[Grading]] = {number: [] for number in wanted}
    query = select(GradingRow.attempt_id, GradingRow.body, GradingRow.digest)
    query = query.where(GradingRow.attempt_id.in_(wanted)).order_by(GradingRow.graded_us, GradingRow.id)
    for row in connection.execute(query):
        found[row.attempt_id].append(record_of(Grading, row))
    return found


def find_graded(connection: Connection, digest: str, source: str, grader: str | None) -> Grading | None:
    """Return the newest verdict on a source for a problem, over all runs."""
    try:
        sha = bytes.fromhex(source)
    except ValueError:
        return None
    query = select(GradingRow.body, GradingRow.digest).join(AttemptRow, GradingRow.attempt_id == AttemptRow.id)
    query = query.join(ViewRow, AttemptRow.problem_id == ViewRow.id)
    query = query.where(AttemptRow.source_sha == sha, ViewRow.digest == column_text(digest))
    query = query.where(GradingRow.status.is_not(None))
    if grader is not None:
        query = query.where(GradingRow.grader == column_text(grader))
    query = query.order_by(GradingRow.graded_us.desc(), GradingRow.id.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else record_of(Grading, row)


# Streams


def matching_ids(connection: Connection, wanted: AttemptFilter) -> array.array[int]:
    """Return the row ids of matching attempts, in the order of insertion."""
    query = select(AttemptRow.id).where(*_attempt_conditions(wanted))
    if wanted.runs is None:
        return array.array("q", connection.execute(query.order_by(AttemptRow.id)).scalars())
    found: list[int] = []
    for start in range(0, len(wanted.runs), RUNS_AT_ONCE):
        some = wanted.runs[start : start + RUNS_AT_ONCE]
        among = AttemptRow.run_seq.in_(select(RunRow.seq).where(RunRow.id.in_(some)))
        found += connection.execute(query.where(among)).scalars()
    return array.array("q", sorted(found))


def _attempt_conditions(wanted: AttemptFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.problem is not None:
        yield AttemptRow.problem_id.in_(problems_called(wanted.problem))
    if wanted.policy is not None:
        yield AttemptRow.policy == column_text(wanted.policy)
    if wanted.policy_version is not None:
        yield AttemptRow.policy_version == column_text(wanted.policy_version)
    if wanted.statuses is not None:
        yield AttemptRow.status.in_([status.value for status in wanted.statuses])
    if wanted.since is not None:
        yield AttemptRow.created_us >= microseconds(wanted.since)
    if wanted.with_tokens:
        yield AttemptRow.id.in_(select(AnswerRow.attempt_id).where(AnswerRow.token_ids.is_not(None)))

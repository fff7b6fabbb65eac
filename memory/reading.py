"""Queries: runs, attempts and what belongs to them, read over one connection and put together again."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, or_, select

from triton_agent.memory import encoding, packing
from triton_agent.memory.errors import NotInStore, StoreDamaged
from triton_agent.memory.library import Library, Opened
from triton_agent.memory.listing import AttemptFilter, AttemptHeader, RunFilter, RunState, RunSummary
from triton_agent.memory.observation import Observation
from triton_agent.memory.pieces import Pieces, get_observation, put_together
from triton_agent.memory.preparing import (
    PreparedAttempt,
    PreparedRun,
    attempt_digest,
    column_text,
    microseconds,
    moment_of,
    parse_key,
)
from triton_agent.memory.records import Attempt, Event, Grading, Run, RunEnd, attempt_key
from triton_agent.memory.redaction import redact
from triton_agent.memory.tables import Answer, End, Problem, Structure
from triton_agent.memory.tables import Attempt as AttemptRow
from triton_agent.memory.tables import Event as EventRow
from triton_agent.memory.tables import Grading as GradingRow
from triton_agent.memory.tables import Run as RunRow
from triton_agent.tools.results import Finding, Interval, Status

Recorded = TypeVar("Recorded", bound=RunEnd | Event | Grading)
CHUNK = 256
"""Attempts put together at once: some 5 MB."""
COMPARED_RUNS = 2_000
"""So many of the newest runs are looked at for ids that somebody may have meant."""
_AFTER_ALL_TEXT = "\U0010ffff"


# Runs


def find_run(connection: Connection, name: str) -> str:
    """The id that `name` is or, if only one does, begins."""
    ids = _ids_from(connection, name, 9)
    if name in ids or (len(ids) == 1 and name):
        return name if name in ids else ids[0]
    if ids and name:
        shown = ", ".join(ids[:8]) + (", ..." if len(ids) > 8 else "")
        raise NotInStore(f"more than one run begins with {name!r}", remedy=f"they are {shown}")
    newest = select(RunRow.id).order_by(RunRow.started_us.desc(), RunRow.seq.desc()).limit(COMPARED_RUNS)
    known = list(connection.execute(newest).scalars())
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.7) or known[:3]
    remedy = f"there are {', '.join(close)}" if close else "there are no runs yet"
    raise NotInStore(f"there is no run {name!r:.100}", remedy=remedy)


def _ids_from(connection: Connection, start: str, limit: int) -> list[str]:
    start = column_text(start)
    query = select(RunRow.id).where(RunRow.id >= start, RunRow.id < start + _AFTER_ALL_TEXT).order_by(RunRow.id)
    return list(connection.execute(query.limit(limit)).scalars())


def get_run(connection: Connection, library: Library, name: str) -> Run:
    query = select(RunRow.id, RunRow.digest, RunRow.body, Problem.view_sha)
    query = query.join(Problem, RunRow.problem_id == Problem.id).where(RunRow.id == find_run(connection, name))
    row = connection.execute(query).one()
    text = packing.unsqueeze(row.body)
    if hashlib.sha256(row.view_sha + text).digest() != row.digest:
        raise _changed(f"run {row.id}")
    view = library.view(connection, row.view_sha)
    return encoding.from_plain(Run, json.loads(text) | {"id": row.id, "problem": view})


def get_end(connection: Connection, name: str) -> RunEnd | None:
    """How it ended last; None while it is open."""
    query = select(End.body, End.digest).join(RunRow, End.run_seq == RunRow.seq)
    query = query.where(RunRow.id == find_run(connection, name)).order_by(End.id.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else record_of(RunEnd, row)


def get_events(connection: Connection, name: str) -> list[Event]:
    """In the order in which they were added."""
    query = select(EventRow.body, EventRow.digest).join(RunRow, EventRow.run_seq == RunRow.seq)
    query = query.where(RunRow.id == find_run(connection, name)).order_by(EventRow.id)
    return [record_of(Event, row) for row in connection.execute(query)]


def record_of(kind: type[Recorded], row: Any) -> Recorded:
    """The record in a row's `body`, which has to be what its `digest` says."""
    text = packing.unsqueeze(row.body)
    if hashlib.sha256(text).digest() != row.digest:
        raise _changed(kind.__name__)
    return encoding.from_text(kind, text)


def _changed(what: str) -> StoreDamaged:
    return StoreDamaged(f"a record changed since it was written ({what})", remedy="repair it, or go back to a backup")


def list_runs(connection: Connection, wanted: RunFilter) -> list[RunSummary]:
    """Newest first."""
    query = select(RunRow, Problem.name, Problem.digest.label("problem_digest"), Problem.device, Structure.fingerprint)
    query = query.join(Problem, RunRow.problem_id == Problem.id)
    query = query.outerjoin(Structure, Problem.structure_id == Structure.id)
    query = query.where(*_run_conditions(connection, wanted))
    query = query.order_by(RunRow.started_us.desc(), RunRow.seq.desc()).limit(wanted.limit)
    columns = [*RunRow.__table__.c, *list(query.selected_columns)[len(RunRow.__table__.c) :]]
    rows = connection.execute(query.with_only_columns(*columns, maintain_column_froms=True)).mappings().all()
    best = _best_of(connection, rows)
    return [_summary(row, best.get(row["seq"])) for row in rows]


def _run_conditions(connection: Connection, wanted: RunFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.problem is not None:
        yield RunRow.problem_id.in_(_problems_called(wanted.problem))
    if wanted.policy is not None:
        yield RunRow.policy == column_text(wanted.policy)
    if wanted.state is not None:
        yield RunRow.ended_us.is_(None) if wanted.state is RunState.OPEN else RunRow.ended_us.is_not(None)
    if wanted.since is not None:
        yield RunRow.started_us >= microseconds(wanted.since)
    if wanted.continues is not None:
        key = column_text(f"{wanted.continues}/")
        yield and_(RunRow.forked_from >= key, RunRow.forked_from < key + _AFTER_ALL_TEXT)
    if wanted.before is not None:
        query = select(RunRow.started_us, RunRow.seq).where(RunRow.id == find_run(connection, wanted.before))
        then, seq = connection.execute(query).one()
        yield or_(RunRow.started_us < then, and_(RunRow.started_us == then, RunRow.seq < seq))


def _problems_called(name: str) -> Select[Any]:
    """Rows of the problems of that name, fingerprint, or (beginning of a) digest."""
    name = column_text(name)
    like_digest = and_(Problem.digest >= name, Problem.digest < name + _AFTER_ALL_TEXT)
    structures = select(Structure.id).where(Structure.fingerprint == name)
    return select(Problem.id).where(or_(Problem.name == name, like_digest, Problem.structure_id.in_(structures)))


def _best_of(connection: Connection, rows: Sequence[RowMapping]) -> dict[int, RowMapping]:
    """For each run the row of the attempt that was shipped or, while it is open, of the best so far."""
    columns = (AttemptRow.turn, AttemptRow.answer, AttemptRow.speedup, AttemptRow.speedup_low, AttemptRow.speedup_high)
    found = {}
    for row in rows:
        query = select(*columns).where(AttemptRow.run_seq == row["seq"])
        if row["ended_us"] is None:
            best = _best_so_far(connection, query) if row["passed"] else None
        elif row["best"] is None:
            continue
        else:
            _, turn, answer = parse_key(row["best"])
            best = (
                connection.execute(query.where(AttemptRow.turn == turn, AttemptRow.answer == answer)).mappings().first()
            )
        if best is not None:
            found[row["seq"]] = best
    return found


def _best_so_far(connection: Connection, query: Any) -> RowMapping | None:
    """The one whose speed-up is surely highest; of those never timed, the first that passed."""
    timed = query.where(AttemptRow.merit >= 0).order_by(AttemptRow.merit.desc()).limit(1)
    untimed = query.where(AttemptRow.merit.is_not(None)).order_by(AttemptRow.turn, AttemptRow.answer).limit(1)
    found: RowMapping | None = connection.execute(timed).mappings().first()
    return found or connection.execute(untimed).mappings().first()


def _summary(row: RowMapping, best: RowMapping | None) -> RunSummary:
    shipped = row["best"] if row["ended_us"] is not None else None
    return RunSummary(
        id=row["id"],
        problem=row["name"],
        problem_digest=row["problem_digest"],
        fingerprint=row["fingerprint"] or "",
        policy=row["policy"],
        device=row["device"],
        started_at=moment_of(row["started_us"]),
        last_at=moment_of(row["last_us"]),
        ended_at=None if row["ended_us"] is None else moment_of(row["ended_us"]),
        stop_reason=row["stop_reason"] or "",
        forked_from=row["forked_from"],
        attempts=row["attempts"],
        turns=row["turns"],
        judged=row["judged"],
        passed=row["passed"],
        tokens=row["tokens"],
        best=shipped or (attempt_key(row["id"], best["turn"], best["answer"]) if best else None),
        speedup=_interval(best["speedup"], best["speedup_low"], best["speedup_high"]) if best else None,
    )


def is_same_run(connection: Connection, item: PreparedRun) -> bool:
    """Whether the run under that id says the same, written otherwise: `1` for `1.0`, keys in another order."""
    return get_run(connection, Library(), item.record.id) == dataclasses.replace(
        item.record, settings=redact(item.record.settings)
    )


# Attempts


def attempt_headers(connection: Connection, name: str) -> list[AttemptHeader]:
    """By turn and answer."""
    run = find_run(connection, name)
    seq = select(RunRow.seq).where(RunRow.id == run).scalar_subquery()
    query = select(*(getattr(AttemptRow, name) for name in _HEADER_COLUMNS)).where(AttemptRow.run_seq == seq)
    rows = connection.execute(query.order_by(AttemptRow.turn, AttemptRow.answer))
    return [_header(run, *row) for row in rows]


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
    """By position: a run may have thousands."""
    return AttemptHeader(
        key=attempt_key(run, turn, answer),
        turn=turn,
        index=answer,
        parent=parent,
        status=None if status is None else Status(status),
        finding=None if finding is None else Finding(finding),
        unmeasured=unmeasured or "",
        speedup=_interval(speedup, low, high),
        device=device or "",
        policy=policy,
        policy_version=policy_version,
        source=None if source_sha is None else source_sha.hex(),
        tokens=tokens,
        created_at=moment_of(created_us),
    )


def _interval(median: float | None, low: float | None, high: float | None) -> Interval | None:
    return None if median is None or low is None or high is None else Interval(median=median, low=low, high=high)


def attempt_id(connection: Connection, key: str) -> int | None:
    """Its row; None where there is none."""
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
    """In the order of `ids`."""
    own = (AttemptRow.id, AttemptRow.turn, AttemptRow.answer, AttemptRow.parent, AttemptRow.digest)
    query = select(RunRow.id.label("run"), *own, AttemptRow.source_sha, Problem.view_sha, *Answer.__table__.c)
    query = query.join(Answer, Answer.attempt_id == AttemptRow.id).join(RunRow, RunRow.seq == AttemptRow.run_seq)
    query = query.join(Problem, Problem.id == AttemptRow.problem_id).where(AttemptRow.id.in_(ids))
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
            raise _changed(attempt_key(row["run"], row["turn"], row["answer"]))
        place: dict[str, Any] = {"run": row["run"], "turn": row["turn"], "index": row["answer"]}
        attempts.append(put_together(pieces, parts.get, **place, parent=row["parent"], observation=observations[sha]))
    return attempts


def attempt_ids(connection: Connection, name: str) -> list[int]:
    """Of a run, by turn and answer."""
    query = select(AttemptRow.id).join(RunRow, AttemptRow.run_seq == RunRow.seq)
    query = query.where(RunRow.id == find_run(connection, name)).order_by(AttemptRow.turn, AttemptRow.answer)
    return list(connection.execute(query).scalars())


def trajectory_ids(connection: Connection, key: str) -> list[int]:
    """From the first ancestor that is in the store to the attempt itself."""
    path = [require_attempt(connection, key)]
    while (above := _parent_id(connection, path[-1])) is not None and above not in path:
        path.append(above)
    return path[::-1]


def _parent_id(connection: Connection, number: int) -> int | None:
    """None where there is no parent, or none in this store."""
    parent = connection.execute(select(AttemptRow.parent).where(AttemptRow.id == number)).scalar()
    try:
        return None if parent is None else attempt_id(connection, parent)
    except NotInStore:  # a key of another form, from elsewhere
        return None


def is_same_attempt(connection: Connection, item: PreparedAttempt) -> bool:
    """As `is_same_run`."""
    found = attempt_id(connection, item.record.key)
    return found is not None and attempts_by_id(connection, Library(), [found]) == [item.record]


# Gradings


def gradings_by_attempt(connection: Connection, ids: Iterable[int]) -> dict[int, list[Grading]]:
    """Oldest first, by when they were made."""
    wanted = list(ids)
    found: dict[int, list[Grading]] = {number: [] for number in wanted}
    query = select(GradingRow.attempt_id, GradingRow.body, GradingRow.digest)
    query = query.where(GradingRow.attempt_id.in_(wanted)).order_by(GradingRow.graded_us, GradingRow.id)
    for row in connection.execute(query):
        found[row.attempt_id].append(record_of(Grading, row))
    return found


def find_graded(connection: Connection, digest: str, source: str, grader: str | None) -> Grading | None:
    """The newest verdict on a source for a problem, from whatever run."""
    try:
        sha = bytes.fromhex(source)
    except ValueError:
        return None
    query = select(GradingRow.body, GradingRow.digest).join(AttemptRow, GradingRow.attempt_id == AttemptRow.id)
    query = query.join(Problem, AttemptRow.problem_id == Problem.id)
    query = query.where(AttemptRow.source_sha == sha, Problem.digest == column_text(digest))
    query = query.where(GradingRow.status.is_not(None))
    if grader is not None:
        query = query.where(GradingRow.grader == column_text(grader))
    query = query.order_by(GradingRow.graded_us.desc(), GradingRow.id.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else record_of(Grading, row)


# Streams


def matching_ids(connection: Connection, wanted: AttemptFilter, after: int, limit: int) -> list[int]:
    """Rows of attempts in the order in which they were added, from the one behind `after`."""
    query = select(AttemptRow.id).where(AttemptRow.id > after, *_attempt_conditions(wanted))
    return list(connection.execute(query.order_by(AttemptRow.id).limit(limit)).scalars())


def _attempt_conditions(wanted: AttemptFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.runs is not None:
        yield AttemptRow.run_seq.in_(select(RunRow.seq).where(RunRow.id.in_(wanted.runs)))
    if wanted.problem is not None:
        yield AttemptRow.problem_id.in_(_problems_called(wanted.problem))
    if wanted.policy is not None:
        yield AttemptRow.policy == column_text(wanted.policy)
    if wanted.policy_version is not None:
        yield AttemptRow.policy_version == column_text(wanted.policy_version)
    if wanted.statuses is not None:
        yield AttemptRow.status.in_([status.value for status in wanted.statuses])
    if wanted.since is not None:
        yield AttemptRow.created_us >= microseconds(wanted.since)
    if wanted.with_tokens:
        yield AttemptRow.id.in_(select(Answer.attempt_id).where(Answer.token_ids.is_not(None)))

"""Queries for runs, their events and ends."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, func, or_, select, true, tuple_

from triton_agent.memory.errors import NotInStore, StoreDamaged
from triton_agent.memory.listing import RunFilter, RunState, RunSummary
from triton_agent.memory.records import Event, Grading, Run, RunEnd, attempt_key
from triton_agent.memory.redaction import redact
from triton_agent.memory.sql import encoding, packing
from triton_agent.memory.sql.library import Library
from triton_agent.memory.sql.preparing import (
    PreparedRun,
    column_text,
    microseconds,
    moment_of,
    parse_key,
)
from triton_agent.memory.sql.tables import AttemptRow, End, EventRow, GradingRow, RunRow, Structure, ViewRow
from triton_agent.tools.ranking import Standing, best_of, standing
from triton_agent.tools.results import Interval

Recorded = TypeVar("Recorded", bound=RunEnd | Event | Grading)
COMPARED_RUNS = 2_000
"""Newest runs that are compared with a mistyped id to suggest one."""
COMPARED_ATTEMPTS = 64
"""Attempts of an open run whose verdicts are read to find its best."""
MANY_RUNS = 2_000
"""From this number of matches on, a search returns them in the order of an index instead of sorting them."""
SHIPPED_AT_ONCE = 100
"""Attempts looked up by one query, since SQLite limits the depth of an expression."""
_AFTER_ALL_TEXT = "\U0010ffff"


def find_run(connection: Connection, name: str) -> str:
    """Return the id that equals `name` or is the only one to begin with it."""
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
    query = select(RunRow.id, RunRow.digest, RunRow.body, ViewRow.view_sha)
    query = query.join(ViewRow, RunRow.problem_id == ViewRow.id).where(RunRow.id == find_run(connection, name))
    row = connection.execute(query).one()
    text = packing.unsqueeze(row.body)
    if hashlib.sha256(row.view_sha + text).digest() != row.digest:
        raise changed(f"run {row.id}")
    view = library.view(connection, row.view_sha)
    return encoding.from_plain(Run, json.loads(text) | {"id": row.id, "problem": view})


def get_end(connection: Connection, name: str) -> RunEnd | None:
    """Return the last end of a run; None while it is open."""
    query = select(End.body, End.digest).join(RunRow, End.run_seq == RunRow.seq)
    query = query.where(RunRow.id == find_run(connection, name)).order_by(End.id.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else record_of(RunEnd, row)


def get_events(connection: Connection, name: str) -> list[Event]:
    """Return the events of a run in the order of insertion."""
    query = select(EventRow.body, EventRow.digest).join(RunRow, EventRow.run_seq == RunRow.seq)
    query = query.where(RunRow.id == find_run(connection, name)).order_by(EventRow.id)
    return [record_of(Event, row) for row in connection.execute(query)]


def record_of(kind: type[Recorded], row: Any) -> Recorded:
    """Decode the record in a row's `body` after checking it against `digest`."""
    text = packing.unsqueeze(row.body)
    if hashlib.sha256(text).digest() != row.digest:
        raise changed(kind.__name__)
    return encoding.from_text(kind, text)


def changed(what: str) -> StoreDamaged:
    return StoreDamaged(f"a record changed since it was written ({what})", remedy="repair it, or go back to a backup")


def list_runs(connection: Connection, wanted: RunFilter) -> list[RunSummary]:
    """List runs, newest first."""
    query = select(RunRow, ViewRow.name, ViewRow.digest.label("problem_digest"), ViewRow.device, Structure.fingerprint)
    query = query.join(ViewRow, RunRow.problem_id == ViewRow.id)
    query = query.outerjoin(Structure, ViewRow.structure_id == Structure.id)
    query = query.where(*_run_conditions(connection, wanted))
    query = query.order_by(RunRow.started_us.desc(), RunRow.seq.desc()).limit(wanted.limit)
    columns = [*RunRow.__table__.c, *list(query.selected_columns)[len(RunRow.__table__.c) :]]
    rows = connection.execute(query.with_only_columns(*columns, maintain_column_froms=True)).mappings().all()
    best = _best_of(connection, rows) if wanted.with_best else {}
    return [_summary(row, best.get(row["seq"])) for row in rows]


def _run_conditions(connection: Connection, wanted: RunFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.id is not None:
        yield RunRow.id == column_text(wanted.id)
    if wanted.search is not None:
        yield _matching(connection, column_text(wanted.search))
    if wanted.problem is not None:
        yield RunRow.problem_id.in_(problems_called(wanted.problem))
    if wanted.policy is not None:
        yield RunRow.policy == column_text(wanted.policy)
    if wanted.state is not None:
        yield RunRow.ended_us.is_(None) if wanted.state is RunState.OPEN else RunRow.ended_us.is_not(None)
    if wanted.since is not None:
        yield RunRow.started_us >= microseconds(wanted.since)
    if wanted.continues is not None:
        yield _begins(RunRow.forked_from, column_text(f"{wanted.continues}/"))
    if wanted.before is not None:
        query = select(RunRow.started_us, RunRow.seq).where(RunRow.id == find_run(connection, wanted.before))
        then, seq = connection.execute(query).one()
        yield tuple_(RunRow.started_us, RunRow.seq) < (then, seq)


def _matching(connection: Connection, text: str) -> ColumnElement[bool]:
    """Return the condition for runs whose id or problem matches the text.

    With few matches it uses the indexes of id and problem. With many it avoids them, so that the newest runs are tested
    one by one until a page is full.
    """
    in_name = ViewRow.name.icontains(text, autoescape=True)
    problems = select(ViewRow.id).where(or_(in_name, _begins(ViewRow.digest, text)))
    by_index = or_(_begins(RunRow.id, text), RunRow.problem_id.in_(problems))
    some = select(RunRow.seq).where(by_index).limit(MANY_RUNS).subquery()
    if connection.execute(select(func.count()).select_from(some)).scalar_one() < MANY_RUNS:
        return by_index
    return or_(_begins(RunRow.id.concat(""), text), (RunRow.problem_id + 0).in_(problems))  # no index has these


def _begins(column: Any, text: str) -> ColumnElement[bool]:
    """Compare with a prefix as a range, which an index serves."""
    return and_(column >= text, column < text + _AFTER_ALL_TEXT)


def policies_of_runs(connection: Connection, limit: int) -> list[str]:
    """Return the names of policies, each found by a step in the index."""
    found: list[str] = []
    while len(found) < limit:
        query = select(func.min(RunRow.policy)).where(RunRow.policy > found[-1] if found else true())
        name = connection.execute(query).scalar()
        if name is None:
            break
        found.append(name)
    return found


def problems_called(name: str) -> Select[Any]:
    """Select problems by name, fingerprint, or (beginning of a) digest."""
    name = column_text(name)
    like_digest = _begins(ViewRow.digest, name)
    structures = select(Structure.id).where(Structure.fingerprint == name)
    return select(ViewRow.id).where(or_(ViewRow.name == name, like_digest, ViewRow.structure_id.in_(structures)))


def _best_of(connection: Connection, rows: Sequence[RowMapping]) -> dict[int, RowMapping]:
    """Return for each run the row of the attempt that was shipped or, while it is open, of the best so far."""
    columns = (AttemptRow.turn, AttemptRow.answer, AttemptRow.speedup, AttemptRow.speedup_low, AttemptRow.speedup_high)
    shipped = [(row["seq"], *parse_key(row["best"])[1:]) for row in rows if row["ended_us"] is not None and row["best"]]
    found: dict[int, RowMapping] = {}
    for start in range(0, len(shipped), SHIPPED_AT_ONCE):
        places = (  # a list of such places in one IN would not be looked up in the index
            and_(AttemptRow.run_seq == seq, AttemptRow.turn == turn, AttemptRow.answer == answer)
            for seq, turn, answer in shipped[start : start + SHIPPED_AT_ONCE]
        )
        query = select(AttemptRow.run_seq, *columns).where(or_(*places))
        found |= {row["run_seq"]: row for row in connection.execute(query).mappings()}
    for row in rows:
        if row["ended_us"] is None and row["passed"]:
            own = select(AttemptRow.id, *columns).where(AttemptRow.run_seq == row["seq"])
            best = _best_so_far(connection, own)
            if best is not None:
                found[row["seq"]] = best
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class _Candidate:
    row: RowMapping
    standing: Standing


def _best_so_far(connection: Connection, query: Any) -> RowMapping | None:
    """Return the best attempt by `best_of`, as the search does; of very many, those of highest merit are compared."""
    likely = query.where(AttemptRow.merit.is_not(None)).order_by(AttemptRow.merit.desc()).limit(COMPARED_ATTEMPTS)
    rows = {row["id"]: row for row in connection.execute(likely).mappings()}
    verdicts = select(GradingRow.attempt_id, GradingRow.body, GradingRow.digest)
    verdicts = verdicts.where(GradingRow.attempt_id.in_(rows), GradingRow.status.is_not(None))
    newest = {row.attempt_id: row for row in connection.execute(verdicts.order_by(GradingRow.graded_us, GradingRow.id))}
    candidates = [
        _Candidate(row, standing(record_of(Grading, newest[number]).evaluation))
        for number, row in sorted(rows.items(), key=lambda item: (item[1]["turn"], item[1]["answer"]))
    ]
    best = best_of(candidates)
    return best.row if best is not None else None


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
        speedup=interval_of(best["speedup"], best["speedup_low"], best["speedup_high"]) if best else None,
    )


def interval_of(median: float | None, low: float | None, high: float | None) -> Interval | None:
    return None if median is None or low is None or high is None else Interval(median=median, low=low, high=high)


def is_same_run(connection: Connection, item: PreparedRun) -> bool:
    """Return True if the stored run is equal but was encoded differently: `1` for `1.0`, another order of keys."""
    return get_run(connection, Library(), item.record.id) == dataclasses.replace(
        item.record, settings=redact(item.record.settings)
    )

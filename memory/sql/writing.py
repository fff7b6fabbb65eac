"""One transaction that adds the records of a group of callers, with an outcome for each record.

An equal record that is stored already is left alone; a different one under the same key is a conflict for its caller
only. A transaction works in a fixed order (blobs, problems, runs, attempts, gradings, ends, events, counts), sorted
within each, so that concurrent writers cannot deadlock.
"""

from __future__ import annotations

import dataclasses
from collections import ChainMap, defaultdict
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, RowMapping, bindparam, case, func, insert, select, text, update

from triton_agent.memory.errors import NotInStore, RecordConflict, StoreError
from triton_agent.memory.knowledge import CountChanges, insert_into, problem_ids
from triton_agent.memory.observation import ProblemView
from triton_agent.memory.sql import reading_attempts, reading_runs
from triton_agent.memory.sql.preparing import (
    Key,
    Prepared,
    PreparedAttempt,
    PreparedEnd,
    PreparedEvent,
    PreparedGrading,
    PreparedRun,
    column_text,
    parse_key,
)
from triton_agent.memory.sql.tables import AnswerRow, AttemptRow, Blob, End, EventRow, GradingRow, RunRow
from triton_agent.memory.verdicts import AttemptState

MOST_KNOWN = 20_000
CHUNK = 400
"""Keys per query; SQLite takes 32,766 values, PostgreSQL 65,535."""
STANDING_COLUMNS = tuple(field.name for field in dataclasses.fields(AttemptState))
Item = TypeVar("Item")


@dataclasses.dataclass(slots=True)
class KnownRows:
    """Cache of row ids, which never change."""

    runs: MutableMapping[str, int] = dataclasses.field(default_factory=dict)
    views: MutableMapping[bytes, int] = dataclasses.field(default_factory=dict)

    def beside(self) -> KnownRows:
        """Return a copy for one transaction; what it learns counts only after the commit."""
        return KnownRows(ChainMap({}, self.runs), ChainMap({}, self.views))

    def learn(self, other: KnownRows) -> None:
        """Take over what a copy made by `beside` has learnt."""
        for mine, theirs in ((self.runs, other.runs), (self.views, other.views)):
            if len(mine) > MOST_KNOWN:
                mine.clear()
            if isinstance(theirs, ChainMap):
                mine.update(theirs.maps[0])


@dataclasses.dataclass(slots=True)
class _Judged:
    """An attempt whose standing changes in this transaction."""

    id: int
    run_seq: int
    problem_id: int
    parent: str | None
    techniques: str
    before: AttemptState
    now: AttemptState
    message: str = ""


@dataclasses.dataclass(slots=True)
class _Gain:
    """Increments of a run's counts."""

    attempts: int = 0
    turns: int = 0
    judged: int = 0
    passed: int = 0
    tokens: int = 0
    last_us: int = 0

    def saw(self, at_us: int) -> None:
        self.last_us = max(self.last_us, at_us)


class Transaction:
    """Writes a batch over one connection; made anew for every try, since a try may be rolled back."""

    def __init__(self, connection: Connection, known: KnownRows) -> None:
        self._connection = connection
        self.known = known.beside()
        self._ledger = CountChanges()
        self._gains: dict[int, _Gain] = defaultdict(_Gain)
        self._fresh: dict[Key, _Judged] = {}
        """Attempts that this transaction added."""

    def write(self, batch: Sequence[Prepared]) -> list[StoreError | None]:
        """Write a batch; return None for each record written, otherwise its error."""
        outcomes: dict[int, StoreError] = {}
        self._write_blobs(batch)
        self._find_problems(batch)
        outcomes |= self._write_runs(_of_kind(batch, PreparedRun))
        outcomes |= self._write_attempts(_of_kind(batch, PreparedAttempt))
        outcomes |= self._write_gradings(_of_kind(batch, PreparedGrading))
        outcomes |= self._write_ends(_of_kind(batch, PreparedEnd))
        outcomes |= self._write_events(_of_kind(batch, PreparedEvent))
        self._ledger.write(self._connection)
        self._write_gains()
        return [outcomes.get(position) for position in range(len(batch))]

    def _write_blobs(self, batch: Sequence[Prepared]) -> None:
        blobs: dict[bytes, bytes] = {}
        for item in batch:
            if isinstance(item, (PreparedRun, PreparedAttempt)):
                blobs |= item.blobs
        if blobs:
            rows = [{"sha": sha, "data": data} for sha, data in sorted(blobs.items())]
            self._connection.execute(insert_into(self._connection, Blob).on_conflict_do_nothing(), rows)

    def _find_problems(self, batch: Sequence[Prepared]) -> None:
        views: dict[bytes, ProblemView] = {}
        for item in batch:
            if isinstance(item, PreparedRun):
                views[item.view_sha] = item.record.problem
            elif isinstance(item, PreparedAttempt):
                views[item.pieces.view_sha] = item.record.observation.problem
        missing = {sha: view for sha, view in views.items() if sha not in self.known.views}
        if missing:
            self.known.views.update(problem_ids(self._connection, missing))

    def _write_runs(self, items: list[tuple[int, PreparedRun]]) -> dict[int, StoreError]:
        outcomes: dict[int, StoreError] = {}
        for position, item in items:
            run = item.record
            row = self._connection.execute(select(RunRow.seq, RunRow.digest).where(RunRow.id == run.id)).one_or_none()
            if row is None:
                self._connection.execute(insert(RunRow), self._run_columns(item))
            elif row.digest != item.digest and not reading_runs.is_same_run(self._connection, item):
                outcomes[position] = RecordConflict(f"another run is called {run.id}")
        return outcomes

    def _run_columns(self, item: PreparedRun) -> dict[str, Any]:
        run = item.record
        return {
            "id": run.id,
            "digest": item.digest,
            "problem_id": self.known.views[item.view_sha],
            "policy": column_text(run.policy),
            "started_us": item.started_us,
            "forked_from": None if run.forked_from is None else column_text(run.forked_from),
            "body": item.body,
            "last_us": item.started_us,
        }

    def _run_seqs(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the row ids of those runs that exist."""
        wanted = set(ids)
        for some in chunks(sorted(run for run in wanted if run not in self.known.runs)):
            rows = self._connection.execute(select(RunRow.id, RunRow.seq).where(RunRow.id.in_(some)))
            self.known.runs.update({row.id: row.seq for row in rows})
        return {run: self.known.runs[run] for run in wanted if run in self.known.runs}

    def _write_attempts(self, items: list[tuple[int, PreparedAttempt]]) -> dict[int, StoreError]:
        seqs = self._run_seqs(item.key[0] for _, item in items)
        found = self._digests(seqs, [item.key for _, item in items])
        outcomes: dict[int, StoreError] = {}
        fresh: dict[Key, tuple[int, PreparedAttempt]] = {}
        graded: list[tuple[int, PreparedGrading]] = []
        for position, item in items:
            digest = fresh[item.key][1].digest if item.key in fresh else found.get(item.key)
            if item.key[0] not in seqs:
                outcomes[position] = _no_run(item.key[0])
            elif digest is None:
                fresh[item.key] = (position, item)
            elif digest != item.digest and (
                item.key in fresh or not reading_attempts.is_same_attempt(self._connection, item)
            ):
                outcomes[position] = RecordConflict(f"another attempt stands under {item.record.key}")
            if item.grading is not None and position not in outcomes:
                graded.append((position, item.grading))
        self._insert_attempts([item for _, item in fresh.values()], seqs)
        return outcomes | self._write_gradings(graded)

    def _digests(self, seqs: dict[str, int], keys: list[Key]) -> dict[Key, bytes]:
        """Return the digests of those attempts that exist."""
        query = select(AttemptRow.turn, AttemptRow.answer, AttemptRow.digest)
        return {key: row["digest"] for key, row in self._rows(query, seqs, keys)}

    def _rows(self, query: Any, seqs: dict[str, int], keys: Iterable[Key]) -> Iterator[tuple[Key, RowMapping]]:
        """Yield rows of attempts by their keys; by run and turn, since SQLite would not use the index for lists of
        whole keys.
        """
        turns: dict[str, set[int]] = defaultdict(set)
        wanted = set(keys)
        for run, turn, _ in wanted:
            turns[run].add(turn)
        for run in turns.keys() & seqs.keys():
            for some in chunks(sorted(turns[run])):
                rows = self._connection.execute(query.where(AttemptRow.run_seq == seqs[run], AttemptRow.turn.in_(some)))
                for row in rows.mappings():
                    if (key := (run, row["turn"], row["answer"])) in wanted:
                        yield key, row

    def _insert_attempts(self, items: list[PreparedAttempt], seqs: dict[str, int]) -> None:
        if not items:
            return
        ids = self._new_ids(len(items))
        rows, answers = [], []
        for number, item in zip(ids, items):
            row = self._attempt_columns(item) | {"id": number, "run_seq": seqs[item.key[0]]}
            rows.append(row)
            answers.append(_answer_columns(item, number))
            self._fresh[item.key] = _Judged(
                id=number,
                run_seq=row["run_seq"],
                problem_id=row["problem_id"],
                parent=item.record.parent,
                techniques=item.techniques,
                before=AttemptState(),
                now=AttemptState(),
            )
            gain = self._gains[row["run_seq"]]
            gain.attempts += 1
            gain.turns = max(gain.turns, item.key[1] + 1)
            gain.tokens += row["tokens"]
            gain.saw(item.created_us)
        self._connection.execute(insert(AttemptRow), rows)
        self._connection.execute(insert(AnswerRow), answers)

    def _new_ids(self, count: int) -> list[int]:
        if self._connection.dialect.name == "sqlite":  # nobody else writes until we have committed
            last = self._connection.execute(select(func.max(AttemptRow.id))).scalar() or 0
            return list(range(last + 1, last + 1 + count))
        query = text("SELECT nextval(pg_get_serial_sequence('attempts', 'id')) FROM generate_series(1, :count)")
        return sorted(self._connection.execute(query, {"count": count}).scalars())

    def _attempt_columns(self, item: PreparedAttempt) -> dict[str, Any]:
        attempt, completion = item.record, item.record.completion
        return {
            "turn": attempt.turn,
            "answer": attempt.index,
            "problem_id": self.known.views[item.pieces.view_sha],
            "digest": item.digest,
            "parent": None if attempt.parent is None else column_text(attempt.parent),
            "policy": column_text(completion.policy),
            "policy_version": column_text(completion.policy_version),
            "created_us": item.created_us,
            "source_sha": item.pieces.source_sha,
            "tokens": len(completion.token_ids) if completion.token_ids else completion.usage.completion_tokens,
            "techniques": item.techniques,
        }

    def _write_gradings(self, items: list[tuple[int, PreparedGrading]]) -> dict[int, StoreError]:
        judged = self._judged_by_key([item.key for _, item in items])
        outcomes = {position: _no_attempt(item) for position, item in items if item.key not in judged}
        there = self._gradings_there([judged[item.key].id for _, item in items if item.key in judged])
        rows, touched = [], {}
        for position, item in items:
            if position in outcomes or (judged[item.key].id, item.digest) in there:
                continue
            attempt = judged[item.key]
            there.add((attempt.id, item.digest))
            rows.append(_grading_columns(item, attempt.id))
            after = attempt.now.after(item.record, item.graded_us)
            attempt.now = dataclasses.replace(after, device=None if after.device is None else column_text(after.device))
            if attempt.now.graded_us == item.graded_us:
                attempt.message = item.message
            touched[item.key] = attempt
            self._gains[attempt.run_seq].saw(item.graded_us)
        if rows:
            self._connection.execute(insert(GradingRow), rows)
            self._write_standings(touched)
        return outcomes

    def _judged_by_key(self, keys: list[Key]) -> dict[Key, _Judged]:
        """Return the attempts of this transaction and stored ones, by key."""
        found = {key: self._fresh[key] for key in keys if key in self._fresh}
        seqs = self._run_seqs(key[0] for key in keys if key not in found)
        missing = [key for key in keys if key not in found]
        for key, row in self._rows(select(*AttemptRow.__table__.c), seqs, missing):
            standing = AttemptState(**{name: row[name] for name in STANDING_COLUMNS})
            found[key] = _Judged(
                id=row["id"],
                run_seq=row["run_seq"],
                problem_id=row["problem_id"],
                parent=row["parent"],
                techniques=row["techniques"],
                before=standing,
                now=standing,
            )
        return found

    def _gradings_there(self, attempt_ids: list[int]) -> set[tuple[int, bytes]]:
        new = {attempt.id for attempt in self._fresh.values()}
        found: set[tuple[int, bytes]] = set()
        for some in chunks(sorted(set(attempt_ids) - new)):
            query = select(GradingRow.attempt_id, GradingRow.digest).where(GradingRow.attempt_id.in_(some))
            found |= {(row.attempt_id, row.digest) for row in self._connection.execute(query)}
        return found

    def _write_standings(self, touched: dict[Key, _Judged]) -> None:
        """Update the columns of attempts that follow from gradings, and the counts."""
        parents = self._judged_by_key(list(_parent_keys(touched.values())))
        changed = []
        for attempt in touched.values():
            before, now = attempt.before, attempt.now
            if before == now:
                continue
            changed.append({"of": attempt.id} | {name: getattr(now, name) for name in STANDING_COLUMNS})
            gain = self._gains[attempt.run_seq]
            gain.judged += (now.status is not None) - (before.status is not None)
            gain.passed += now.passed - before.passed
            self._ledger.judged(attempt.problem_id, attempt.id, before, now, attempt.message)
            parent = parents.get(next(_parent_keys([attempt]), ("", 0, 0)))
            if parent is not None:
                self._ledger.tried(attempt.problem_id, attempt.id, attempt.techniques, now, parent.now)
            attempt.before = now
        if changed:
            values: dict[str, Any] = {name: bindparam(name) for name in STANDING_COLUMNS}
            self._connection.execute(
                update(AttemptRow.__table__).where(AttemptRow.id == bindparam("of")).values(values),  # type: ignore[arg-type]
                changed,
            )

    def _write_ends(self, items: list[tuple[int, PreparedEnd]]) -> dict[int, StoreError]:
        seqs = self._run_seqs(item.record.run for _, item in items)
        outcomes: dict[int, StoreError] = {}
        for position, item in items:
            end = item.record
            if end.run not in seqs:
                outcomes[position] = _no_run(end.run)
                continue
            row = {"run_seq": seqs[end.run], "digest": item.digest, "body": item.body}
            added = self._connection.execute(insert_into(self._connection, End).values(row).on_conflict_do_nothing())
            self._gains[seqs[end.run]].saw(item.ended_us)
            if added.rowcount:
                self._connection.execute(
                    update(RunRow.__table__)  # type: ignore[arg-type]
                    .where(RunRow.seq == seqs[end.run])
                    .values(
                        ended_us=item.ended_us,
                        stop_reason=column_text(end.stop_reason),
                        best=None if end.best is None else column_text(end.best),
                    )
                )
        return outcomes

    def _write_events(self, items: list[tuple[int, PreparedEvent]]) -> dict[int, StoreError]:
        seqs = self._run_seqs(item.record.run for _, item in items)
        outcomes: dict[int, StoreError] = {}
        rows = []
        for position, item in items:
            if item.record.run not in seqs:
                outcomes[position] = _no_run(item.record.run)
                continue
            seq = seqs[item.record.run]
            kind = column_text(item.record.kind)
            rows.append({"run_seq": seq, "digest": item.digest, "kind": kind, "body": item.body})
            self._gains[seq].saw(item.at_us)
        if rows:
            self._connection.execute(insert_into(self._connection, EventRow).on_conflict_do_nothing(), rows)
        return outcomes

    def _write_gains(self) -> None:
        table = RunRow.__table__
        rows = [{"of": seq, **_prefixed(gain)} for seq, gain in sorted(self._gains.items())]
        if not rows:
            return
        counts = {name: table.c[name] + bindparam(f"new_{name}") for name in ("attempts", "judged", "passed", "tokens")}
        largest = {
            name: case((table.c[name] < bindparam(f"new_{name}"), bindparam(f"new_{name}")), else_=table.c[name])
            for name in ("turns", "last_us")
        }
        statement = update(table).where(table.c.seq == bindparam("of")).values(counts | largest)  # type: ignore[arg-type]
        self._connection.execute(statement, rows)


def chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]


def shas_in(batch: Iterable[Prepared]) -> set[bytes]:
    """Return the hashes of the blobs in a batch."""
    found: set[bytes] = set()
    for item in batch:
        if isinstance(item, (PreparedRun, PreparedAttempt)):
            found.update(item.blobs.keys())
    return found


def _of_kind(batch: Sequence[Prepared], kind: type[Item]) -> list[tuple[int, Item]]:
    """Return the items of one kind with their positions."""
    return [(position, item) for position, item in enumerate(batch) if isinstance(item, kind)]


def _answer_columns(item: PreparedAttempt, attempt_id: int) -> dict[str, Any]:
    pieces = item.pieces
    return {
        "attempt_id": attempt_id,
        "observation_sha": pieces.observation_sha,
        "conversation_sha": pieces.conversation_sha,
        "prompt_ids_sha": pieces.prompt_ids_sha,
        "body": pieces.body,
        "token_ids": pieces.token_ids,
        "log_probabilities": pieces.log_probabilities,
        "mask": pieces.mask,
    }


def _grading_columns(item: PreparedGrading, attempt_id: int) -> dict[str, Any]:
    evaluation = item.record.evaluation
    return {
        "attempt_id": attempt_id,
        "digest": item.digest,
        "graded_us": item.graded_us,
        "grader": column_text(item.record.grader),
        "status": None if evaluation is None else evaluation.status.value,
        "body": item.body,
    }


def _parent_keys(attempts: Iterable[_Judged]) -> Iterator[Key]:
    """Yield the parents' keys that can be parsed."""
    for attempt in attempts:
        try:
            if attempt.parent:
                yield parse_key(attempt.parent)
        except NotInStore:
            continue


def _prefixed(gain: _Gain) -> dict[str, int]:
    return {f"new_{field.name}": getattr(gain, field.name) for field in dataclasses.fields(gain)}


def _no_run(run: str) -> StoreError:
    return NotInStore(f"there is no run {run!r:.100}", remedy="add the run before its attempts and events")


def _no_attempt(item: PreparedGrading) -> StoreError:
    return NotInStore(f"there is no attempt {item.record.attempt!r:.100}", remedy="add the attempt before its grading")

"""Recalls what earlier runs teach about a problem: fast kernels, frequent failures, techniques confirmed by
measurement.

The result is deterministic, with a bounded number of rows read and of lessons returned. Every lesson says why it is
shown. Later evidence overrules earlier evidence: a kernel counts by the newest verdict on its source for that problem,
a failure that a later grading revoked is not counted, and a technique needs two wins, more wins than losses, and a
positive balance of recent trials (`knowledge.py`).

Lessons are not weighed by a model, and nothing is recalled from problems without a common operator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, RowMapping, select

from triton_agent.memory.observation import Lesson, ProblemView
from triton_agent.memory.records import attempt_key
from triton_agent.memory.similarity import Relative, relatives_of
from triton_agent.memory.sql.library import Library, Opened
from triton_agent.memory.sql.tables import AttemptRow, Failure, RunRow, Technique, ViewRow
from triton_agent.memory.store import Store
from triton_agent.tools.results import DECISIONS, Finding, Status

LEAST_WINS = 2
"""A single win may be chance: of many techniques that are tried, some win by luck."""
_ATTEMPT_COLUMNS = ("turn", "answer", "source_sha", "speedup", "speedup_low", "device", "merit")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """Limits on what is recalled."""

    kernels: int = 3
    failures: int = 4
    techniques: int = 4
    characters: int = 24_000
    """Characters of all texts together; kernels that do not fit are left out."""
    problems: int = 16
    """Maximum number of related problems to read."""
    kernels_looked_at: int = 4
    """Kernels read per related problem, the best by merit first."""
    techniques_looked_at: int = 12
    """Techniques read per related problem, those with the best balance first."""


def recall(
    store: Store,
    problem: ProblemView,
    settings: RecallSettings | None = None,
    *,
    exclude_run: str | None = None,
) -> tuple[Lesson, ...]:
    """Return lessons: kernels, then techniques, then failures; closest problems and best results first."""
    settings = settings or RecallSettings()
    with store.reading() as connection:
        relatives = relatives_of(connection, problem, settings.problems)
        if not relatives:
            return ()
        by_id = {relative.id: relative for relative in relatives}
        lessons = [
            *_kernels(connection, store.library, by_id, settings, exclude_run),
            *_techniques(connection, by_id, settings),
            *_failures(connection, by_id, settings),
        ]
    return tuple(_fitting(lessons, settings.characters))


def _fitting(lessons: Iterable[Lesson], characters: int) -> Iterator[Lesson]:
    """Yield the lessons that fit, in order."""
    for lesson in lessons:
        size = len(lesson.text) + len(lesson.why)
        if size <= characters:
            characters -= size
            yield lesson


# Kernels


def _kernels(
    connection: Connection,
    library: Library,
    relatives: dict[int, Relative],
    settings: RecallSettings,
    exclude_run: str | None,
) -> list[Lesson]:
    """Choose kernels: closest problems first, within a relation the fastest first, each source once."""
    rows = [
        (relative, row)
        for relative in relatives.values()
        for row in _best_attempts(connection, relative.id, settings.kernels_looked_at)
    ]
    rows.sort(key=lambda pair: (-pair[0].relation, -_worth(*pair), -pair[1]["id"]))
    chosen: dict[bytes, tuple[Relative, RowMapping]] = {}
    for relative, row in rows:
        if len(chosen) == settings.kernels:
            break
        sha = row["source_sha"]
        if row["run"] != exclude_run and sha not in chosen and _still_passes(connection, relative.id, sha):
            chosen[sha] = (relative, row)
    sources = Opened(library.fetch(connection, chosen))
    return [
        Lesson(
            kind="kernel",
            text=sources.get(sha).decode("utf-8", "surrogatepass"),
            why=_why_kernel(relative, row),
            attempt=attempt_key(row["run"], row["turn"], row["answer"]),
            score=relative.likeness,
            speedup=row["speedup"],
        )
        for sha, (relative, row) in chosen.items()
    ]


def _best_attempts(connection: Connection, problem_id: int, most: int) -> Sequence[RowMapping]:
    columns = [getattr(AttemptRow, name) for name in _ATTEMPT_COLUMNS]
    query = select(AttemptRow.id, RunRow.id.label("run"), *columns).join(RunRow, RunRow.seq == AttemptRow.run_seq)
    query = query.where(
        AttemptRow.problem_id == problem_id, AttemptRow.merit.is_not(None), AttemptRow.source_sha.is_not(None)
    )
    return (
        connection.execute(query.order_by(AttemptRow.merit.desc(), AttemptRow.id.desc()).limit(most)).mappings().all()
    )


def _worth(relative: Relative, row: RowMapping) -> float:
    """Return the merit, reduced for less similar problems; kernels that were never timed rank below all timed ones."""
    merit: float = row["merit"]
    return merit * relative.likeness if merit >= 0 else merit


def _still_passes(connection: Connection, problem_id: int, source_sha: bytes) -> bool:
    """Return True if the newest verdict on this source for this problem's digest is `passed`."""
    digest = select(ViewRow.digest).where(ViewRow.id == problem_id).scalar_subquery()
    query = select(AttemptRow.status).join(ViewRow, ViewRow.id == AttemptRow.problem_id)
    query = query.where(AttemptRow.source_sha == source_sha, ViewRow.digest == digest, AttemptRow.status.is_not(None))
    newest = connection.execute(query.order_by(AttemptRow.graded_us.desc(), AttemptRow.id.desc()).limit(1)).scalar()
    return newest == Status.PASSED


def _why_kernel(relative: Relative, row: RowMapping) -> str:
    if row["speedup"] is None:
        return f"{relative.why}; passed, not timed"
    return f"{relative.why}; {row['speedup']:.2f}x on {row['device']}, at least {row['speedup_low']:.2f}x"


# Techniques


@dataclasses.dataclass(slots=True)
class _Confirmed:
    wins: int = 0
    losses: int = 0
    standing: float = 0.0
    likeness: float = 0.0
    attempt_id: int = 0
    device: str = ""
    problems: list[str] = dataclasses.field(default_factory=list)


def _techniques(connection: Connection, relatives: dict[int, Relative], settings: RecallSettings) -> list[Lesson]:
    """Choose techniques that repeatedly beat the parent attempt; closer problems weigh more."""
    found: dict[str, _Confirmed] = {}
    for row in _trials(connection, relatives, settings.techniques_looked_at):
        relative, entry = relatives[row["problem_id"]], found.setdefault(row["name"], _Confirmed())
        entry.wins += row["wins"]
        entry.losses += row["losses"]
        entry.standing += row["standing"] * relative.likeness
        entry.likeness = max(entry.likeness, relative.likeness)
        if row["attempt_id"] > entry.attempt_id:
            entry.attempt_id, entry.device = row["attempt_id"], row["device"]
        if relative.name not in entry.problems:
            entry.problems.append(relative.name)
    confirmed = {
        name: entry
        for name, entry in found.items()
        if entry.wins >= LEAST_WINS and entry.wins > entry.losses and entry.standing > 0
    }
    best = sorted(confirmed.items(), key=lambda item: (-item[1].standing, item[0]))[: settings.techniques]
    keys = _keys(connection, [entry.attempt_id for _, entry in best])
    return [
        Lesson(
            kind="lesson",
            text=f"{name}: faster than the attempt it set out from in {entry.wins} of {entry.wins + entry.losses}",
            why=f"measured on {entry.device}, for {', '.join(entry.problems[:3])}",
            attempt=keys.get(entry.attempt_id, ""),
            score=round(entry.standing, 6),
        )
        for name, entry in best
    ]


def _trials(connection: Connection, relatives: Iterable[int], most: int) -> Sequence[RowMapping]:
    """Read trials on all related problems of the techniques with the best balance on any of them.

    A technique may have lost on other problems.
    """
    names: set[str] = set()
    for problem_id in relatives:
        query = select(Technique.name).where(Technique.problem_id == problem_id, Technique.standing > 0)
        names |= set(
            connection.execute(query.order_by(Technique.standing.desc(), Technique.name.desc()).limit(most)).scalars()
        )
    query_all = select(*Technique.__table__.c).where(Technique.problem_id.in_(relatives), Technique.name.in_(names))
    return connection.execute(query_all.order_by(Technique.problem_id, Technique.name)).mappings().all()


# Failures


@dataclasses.dataclass(slots=True)
class _Failed:
    finding: str
    message: str
    attempt_id: int
    occurrences: int = 0
    weight: float = 0.0
    why: str = ""


def _failures(connection: Connection, relatives: dict[int, Relative], settings: RecallSettings) -> list[Lesson]:
    """Choose the most frequent failures; messages that differ only in figures count as one."""
    found: dict[int, _Failed] = {}
    for relative in relatives.values():
        for row in _frequent_failures(connection, relative.id, 2 * settings.failures):
            entry = found.setdefault(row["key"], _Failed(row["finding"], row["message"], row["attempt_id"]))
            entry.occurrences += row["occurrences"]
            entry.weight += row["occurrences"] * relative.likeness
            entry.why = entry.why or relative.why  # relatives come closest first
    worst = sorted(found.values(), key=lambda entry: (-entry.weight, entry.finding, entry.message))
    worst = worst[: settings.failures]
    keys = _keys(connection, [entry.attempt_id for entry in worst])
    return [
        Lesson(
            kind="failure",
            text=entry.message or DECISIONS[Finding(entry.finding)].means,
            why=f"{entry.finding}, {entry.occurrences} {'time' if entry.occurrences == 1 else 'times'}; {entry.why}",
            attempt=keys.get(entry.attempt_id, ""),
            score=round(entry.weight, 6),
        )
        for entry in worst
    ]


def _frequent_failures(connection: Connection, problem_id: int, most: int) -> Sequence[RowMapping]:
    query = select(*Failure.__table__.c).where(Failure.problem_id == problem_id, Failure.occurrences > 0)
    return (
        connection.execute(query.order_by(Failure.occurrences.desc(), Failure.key.desc()).limit(most)).mappings().all()
    )


def _keys(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    query = select(AttemptRow.id, RunRow.id, AttemptRow.turn, AttemptRow.answer).join(
        RunRow, RunRow.seq == AttemptRow.run_seq
    )
    rows = connection.execute(query.where(AttemptRow.id.in_(ids)))
    return {number: attempt_key(run, turn, answer) for number, run, turn, answer in rows}

"""Counts of structures, failures and techniques, updated with every grading so that recall need not scan the records.

A technique is *tried* if the plan of an attempt names it and the attempt was timed on the GPU of its parent. It wins if
the whole interval of the attempt's speed-up lies above the parent's median, loses if the whole interval lies below, and
otherwise the trial is undecided. Each newer trial reduces the weight of older ones.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Insert, Table, bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite

from triton_agent.memory.observation import ProblemView
from triton_agent.memory.sql.preparing import column_text, problem_columns
from triton_agent.memory.sql.tables import Failure, Structure, StructureOperator, Technique, ViewRow
from triton_agent.memory.verdicts import AttemptState
from triton_agent.tools.graph.operators import kind_of

FADING = 0.8
"""Weight of an older trial after each newer one; five in a row outweigh any history."""
_NOT_WORK = ("view", "metadata", "allocation")
"""Kinds of operators that say little about the work of a kernel."""


def insert_into(connection: Connection, table: type) -> Any:
    """Return an insert that can handle conflicts, for which each database has its own syntax."""
    make = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    return make(table)


def operators_of(view: ProblemView) -> Counter[str]:
    """Count the operators that do computation, in the problem at its first sizes."""
    nodes = view.graphs[0]["nodes"] if view.graphs else ()
    return Counter(node["operator"] for node in nodes if kind_of(node["operator"]) not in _NOT_WORK)


def problem_ids(connection: Connection, views: Mapping[bytes, ProblemView]) -> dict[bytes, int]:
    """Return the row id of each view by the view's hash; missing rows are added."""
    found = _ids_by_view(connection, list(views))
    for sha in sorted(views.keys() - found.keys()):
        columns = problem_columns(views[sha]) | {"view_sha": sha, "structure_id": structure_id(connection, views[sha])}
        connection.execute(insert_into(connection, ViewRow).on_conflict_do_nothing(), columns)
    return found if len(found) == len(views) else _ids_by_view(connection, list(views))


def _ids_by_view(connection: Connection, shas: list[bytes]) -> dict[bytes, int]:
    rows = connection.execute(select(ViewRow.view_sha, ViewRow.id).where(ViewRow.view_sha.in_(shas)))
    return {row.view_sha: row.id for row in rows}


def structure_id(connection: Connection, view: ProblemView) -> int | None:
    """Return the row id of the problem's operator graph, added if missing; None for a problem without a graph."""
    if not view.fingerprint:
        return None
    query = select(Structure.id).where(Structure.fingerprint == column_text(view.fingerprint))
    found = connection.execute(query).scalar()
    if found is not None:
        return found
    operators = operators_of(view)
    columns = {"fingerprint": column_text(view.fingerprint), "operators": operators.total()}
    connection.execute(insert_into(connection, Structure).on_conflict_do_nothing(), columns)
    added: int = connection.execute(query).scalar_one()
    rows = [{"structure_id": added, "operator": name, "occurrences": count} for name, count in operators.items()]
    if rows:
        connection.execute(insert_into(connection, StructureOperator).on_conflict_do_nothing(), rows)
    return added


@dataclasses.dataclass(slots=True)
class _Trials:
    wins: int = 0
    losses: int = 0
    kept: float = 1.0
    """Factor on the earlier standing, for trials that are newer."""
    gained: float = 0.0
    attempt_id: int = 0
    device: str = ""


@dataclasses.dataclass(slots=True)
class _Failing:
    change: int = 0
    finding: str = ""
    message: str = ""
    attempt_id: int = 0


class CountChanges:
    """The changes of counts by one transaction; written once at its end, in sorted order so that writers cannot
    deadlock.
    """

    def __init__(self) -> None:
        self._failing: dict[tuple[int, int], _Failing] = {}
        self._trials: dict[tuple[int, str], _Trials] = {}

    def judged(self, problem_id: int, attempt_id: int, before: AttemptState, after: AttemptState, message: str) -> None:
        """Record that the standing of an attempt changed."""
        if before.failure_key == after.failure_key:
            return
        if before.failure_key is not None:
            self._failing.setdefault((problem_id, before.failure_key), _Failing()).change -= 1
        if after.failure_key is not None:
            entry = self._failing.setdefault((problem_id, after.failure_key), _Failing())
            entry.change += 1
            entry.finding, entry.message, entry.attempt_id = after.finding or "", message, attempt_id

    def tried(self, problem_id: int, attempt_id: int, techniques: str, own: AttemptState, parent: AttemptState) -> None:
        """Record the trial of an attempt whose parent was judged before."""
        outcome = outcome_of(own, parent)
        for name in techniques.split("\n") if techniques and outcome else ():
            entry = self._trials.setdefault((problem_id, name), _Trials())
            entry.wins += outcome > 0
            entry.losses += outcome < 0
            entry.kept *= FADING
            entry.gained = entry.gained * FADING + outcome
            entry.attempt_id, entry.device = attempt_id, own.device or ""

    def write(self, connection: Connection) -> None:
        self._write_failures(connection)
        self._write_techniques(connection)

    def _write_failures(self, connection: Connection) -> None:
        table: Table = Failure.__table__  # type: ignore[assignment]
        seen, gone = [], []
        for (problem_id, key), entry in sorted(self._failing.items()):
            row = {"problem_id": problem_id, "key": key, "occurrences": entry.change, "finding": entry.finding}
            if entry.attempt_id:
                seen.append(row | {"message": entry.message, "attempt_id": entry.attempt_id})
            else:
                gone.append({"of_problem": problem_id, "of_key": key, "change": entry.change})
        if seen:
            connection.execute(_counting_up(connection), seen)
        if gone:
            connection.execute(
                update(table)
                .where(table.c.problem_id == bindparam("of_problem"), table.c.key == bindparam("of_key"))
                .values(occurrences=table.c.occurrences + bindparam("change")),
                gone,
            )

    def _write_techniques(self, connection: Connection) -> None:
        rows: list[dict[str, Any]] = [
            {
                "problem_id": problem_id,
                "name": name,
                "kept": entry.kept,
                "wins": entry.wins,
                "losses": entry.losses,
                "standing": entry.gained,
                "attempt_id": entry.attempt_id,
                "device": entry.device,
            }
            for (problem_id, name), entry in sorted(self._trials.items())
        ]
        insert = insert_into(connection, Technique)
        for row in rows:
            share = row.pop("kept")
            connection.execute(
                insert.values(row).on_conflict_do_update(
                    index_elements=["problem_id", "name"],
                    set_={
                        "wins": Technique.wins + insert.excluded.wins,
                        "losses": Technique.losses + insert.excluded.losses,
                        "standing": Technique.standing * share + insert.excluded.standing,
                        "attempt_id": insert.excluded.attempt_id,
                        "device": insert.excluded.device,
                    },
                )
            )


def outcome_of(own: AttemptState, parent: AttemptState) -> int:
    """Return 1 if the attempt surely beat its parent, -1 if it surely lost, otherwise 0."""
    if own.device != parent.device or not (own.passed and parent.passed):
        return 0
    if own.speedup_low is None or own.speedup_high is None or parent.speedup is None:
        return 0
    return 1 if own.speedup_low > parent.speedup else -1 if own.speedup_high < parent.speedup else 0


def _counting_up(connection: Connection) -> Insert:
    insert = insert_into(connection, Failure)
    counted: Insert = insert.on_conflict_do_update(
        index_elements=["problem_id", "key"],
        set_={
            "occurrences": Failure.occurrences + insert.excluded.occurrences,
            "message": insert.excluded.message,
            "attempt_id": insert.excluded.attempt_id,
        },
    )
    return counted

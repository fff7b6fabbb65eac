"""Finds problems in the store that resemble a given one, by structure, dtypes and sizes.

Relations, closest first: the same problem; the same graph with the same shapes; the same graph; a graph that shares
operators. Within a relation equal dtypes count, then the difference in size. Reads columns and indices only, and a
bounded number of rows.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, RowMapping, func, select

from triton_agent.memory.knowledge import operators_of
from triton_agent.memory.observation import ProblemView
from triton_agent.memory.sql.preparing import column_text, problem_columns
from triton_agent.memory.sql.tables import Structure, StructureOperator, ViewRow

LEAST_OVERLAP = 0.3
"""Graphs that share less than this fraction of their operators are not related; one of three is enough."""
MOST_STRUCTURES = 8
"""Graphs with shared operators that are compared."""
MOST_OF_AN_OPERATOR = 4_000
"""An operator in more graphs than this is not used for the search; rarer ones decide."""
MOST_PROBLEMS = 400
"""Newest problems that are compared, per relation."""
_DOUBLINGS_THAT_MATTER = 12
"""Differences in size are capped at a factor of 4,096."""


class Relation(enum.IntEnum):
    """How two problems are related; a higher value is closer."""

    OPERATORS = 1
    STRUCTURE = 2
    SHAPES = 3
    PROBLEM = 4


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A problem in the store that resembles the one asked about."""

    id: int
    name: str
    relation: Relation
    likeness: float
    """Between 0 and 1; higher for a closer relation."""
    why: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """The compared properties of the problem in question."""

    digest: str
    signature: str
    dtypes: str
    elements: int
    fingerprint: str
    operators: Counter[str]


def relatives_of(connection: Connection, view: ProblemView, most: int) -> list[Relative]:
    """Return related problems, closest first."""
    subject = _subject(view)
    found: dict[int, Relative] = {}
    for row in _problems(connection, ViewRow.digest == subject.digest):
        found[row["id"]] = _relative(row, subject, Relation.PROBLEM, 1.0)
    own = _structure_of(connection, subject.fingerprint)
    if own is not None:
        same_shapes = (ViewRow.structure_id == own) & (ViewRow.signature == subject.signature)
        for relation, condition in (
            (Relation.SHAPES, same_shapes),
            (Relation.STRUCTURE, ViewRow.structure_id == own),
        ):
            for row in _problems(connection, condition):
                found.setdefault(row["id"], _relative(row, subject, relation, 1.0))
    overlaps = _overlapping(connection, subject, own)
    for row in _problems(connection, ViewRow.structure_id.in_(overlaps)) if overlaps else ():
        overlap = overlaps[row["structure_id"]]
        found.setdefault(row["id"], _relative(row, subject, Relation.OPERATORS, overlap))
    return sorted(found.values(), key=lambda relative: (-relative.likeness, -relative.id))[:most]


def _subject(view: ProblemView) -> _Subject:
    columns = problem_columns(view)
    return _Subject(
        digest=columns["digest"],
        signature=columns["signature"],
        dtypes=columns["dtypes"],
        elements=columns["elements"],
        fingerprint=column_text(view.fingerprint),
        operators=operators_of(view),
    )


def _structure_of(connection: Connection, fingerprint: str) -> int | None:
    found: int | None = connection.execute(select(Structure.id).where(Structure.fingerprint == fingerprint)).scalar()
    return found


def _problems(connection: Connection, condition: ColumnElement[bool]) -> Sequence[RowMapping]:
    query = select(*ViewRow.__table__.c).where(condition).order_by(ViewRow.id.desc()).limit(MOST_PROBLEMS)
    return connection.execute(query).mappings().all()


def _overlapping(connection: Connection, subject: _Subject, own: int | None) -> dict[int, float]:
    """Return graphs that share operators, with the fraction shared: common occurrences over all occurrences."""
    telling = _telling(connection, subject.operators)
    columns = (StructureOperator.structure_id, StructureOperator.operator, StructureOperator.occurrences)
    common: dict[int, int] = defaultdict(int)
    for structure, operator, occurrences in connection.execute(
        select(*columns).where(StructureOperator.operator.in_(telling))
    ):
        common[structure] += min(occurrences, subject.operators[operator])
    common.pop(own or 0, None)
    # Operators too frequent to be looked up can only add; the most they could add decides who is looked at closer.
    promising = sorted(common, key=lambda structure: (-common[structure], -structure))[: 8 * MOST_STRUCTURES]
    exact = _exact_overlaps(connection, subject, promising)
    closest = sorted(exact, key=lambda structure: (-exact[structure], -structure))[:MOST_STRUCTURES]
    return {structure: exact[structure] for structure in closest if exact[structure] >= LEAST_OVERLAP}


def _telling(connection: Connection, operators: Counter[str]) -> list[str]:
    """Choose the operators to search by: those that are not everywhere, or else the rarest."""
    query = select(StructureOperator.operator, func.count()).where(StructureOperator.operator.in_(list(operators)))
    counts = sorted((count, name) for name, count in connection.execute(query.group_by(StructureOperator.operator)))
    return [name for count, name in counts if count <= MOST_OF_AN_OPERATOR] or [name for _, name in counts[:1]]


def _exact_overlaps(connection: Connection, subject: _Subject, structures: Sequence[int]) -> dict[int, float]:
    theirs: dict[int, Counter[str]] = {structure: Counter() for structure in structures}
    columns = (StructureOperator.structure_id, StructureOperator.operator, StructureOperator.occurrences)
    query = select(*columns).where(StructureOperator.structure_id.in_(structures))
    for structure, operator, occurrences in connection.execute(query):
        theirs[structure][operator] = occurrences
    return {
        structure: (subject.operators & operators).total() / max((subject.operators | operators).total(), 1)
        for structure, operators in theirs.items()
    }


def _relative(row: RowMapping, subject: _Subject, relation: Relation, overlap: float) -> Relative:
    dtypes = 1.0 if row["dtypes"] == subject.dtypes else 0.5
    doublings = abs(math.log2((row["elements"] + 1) / (subject.elements + 1)))
    nearness = 1 - min(doublings / _DOUBLINGS_THAT_MATTER, 1.0)
    within = overlap * (0.6 * dtypes + 0.4 * nearness)  # always below the next relation's least
    return Relative(
        id=row["id"],
        name=row["name"],
        relation=relation,
        likeness=round((relation - 1 + within) / len(Relation), 6),
        why=_why(row, relation, overlap, dtypes == 1.0, doublings),
    )


def _why(row: RowMapping, relation: Relation, overlap: float, same_dtypes: bool, doublings: float) -> str:
    """Describe the relation for the author."""
    if relation is Relation.PROBLEM:
        return "this problem"
    words = {
        Relation.SHAPES: "the same operators and shapes",
        Relation.STRUCTURE: "the same operators",
        Relation.OPERATORS: f"{overlap:.0%} of the operators in common",
    }[relation]
    dtypes = "" if same_dtypes else f", in {row['dtypes'] or 'other dtypes'}"
    size = "" if relation is Relation.SHAPES or doublings < 1 else f", sizes {2**doublings:,.0f}x apart"
    return f"{row['name']}: {words}{dtypes}{size}"

"""The tables of the store, equal on SQLite and PostgreSQL.

There are three kinds. *Records* are only ever added: `blobs`, `answers`, `gradings`, `ends`, `events`. *Headers*
(`problems`, `runs`, `attempts`) are added once; besides their identity they have columns for lists and recall. These
columns, marked below, follow from the records and are updated in the transaction that adds a record. *Counts*
(`structures`, `structure_operators`, `failures`, `techniques`) are kept up to date as records arrive.

Texts that many records share (sources, messages, problem views, observations) are stored once in `blobs` under the
SHA-256 of their bytes; a column ending in `_sha` refers to one. Columns ending in `_us` are microseconds since 1970,
UTC.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import (
    BigInteger,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

WHOLE = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows automatically only if the type is INTEGER."""
KEY_TEXT = Text().with_variant(String(collation="C"), "postgresql")
"""Compared byte by byte on both databases, so that a prefix is a range of the index."""


class Packed(LargeBinary):
    """Plain bytes, passed to the driver as they are: wrapping each value takes longer than inserting it."""

    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> None:
        return None

    def result_processor(self, dialect: Dialect, coltype: object) -> None:
        return None


NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
}


class TableBase(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map: ClassVar[dict[Any, Any]] = {float: Double()}


class Blob(TableBase):
    """Bytes that several records share."""

    __tablename__ = "blobs"

    sha: Mapped[bytes] = mapped_column(Packed, primary_key=True)
    data: Mapped[bytes] = mapped_column(Packed)
    """Packed by `packing.squeeze`; `sha` is the hash of the unpacked bytes."""


class Structure(TableBase):
    """An operator graph, shared by all problems that have it."""

    __tablename__ = "structures"
    __table_args__ = (Index("ix_structures_fingerprint", "fingerprint", unique=True),)

    id: Mapped[int] = mapped_column(WHOLE, primary_key=True)
    fingerprint: Mapped[str] = mapped_column(KEY_TEXT)
    operators: Mapped[int]
    """Calls that do more than make a view, repetitions included."""


class StructureOperator(TableBase):
    __tablename__ = "structure_operators"
    __table_args__ = (Index("ix_structure_operators_operator", "operator", "structure_id", "occurrences"),)

    structure_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(Structure.id), primary_key=True)
    operator: Mapped[str] = mapped_column(KEY_TEXT, primary_key=True)
    occurrences: Mapped[int]


class ViewRow(TableBase):
    """A problem as authors saw it; one row for each device that it was shown on."""

    __tablename__ = "problems"
    __table_args__ = (
        Index("ix_problems_view_sha", "view_sha", unique=True),
        Index("ix_problems_digest", "digest"),
        Index("ix_problems_name", "name"),
        Index("ix_problems_structure_id", "structure_id"),
    )

    id: Mapped[int] = mapped_column(WHOLE, primary_key=True)
    view_sha: Mapped[bytes] = mapped_column(Packed)
    digest: Mapped[str] = mapped_column(KEY_TEXT)
    name: Mapped[str] = mapped_column(KEY_TEXT)
    structure_id: Mapped[int | None] = mapped_column(WHOLE, ForeignKey(Structure.id))
    """None for a problem that has only a verifier."""
    signature: Mapped[str] = mapped_column(KEY_TEXT)
    dtypes: Mapped[str] = mapped_column(Text)
    """Dtypes of its inputs and parameters, sorted, separated by spaces."""
    elements: Mapped[int] = mapped_column(BigInteger)
    """Elements of its inputs: the size by which problems are compared."""
    device: Mapped[str] = mapped_column(Text)


class RunRow(TableBase):
    __tablename__ = "runs"
    __table_args__ = (
        Index("ix_runs_id", "id", unique=True),
        Index("ix_runs_started_us_seq", "started_us", "seq"),
        Index("ix_runs_problem_id", "problem_id"),
        Index("ix_runs_policy_started_us", "policy", "started_us"),
    )

    seq: Mapped[int] = mapped_column(WHOLE, primary_key=True)
    """Short key for the tables that refer to it."""
    id: Mapped[str] = mapped_column(KEY_TEXT)
    digest: Mapped[bytes] = mapped_column(Packed)
    problem_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(ViewRow.id))
    policy: Mapped[str] = mapped_column(KEY_TEXT)
    started_us: Mapped[int] = mapped_column(BigInteger)
    forked_from: Mapped[str | None] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(Packed)

    # These columns follow from the records.
    attempts: Mapped[int] = mapped_column(default=0)
    turns: Mapped[int] = mapped_column(default=0)
    judged: Mapped[int] = mapped_column(default=0)
    passed: Mapped[int] = mapped_column(default=0)
    tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    last_us: Mapped[int] = mapped_column(BigInteger)
    """Time of the newest record."""
    ended_us: Mapped[int | None] = mapped_column(BigInteger)
    stop_reason: Mapped[str | None] = mapped_column(Text)
    best: Mapped[str | None] = mapped_column(Text)


class AttemptRow(TableBase):
    """An attempt without its answer, which is in `answers`."""

    __tablename__ = "attempts"
    __table_args__ = (
        Index("ix_attempts_run_seq_turn_answer", "run_seq", "turn", "answer", unique=True),
        Index("ix_attempts_source_sha", "source_sha"),
        Index(
            "ix_attempts_problem_id_merit_id",
            "problem_id",
            "merit",
            "id",
            sqlite_where=text("merit IS NOT NULL"),
            postgresql_where=text("merit IS NOT NULL"),
        ),
        Index(
            "ix_attempts_run_seq_merit",
            "run_seq",
            "merit",
            sqlite_where=text("merit IS NOT NULL"),
            postgresql_where=text("merit IS NOT NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(WHOLE, primary_key=True)
    run_seq: Mapped[int] = mapped_column(WHOLE, ForeignKey(RunRow.seq))
    turn: Mapped[int]
    answer: Mapped[int]
    """`Attempt.index`, a word that has another meaning in databases."""
    problem_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(ViewRow.id))
    """Problem of its observation."""
    digest: Mapped[bytes] = mapped_column(Packed)
    """Digest of the content: tells an equal attempt from another one under the same key."""
    parent: Mapped[str | None] = mapped_column(Text)
    policy: Mapped[str] = mapped_column(Text)
    policy_version: Mapped[str] = mapped_column(Text)
    created_us: Mapped[int] = mapped_column(BigInteger)
    source_sha: Mapped[bytes | None] = mapped_column(Packed)
    tokens: Mapped[int] = mapped_column(default=0)
    techniques: Mapped[str] = mapped_column(Text)
    """Techniques that the plan names; see `techniques.py`."""

    # These columns follow from its gradings; the newest with a verdict counts.
    graded_us: Mapped[int | None] = mapped_column(BigInteger)
    status: Mapped[str | None] = mapped_column(String(24))
    finding: Mapped[str | None] = mapped_column(String(24))
    failure_key: Mapped[int | None] = mapped_column(BigInteger)
    """The failure it is counted under; see `Failure.key`."""
    speedup: Mapped[float | None]
    speedup_low: Mapped[float | None]
    speedup_high: Mapped[float | None]
    device: Mapped[str | None] = mapped_column(Text)
    """Device of the verdict."""
    merit: Mapped[float | None]
    """Preselects candidates that passed; see `Standing.merit` in `tools/ranking.py`."""
    unmeasured: Mapped[str | None] = mapped_column(Text)
    """Why there is no verdict, if evaluating was tried."""


class AnswerRow(TableBase):
    """A completion and the observation it answers, packed as in `packing.py`."""

    __tablename__ = "answers"

    attempt_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(AttemptRow.id), primary_key=True, autoincrement=False)
    observation_sha: Mapped[bytes] = mapped_column(Packed)
    conversation_sha: Mapped[bytes | None] = mapped_column(Packed)
    prompt_ids_sha: Mapped[bytes | None] = mapped_column(Packed)
    body: Mapped[bytes] = mapped_column(Packed)
    token_ids: Mapped[bytes | None] = mapped_column(Packed)
    log_probabilities: Mapped[bytes | None] = mapped_column(Packed)
    mask: Mapped[bytes | None] = mapped_column(Packed)


class GradingRow(TableBase):
    __tablename__ = "gradings"
    __table_args__ = (Index("ix_gradings_attempt_id_digest", "attempt_id", "digest", unique=True),)

    id: Mapped[int] = mapped_column(WHOLE, primary_key=True)
    attempt_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(AttemptRow.id))
    digest: Mapped[bytes] = mapped_column(Packed)
    graded_us: Mapped[int] = mapped_column(BigInteger)
    grader: Mapped[str] = mapped_column(Text)
    status: Mapped[str | None] = mapped_column(String(24))
    """None if it could not be measured."""
    body: Mapped[bytes] = mapped_column(Packed)


class End(TableBase):
    """The end of a run; a resumed run ends again, and the last end counts."""

    __tablename__ = "ends"
    __table_args__ = (Index("ix_ends_run_seq_digest", "run_seq", "digest", unique=True),)

    id: Mapped[int] = mapped_column(WHOLE, primary_key=True)
    run_seq: Mapped[int] = mapped_column(WHOLE, ForeignKey(RunRow.seq))
    digest: Mapped[bytes] = mapped_column(Packed)
    body: Mapped[bytes] = mapped_column(Packed)


class EventRow(TableBase):
    __tablename__ = "events"
    __table_args__ = (Index("ix_events_run_seq_digest", "run_seq", "digest", unique=True),)

    id: Mapped[int] = mapped_column(WHOLE, primary_key=True)
    run_seq: Mapped[int] = mapped_column(WHOLE, ForeignKey(RunRow.seq))
    digest: Mapped[bytes] = mapped_column(Packed)
    kind: Mapped[str] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(Packed)


class Failure(TableBase):
    """Number of attempts at a problem that failed in the same way, by their newest verdicts."""

    __tablename__ = "failures"
    __table_args__ = (Index("ix_failures_problem_id_occurrences_key", "problem_id", "occurrences", "key"),)

    problem_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(ViewRow.id), primary_key=True, autoincrement=False)
    key: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """Hash of the finding and of the message without its figures."""
    finding: Mapped[str] = mapped_column(String(24))
    message: Mapped[str] = mapped_column(Text)
    """Condensed message of the newest."""
    occurrences: Mapped[int]
    attempt_id: Mapped[int] = mapped_column(WHOLE)
    """The newest such attempt."""


class Technique(TableBase):
    """Measured results of a technique for a problem, each attempt against its parent."""

    __tablename__ = "techniques"
    __table_args__ = (Index("ix_techniques_problem_id_standing_name", "problem_id", "standing", "name"),)

    problem_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(ViewRow.id), primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(KEY_TEXT, primary_key=True)
    wins: Mapped[int]
    losses: Mapped[int]
    standing: Mapped[float]
    """Wins minus losses, weighted so that newer trials count more."""
    attempt_id: Mapped[int] = mapped_column(WHOLE)
    """The newest measured attempt."""
    device: Mapped[str] = mapped_column(Text)


SCHEMA_TABLE = "schema_version"
"""Alembic's own table, which holds the revision."""
REVISION = "0003"
"""The newest migration, which a store needs before this program uses it."""

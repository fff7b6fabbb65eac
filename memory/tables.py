"""The tables of the store, the same on SQLite and PostgreSQL.

Three kinds. *Records* are only ever added: `blobs`, `answers`, `gradings`, `ends`, `events`. *Headers* (`problems`,
`runs`, `attempts`) are added once and carry, beside what identifies them, what lists and recall need fast; the columns
told apart below follow from the records and are brought up to date in the transaction that adds these. *Knowledge*
(`structures`, `structure_operators`, `failures`, `techniques`) is counted from the records as they come.

Texts that many records share (sources, messages, problem views, observations) are in `blobs`, once each, under the
SHA-256 of their bytes; a column ending in `_sha` names one. Columns ending in `_us` are microseconds since 1970, UTC.
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
"""SQLite numbers rows by itself only where the type says INTEGER."""
KEY_TEXT = Text().with_variant(String(collation="C"), "postgresql")
"""Compared byte by byte everywhere, so that a prefix is a range of the index."""


class Packed(LargeBinary):
    """Bytes as they are: the drivers take and give them so, and to wrap each one takes longer than to insert it."""

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


class Base(DeclarativeBase):
    """Of every table."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map: ClassVar[dict[Any, Any]] = {float: Double()}


class Blob(Base):
    """Bytes that several records share."""

    __tablename__ = "blobs"

    sha: Mapped[bytes] = mapped_column(Packed, primary_key=True)
    data: Mapped[bytes] = mapped_column(Packed)
    """As `packing.squeeze` leaves them; `sha` is of what was put in."""


class Structure(Base):
    """What problems of the same operator graph have in common."""

    __tablename__ = "structures"
    __table_args__ = (Index("ix_structures_fingerprint", "fingerprint", unique=True),)

    id: Mapped[int] = mapped_column(WHOLE, primary_key=True)
    fingerprint: Mapped[str] = mapped_column(KEY_TEXT)
    operators: Mapped[int]
    """Calls that are more than a view, repetitions counted."""


class StructureOperator(Base):
    """How often an operator occurs in a structure."""

    __tablename__ = "structure_operators"
    __table_args__ = (Index("ix_structure_operators_operator", "operator", "structure_id", "occurrences"),)

    structure_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(Structure.id), primary_key=True)
    operator: Mapped[str] = mapped_column(KEY_TEXT, primary_key=True)
    occurrences: Mapped[int]


class Problem(Base):
    """A problem as authors saw it. One problem has several rows where it was shown on several devices."""

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
    """None where there is only a verifier."""
    signature: Mapped[str] = mapped_column(KEY_TEXT)
    dtypes: Mapped[str] = mapped_column(Text)
    """Of its inputs and parameters, sorted, with spaces between."""
    elements: Mapped[int] = mapped_column(BigInteger)
    """Of its inputs: the size by which near problems are told from far ones."""
    device: Mapped[str] = mapped_column(Text)


class Run(Base):
    """A request of a person."""

    __tablename__ = "runs"
    __table_args__ = (
        Index("ix_runs_id", "id", unique=True),
        Index("ix_runs_started_us_seq", "started_us", "seq"),
        Index("ix_runs_problem_id", "problem_id"),
        Index("ix_runs_policy_started_us", "policy", "started_us"),
    )

    seq: Mapped[int] = mapped_column(WHOLE, primary_key=True)
    """Short, for the tables that refer to it."""
    id: Mapped[str] = mapped_column(KEY_TEXT)
    digest: Mapped[bytes] = mapped_column(Packed)
    problem_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(Problem.id))
    policy: Mapped[str] = mapped_column(KEY_TEXT)
    started_us: Mapped[int] = mapped_column(BigInteger)
    forked_from: Mapped[str | None] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(Packed)

    # What follows from the records.
    attempts: Mapped[int] = mapped_column(default=0)
    turns: Mapped[int] = mapped_column(default=0)
    judged: Mapped[int] = mapped_column(default=0)
    passed: Mapped[int] = mapped_column(default=0)
    tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    last_us: Mapped[int] = mapped_column(BigInteger)
    """When something was last added."""
    ended_us: Mapped[int | None] = mapped_column(BigInteger)
    stop_reason: Mapped[str | None] = mapped_column(Text)
    best: Mapped[str | None] = mapped_column(Text)


class Attempt(Base):
    """An attempt, without what was said: that is its answer."""

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
    run_seq: Mapped[int] = mapped_column(WHOLE, ForeignKey(Run.seq))
    turn: Mapped[int]
    answer: Mapped[int]
    """`Attempt.index`; that word means something else to a database."""
    problem_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(Problem.id))
    """Of its observation."""
    digest: Mapped[bytes] = mapped_column(Packed)
    """Of all that was said: tells an equal attempt from another under the same key."""
    parent: Mapped[str | None] = mapped_column(Text)
    policy: Mapped[str] = mapped_column(Text)
    policy_version: Mapped[str] = mapped_column(Text)
    created_us: Mapped[int] = mapped_column(BigInteger)
    source_sha: Mapped[bytes | None] = mapped_column(Packed)
    tokens: Mapped[int] = mapped_column(default=0)
    techniques: Mapped[str] = mapped_column(Text)
    """What the plan speaks of, in the words of `techniques.py`."""

    # What follows from its gradings; the newest that reached a verdict counts.
    graded_us: Mapped[int | None] = mapped_column(BigInteger)
    status: Mapped[str | None] = mapped_column(String(24))
    finding: Mapped[str | None] = mapped_column(String(24))
    failure_key: Mapped[int | None] = mapped_column(BigInteger)
    """Which failure it counts among; see `Failure.key`."""
    speedup: Mapped[float | None]
    speedup_low: Mapped[float | None]
    speedup_high: Mapped[float | None]
    device: Mapped[str | None] = mapped_column(Text)
    """Where the verdict was reached."""
    merit: Mapped[float | None]
    """The order of what passed: by speed-up that is sure, then by traffic; see `verdicts.merit_of`."""
    unmeasured: Mapped[str | None] = mapped_column(Text)
    """Why there is no verdict, where it was tried."""


class Answer(Base):
    """What was sampled, and what it was shown; packed as in `packing.py`."""

    __tablename__ = "answers"

    attempt_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(Attempt.id), primary_key=True, autoincrement=False)
    observation_sha: Mapped[bytes] = mapped_column(Packed)
    conversation_sha: Mapped[bytes | None] = mapped_column(Packed)
    prompt_ids_sha: Mapped[bytes | None] = mapped_column(Packed)
    body: Mapped[bytes] = mapped_column(Packed)
    token_ids: Mapped[bytes | None] = mapped_column(Packed)
    log_probabilities: Mapped[bytes | None] = mapped_column(Packed)
    mask: Mapped[bytes | None] = mapped_column(Packed)


class Grading(Base):
    """What became of an attempt, once."""

    __tablename__ = "gradings"
    __table_args__ = (Index("ix_gradings_attempt_id_digest", "attempt_id", "digest", unique=True),)

    id: Mapped[int] = mapped_column(WHOLE, primary_key=True)
    attempt_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(Attempt.id))
    digest: Mapped[bytes] = mapped_column(Packed)
    graded_us: Mapped[int] = mapped_column(BigInteger)
    grader: Mapped[str] = mapped_column(Text)
    status: Mapped[str | None] = mapped_column(String(24))
    """None where it could not be measured."""
    body: Mapped[bytes] = mapped_column(Packed)


class End(Base):
    """How a run ended; again, if it went on and ended anew. The last one counts."""

    __tablename__ = "ends"
    __table_args__ = (Index("ix_ends_run_seq_digest", "run_seq", "digest", unique=True),)

    id: Mapped[int] = mapped_column(WHOLE, primary_key=True)
    run_seq: Mapped[int] = mapped_column(WHOLE, ForeignKey(Run.seq))
    digest: Mapped[bytes] = mapped_column(Packed)
    body: Mapped[bytes] = mapped_column(Packed)


class Event(Base):
    """Something that happened in a run."""

    __tablename__ = "events"
    __table_args__ = (Index("ix_events_run_seq_digest", "run_seq", "digest", unique=True),)

    id: Mapped[int] = mapped_column(WHOLE, primary_key=True)
    run_seq: Mapped[int] = mapped_column(WHOLE, ForeignKey(Run.seq))
    digest: Mapped[bytes] = mapped_column(Packed)
    kind: Mapped[str] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(Packed)


class Failure(Base):
    """How often attempts at a problem failed in the same way, by their newest verdicts."""

    __tablename__ = "failures"
    __table_args__ = (Index("ix_failures_problem_id_occurrences_key", "problem_id", "occurrences", "key"),)

    problem_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(Problem.id), primary_key=True, autoincrement=False)
    key: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """Hash of the finding and the message without its figures."""
    finding: Mapped[str] = mapped_column(String(24))
    message: Mapped[str] = mapped_column(Text)
    """Of the newest, condensed."""
    occurrences: Mapped[int]
    attempt_id: Mapped[int] = mapped_column(WHOLE)
    """The newest."""


class Technique(Base):
    """What became of attempts at a problem that tried something, against their parents, as measured."""

    __tablename__ = "techniques"
    __table_args__ = (Index("ix_techniques_problem_id_standing_name", "problem_id", "standing", "name"),)

    problem_id: Mapped[int] = mapped_column(WHOLE, ForeignKey(Problem.id), primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(KEY_TEXT, primary_key=True)
    wins: Mapped[int]
    losses: Mapped[int]
    standing: Mapped[float]
    """Wins minus losses, where each new one makes the older ones count less."""
    attempt_id: Mapped[int] = mapped_column(WHOLE)
    """The newest that was measured."""
    device: Mapped[str] = mapped_column(Text)


SCHEMA_TABLE = "schema_version"
"""Where Alembic keeps the revision; it makes this table itself."""
REVISION = "0001"
"""The newest migration; what a store has to be at before this program uses it."""

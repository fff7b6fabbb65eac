"""The first tables. `memory/sql/tables.py` describes the tables as they are today."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
KEY_TEXT = sa.Text().with_variant(sa.String(collation="C"), "postgresql")
WHERE_MERIT = sa.text("merit IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "blobs",
        sa.Column("sha", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha", name="pk_blobs"),
    )
    op.create_table(
        "structures",
        sa.Column("id", WHOLE, nullable=False),
        sa.Column("fingerprint", KEY_TEXT, nullable=False),
        sa.Column("operators", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_structures"),
    )
    op.create_index("ix_structures_fingerprint", "structures", ["fingerprint"], unique=True)
    op.create_table(
        "problems",
        sa.Column("id", WHOLE, nullable=False),
        sa.Column("view_sha", sa.LargeBinary(), nullable=False),
        sa.Column("digest", KEY_TEXT, nullable=False),
        sa.Column("name", KEY_TEXT, nullable=False),
        sa.Column("structure_id", WHOLE, nullable=True),
        sa.Column("signature", KEY_TEXT, nullable=False),
        sa.Column("dtypes", sa.Text(), nullable=False),
        sa.Column("elements", sa.BigInteger(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["structure_id"], ["structures.id"], name="fk_problems_structure_id"),
        sa.PrimaryKeyConstraint("id", name="pk_problems"),
    )
    op.create_index("ix_problems_digest", "problems", ["digest"], unique=False)
    op.create_index("ix_problems_name", "problems", ["name"], unique=False)
    op.create_index("ix_problems_structure_id", "problems", ["structure_id"], unique=False)
    op.create_index("ix_problems_view_sha", "problems", ["view_sha"], unique=True)
    op.create_table(
        "structure_operators",
        sa.Column("structure_id", WHOLE, nullable=False),
        sa.Column("operator", KEY_TEXT, nullable=False),
        sa.Column("occurrences", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["structure_id"], ["structures.id"], name="fk_structure_operators_structure_id"),
        sa.PrimaryKeyConstraint("structure_id", "operator", name="pk_structure_operators"),
    )
    op.create_index(
        "ix_structure_operators_operator",
        "structure_operators",
        ["operator", "structure_id", "occurrences"],
        unique=False,
    )
    op.create_table(
        "failures",
        sa.Column("problem_id", WHOLE, autoincrement=False, nullable=False),
        sa.Column("key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("finding", sa.String(length=24), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("occurrences", sa.Integer(), nullable=False),
        sa.Column("attempt_id", WHOLE, nullable=False),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.id"], name="fk_failures_problem_id"),
        sa.PrimaryKeyConstraint("problem_id", "key", name="pk_failures"),
    )
    op.create_index(
        "ix_failures_problem_id_occurrences_key", "failures", ["problem_id", "occurrences", "key"], unique=False
    )
    op.create_table(
        "runs",
        sa.Column("seq", WHOLE, nullable=False),
        sa.Column("id", KEY_TEXT, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("problem_id", WHOLE, nullable=False),
        sa.Column("policy", KEY_TEXT, nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("forked_from", sa.Text(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("judged", sa.Integer(), nullable=False),
        sa.Column("passed", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("last_us", sa.BigInteger(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("best", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.id"], name="fk_runs_problem_id"),
        sa.PrimaryKeyConstraint("seq", name="pk_runs"),
    )
    op.create_index("ix_runs_id", "runs", ["id"], unique=True)
    op.create_index("ix_runs_policy_started_us", "runs", ["policy", "started_us"], unique=False)
    op.create_index("ix_runs_problem_id", "runs", ["problem_id"], unique=False)
    op.create_index("ix_runs_started_us_seq", "runs", ["started_us", "seq"], unique=False)
    op.create_table(
        "techniques",
        sa.Column("problem_id", WHOLE, autoincrement=False, nullable=False),
        sa.Column("name", KEY_TEXT, nullable=False),
        sa.Column("wins", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("standing", sa.Double(), nullable=False),
        sa.Column("attempt_id", WHOLE, nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.id"], name="fk_techniques_problem_id"),
        sa.PrimaryKeyConstraint("problem_id", "name", name="pk_techniques"),
    )
    op.create_index(
        "ix_techniques_problem_id_standing_name", "techniques", ["problem_id", "standing", "name"], unique=False
    )
    op.create_table(
        "attempts",
        sa.Column("id", WHOLE, nullable=False),
        sa.Column("run_seq", WHOLE, nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("answer", sa.Integer(), nullable=False),
        sa.Column("problem_id", WHOLE, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("policy_version", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("source_sha", sa.LargeBinary(), nullable=True),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("techniques", sa.Text(), nullable=False),
        sa.Column("graded_us", sa.BigInteger(), nullable=True),
        sa.Column("status", sa.String(length=24), nullable=True),
        sa.Column("finding", sa.String(length=24), nullable=True),
        sa.Column("failure_key", sa.BigInteger(), nullable=True),
        sa.Column("speedup", sa.Double(), nullable=True),
        sa.Column("speedup_low", sa.Double(), nullable=True),
        sa.Column("speedup_high", sa.Double(), nullable=True),
        sa.Column("device", sa.Text(), nullable=True),
        sa.Column("merit", sa.Double(), nullable=True),
        sa.Column("unmeasured", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.id"], name="fk_attempts_problem_id"),
        sa.ForeignKeyConstraint(["run_seq"], ["runs.seq"], name="fk_attempts_run_seq"),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
    )
    op.create_index(
        "ix_attempts_problem_id_merit_id",
        "attempts",
        ["problem_id", "merit", "id"],
        unique=False,
        sqlite_where=WHERE_MERIT,
        postgresql_where=WHERE_MERIT,
    )
    op.create_index(
        "ix_attempts_run_seq_merit",
        "attempts",
        ["run_seq", "merit"],
        unique=False,
        sqlite_where=WHERE_MERIT,
        postgresql_where=WHERE_MERIT,
    )
    op.create_index("ix_attempts_run_seq_turn_answer", "attempts", ["run_seq", "turn", "answer"], unique=True)
    op.create_index("ix_attempts_source_sha", "attempts", ["source_sha"], unique=False)
    op.create_table(
        "ends",
        sa.Column("id", WHOLE, nullable=False),
        sa.Column("run_seq", WHOLE, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_seq"], ["runs.seq"], name="fk_ends_run_seq"),
        sa.PrimaryKeyConstraint("id", name="pk_ends"),
    )
    op.create_index("ix_ends_run_seq_digest", "ends", ["run_seq", "digest"], unique=True)
    op.create_table(
        "events",
        sa.Column("id", WHOLE, nullable=False),
        sa.Column("run_seq", WHOLE, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_seq"], ["runs.seq"], name="fk_events_run_seq"),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
    )
    op.create_index("ix_events_run_seq_digest", "events", ["run_seq", "digest"], unique=True)
    op.create_table(
        "answers",
        sa.Column("attempt_id", WHOLE, autoincrement=False, nullable=False),
        sa.Column("observation_sha", sa.LargeBinary(), nullable=False),
        sa.Column("conversation_sha", sa.LargeBinary(), nullable=True),
        sa.Column("prompt_ids_sha", sa.LargeBinary(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("token_ids", sa.LargeBinary(), nullable=True),
        sa.Column("log_probabilities", sa.LargeBinary(), nullable=True),
        sa.Column("mask", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_answers_attempt_id"),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_answers"),
    )
    op.create_table(
        "gradings",
        sa.Column("id", WHOLE, nullable=False),
        sa.Column("attempt_id", WHOLE, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("graded_us", sa.BigInteger(), nullable=False),
        sa.Column("grader", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=24), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_gradings_attempt_id"),
        sa.PrimaryKeyConstraint("id", name="pk_gradings"),
    )
    op.create_index("ix_gradings_attempt_id_digest", "gradings", ["attempt_id", "digest"], unique=True)

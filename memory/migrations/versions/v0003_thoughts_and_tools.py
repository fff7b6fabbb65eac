"""Completions keep thoughts apart from the answer, conversations hold tool calls, observations name a task.

These facts are stored in packed bodies and blobs, so no table changes; a body without them is an answer without
thoughts. The new revision keeps older programs, which would drop the facts when they copy runs, from opening the store.
"""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Change nothing: see above."""

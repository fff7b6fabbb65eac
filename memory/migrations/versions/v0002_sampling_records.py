"""Completions record how they were drawn: settings, seed, vocabulary, adapter, prompt, kind of log-probabilities.

These facts are in the packed bodies of `answers`, so no table changes: in a body without them they are unknown. The new
revision keeps older programs, which would drop the facts when they copy runs, from opening the store.
"""

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Change nothing: see above."""

"""Opens the store of a command and finds runs in it: `--store`, otherwise `TRITON_AGENT_STORE`, otherwise the user's
own.
"""

from __future__ import annotations

import shlex

from sqlalchemy import URL

from triton_agent.memory.errors import NotInStore
from triton_agent.memory.listing import AttemptFilter, RunFilter
from triton_agent.memory.sql.database import locate
from triton_agent.memory.store import Store
from triton_agent.runs.history.records import History, StoredAttempt
from triton_agent.tools.errors import UsageError

NEWEST = "last"


def open_store(where: str | None, *, read_only: bool = True) -> Store:
    """Open the store, as a context manager."""
    try:
        return Store.open(where, read_only=read_only)
    except NotInStore as error:
        remedy = "`triton-agent optimize` makes the first run; runs elsewhere: --store FILE, or TRITON_AGENT_STORE"
        raise NotInStore(error.what, where=error.where, remedy=remedy) from None


def naming(store: Store) -> str:
    """Return the option that makes another command open this store; empty for the default store."""
    default = locate(None)
    shown = default.render_as_string(hide_password=True) if isinstance(default, URL) else str(default)
    return "" if store.where == shown else f" --store {shlex.quote(store.where)}"


def run_id(store: Store, name: str) -> str:
    """Return the id of a run given by id, the beginning of one, or `last`."""
    if name != NEWEST:
        return store.find_run(name)
    newest = store.runs(RunFilter(limit=1))
    if not newest:
        raise NotInStore("there are no runs yet", where=store.where)
    return newest[0].id


def load_history(store: Store, name: str) -> History:
    """Load a run with all attempts and gradings."""
    run = store.run(run_id(store, name))
    found = store.iterate(AttemptFilter(runs=(run.id,)))
    attempts = [StoredAttempt(attempt=attempt, gradings=tuple(gradings)) for attempt, gradings in found]
    attempts.sort(key=lambda item: (item.attempt.turn, item.attempt.index))
    return History(run=run, attempts=tuple(attempts), end=store.end(run.id))


def load_attempt(store: Store, name: str) -> StoredAttempt:
    """Load an attempt by `RUN/2.1` or `RUN/best`, where RUN may be the beginning of an id, or `last`."""
    run, slash, place = name.rpartition("/")
    if not slash:
        raise UsageError(f"{name!r} names no attempt", remedy="write RUN/TURN.ANSWER, as in last/2.1, or RUN/best")
    run = run_id(store, run)
    if place == "best":
        return load_history(store, run).attempt("best")
    key = f"{run}/{place}"
    return StoredAttempt(attempt=store.attempt(key), gradings=tuple(store.gradings(key)))

"""Opens LangGraph's checkpoints, beside the store and in a database of the same kind. The store remains the truth."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from triton_agent.memory.store import Store
from triton_agent.tools.errors import UsageError

SUFFIX = "-checkpoints"
"""Appended to the name of the store's file."""
DO_NOT_WAIT_FOR_THE_DISK = "PRAGMA synchronous=NORMAL"
"""A kill of the process loses nothing. A power cut may lose the last checkpoints; the store has the finished attempts.
"""


@contextlib.asynccontextmanager
async def checkpointer(store: Store) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """Open the checkpoints of a store's runs."""
    file = store.database.path
    if file is not None:
        async with AsyncSqliteSaver.from_conn_string(f"{file}{SUFFIX}") as saver:
            await saver.setup()
            await saver.conn.execute(DO_NOT_WAIT_FOR_THE_DISK)
            yield saver
        return
    try:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    except ImportError as error:
        raise UsageError(
            "a store on PostgreSQL needs more packages", remedy="pip install 'triton-agent[postgres]'"
        ) from error
    async with AsyncPostgresSaver.from_conn_string(store.database.url_for_drivers()) as saver:
        await saver.setup()
        yield saver

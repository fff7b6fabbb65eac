"""Runs a coroutine from synchronous code, also where an event loop is running, as in a notebook."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def waited_for(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the coroutine's result. Inside a running loop it runs in another thread's loop; Ctrl-C cancels it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    begun: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = concurrent.futures.Future()

    async def told() -> Result:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result((asyncio.get_running_loop(), task))
        return await work

    with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="triton-agent") as pool:
        waiting = pool.submit(lambda: asyncio.run(told()))
        try:
            return waiting.result()
        except KeyboardInterrupt:
            loop, task = begun.result()
            loop.call_soon_threadsafe(task.cancel)
            raise

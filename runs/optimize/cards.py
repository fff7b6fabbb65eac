"""Opens an evaluator of one problem on each of several cards, in parallel, and closes them together.

Each evaluator has its own processes, measured ceilings and compiled baselines. A card whose instruments fail is left
out. An error in the problem or the request, or a failure on every card, is raised.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from triton_agent.tools.errors import InstrumentError

Opened = TypeVar("Opened")


@contextlib.asynccontextmanager
async def opened_on(
    cards: Sequence[str],
    make: Callable[[str], AbstractContextManager[Opened]],
    say: Callable[[str], None],
) -> AsyncIterator[list[Opened]]:
    """Yield the results of `make` for the cards, in their order. Raise the first error if every card failed."""
    threads = ThreadPoolExecutor(len(cards), thread_name_prefix="card")
    futures = [threads.submit(make, card) for card in cards]
    threads.shutdown(wait=False)
    try:
        outcomes = await asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)
        with contextlib.ExitStack() as stack:
            failed = [error for error in outcomes if isinstance(error, BaseException)]
            fatal = [error for error in failed if len(failed) == len(cards) or not isinstance(error, InstrumentError)]
            if fatal:
                raise fatal[0]
            for card, error in zip(cards, outcomes):
                if isinstance(error, InstrumentError):
                    say(f"{card} is left out: {error.what}")
            members = [stack.enter_context(made) for made in outcomes if not isinstance(made, BaseException)]
            futures = []
            yield members
    finally:
        for future in futures:  # started, but not used by anybody
            future.add_done_callback(_close)


def _close(future: Future[AbstractContextManager[Opened]]) -> None:
    if not future.cancelled() and future.exception() is None:
        with future.result():
            pass

"""Evaluators on several cards: begun side by side, closed together; a card that fails at once is done without.

The evaluators of one problem, each with processes, ceilings and compiled baselines of its own. What is wrong with the
problem or the request ends all of it; what an instrument fails at ends only what is on its card.
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
    """What `make` gives for each card, in their order. Raises the first one's error where every one failed."""
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
                    say(f"{card} is done without: {error.what}")
            members = [stack.enter_context(made) for made in outcomes if not isinstance(made, BaseException)]
            futures = []
            yield members
    finally:
        for future in futures:  # begun, and wanted by nobody any more
            future.add_done_callback(_close)


def _close(future: Future[AbstractContextManager[Opened]]) -> None:
    if not future.cancelled() and future.exception() is None:
        with future.result():
            pass

"""Evaluators on several cards are opened in parallel; a failure on one card ends the others only if it has to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType

import pytest

from triton_agent.runs.optimize.cards import opened_on
from triton_agent.tools.errors import InstrumentError, ProblemError

CARDS = ("GPU-0", "GPU-1", "GPU-2")


class Made:
    """Something that stays open until it is closed."""

    def __init__(self, card: str, opened: list[str], closed: list[str]) -> None:
        self.card = card
        self._closed = closed
        opened.append(card)

    def __enter__(self) -> Made:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.append(self.card)


class Cards:
    """Opens things on cards, and records what happened to them."""

    def __init__(self, errors: dict[str, Exception] | None = None) -> None:
        self.errors = errors or {}
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.said: list[str] = []

    def make(self, card: str) -> Made:
        if card in self.errors:
            raise self.errors[card]
        return Made(card, self.opened, self.closed)

    def run(self, make: Callable[[str], Made] | None = None) -> list[str]:
        async def go() -> list[str]:
            async with opened_on(CARDS, make or self.make, self.said.append) as found:
                assert self.closed == []
                return [made.card for made in found]

        return asyncio.run(asyncio.wait_for(go(), 20))


def test_all_are_begun_at_the_same_time_and_closed() -> None:
    cards, meeting = Cards(), threading.Barrier(len(CARDS))

    def make(card: str) -> Made:
        meeting.wait(10)
        return cards.make(card)

    assert cards.run(make) == list(CARDS)
    assert sorted(cards.closed) == sorted(CARDS)


def test_a_card_that_fails_at_once_is_done_without() -> None:
    cards = Cards({"GPU-1": InstrumentError("the GPU is not quiet")})
    assert cards.run() == ["GPU-0", "GPU-2"]
    assert cards.said == ["GPU-1 is left out: the GPU is not quiet"]


def test_where_every_card_fails_the_first_error_is_raised() -> None:
    cards = Cards({card: InstrumentError(f"{card} is busy") for card in CARDS})
    with pytest.raises(InstrumentError, match="GPU-0 is busy"):
        cards.run()


def test_a_broken_problem_ends_all_and_leaves_nothing_open() -> None:
    cards = Cards({"GPU-1": ProblemError("no class Model")})
    with pytest.raises(ProblemError, match="no class Model"):
        cards.run()
    assert sorted(cards.opened) == sorted(cards.closed)


def test_interrupted_while_they_begin_nothing_stays_open() -> None:
    cards, begun, release = Cards(), threading.Semaphore(0), threading.Event()

    def make(card: str) -> Made:
        begun.release()
        release.wait(10)
        return cards.make(card)

    async def go() -> None:
        async def opening() -> None:
            async with opened_on(CARDS, make, cards.said.append):
                raise AssertionError("they cannot be open yet")

        task = asyncio.create_task(opening())
        for _ in CARDS:
            await asyncio.to_thread(begun.acquire)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cards.opened == []
        release.set()
        while len(cards.closed) < len(CARDS):
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(go(), 20))
    assert sorted(cards.closed) == sorted(CARDS)

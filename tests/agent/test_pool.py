"""A pool spreads work over several members, retries failed work on another, and drops a member that keeps failing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from triton_agent.agent.pool import Pool


class Card:
    """A pool member that returns its name, or fails on the pieces of work named by `broken`."""

    def __init__(self, name: str, broken: Callable[[int], bool] = lambda piece: False) -> None:
        self.name = name
        self.broken = broken
        self.given: list[int] = []
        self.busy = self.busiest = 0

    async def work(self, piece: int) -> str:
        self.given.append(piece)
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        await asyncio.sleep(0)
        self.busy -= 1
        return "failed" if self.broken(piece) else self.name


def always(piece: int) -> bool:
    return True


def trouble(result: str) -> str:
    return "it broke" if result == "failed" else ""


def run(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(work(), 10))


async def tried(pool: Pool[Card], piece: int, at_once: int = 4, **more: Any) -> str:
    return await pool.tried(lambda card: card.work(piece), trouble, at_once=at_once, **more)


def test_work_is_spread_evenly_one_by_one_and_side_by_side() -> None:
    cards = [Card("a"), Card("b"), Card("c")]

    async def go() -> None:
        pool = Pool(cards)
        for piece in range(6):
            await tried(pool, piece)
        await asyncio.gather(*(tried(pool, piece, at_once=6) for piece in range(6, 24)))

    run(go)
    assert [len(card.given) for card in cards] == [8, 8, 8]
    assert sorted(piece for card in cards for piece in card.given) == list(range(24))
    assert all(card.busiest <= 2 for card in cards)


def test_what_one_fails_at_another_does() -> None:
    cards = [Card("a", always), Card("b")]

    async def go() -> str:
        return await tried(Pool(cards), 1)

    assert run(go) == "b"
    assert [card.given for card in cards] == [[1], [1]]


def test_one_that_keeps_failing_is_left_out_and_told_of_once() -> None:
    cards, told = [Card("a", always), Card("b"), Card("c")], []

    async def left_out(card: Card, what: str) -> None:
        told.append((card.name, what))

    async def go() -> list[str]:
        pool = Pool(cards)
        results = [await tried(pool, piece, left_out=left_out) for piece in range(12)]
        assert [card.name for card in pool.members] == ["b", "c"]
        return results

    assert set(run(go)) == {"b", "c"}
    assert len(cards[0].given) == 2
    assert told == [("a", "it broke")]


def test_one_accident_that_spoils_much_at_once_is_one_accident() -> None:
    accident = set(range(8))
    cards = [Card("a", lambda piece: piece in accident), Card("b")]

    async def go() -> None:
        pool = Pool(cards)
        await asyncio.gather(*(tried(pool, piece, at_once=16) for piece in range(16)))
        assert len(pool.members) == 2

    run(go)


def test_what_fails_everywhere_is_held_against_nobody() -> None:
    cards = [Card("a", always), Card("b", always)]

    async def go() -> list[str]:
        pool = Pool(cards)
        results = [await tried(pool, piece) for piece in range(6)]
        assert len(pool.members) == 2
        return results

    assert set(run(go)) == {"failed"}


def test_success_in_between_forgives(accidents: int = 6) -> None:
    cards = [Card("a", lambda piece: piece % 4 == 0), Card("b")]

    async def go() -> None:
        pool = Pool(cards)
        for piece in range(4 * accidents):  # the first card gets every second piece
            await tried(pool, piece)
        assert len(pool.members) == 2

    run(go)


def test_the_last_one_stays_and_tries_twice_only_where_that_is_wanted() -> None:
    card = Card("a", always)

    async def go() -> None:
        pool = Pool([card])
        for piece in range(3):
            await tried(pool, piece)
        assert card.given == [0, 1, 2]
        assert await tried(pool, 3, again_alone=True) == "failed"
        assert card.given == [0, 1, 2, 3, 3]
        assert pool.members == [card]

    run(go)


def test_a_place_is_given_back_when_work_raises() -> None:
    async def raises(card: Card) -> str:
        raise ValueError("a bug")

    async def go() -> str:
        pool = Pool([Card("a")])
        with pytest.raises(ValueError, match="a bug"):
            await pool.tried(raises, trouble, at_once=1)
        return await tried(pool, 1, at_once=1)

    assert run(go) == "a"


def test_a_pool_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a member"):
        Pool([])

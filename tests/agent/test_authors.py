"""Runs whose policies fail, hang, or are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.agent.tables import Table, kernel, new_run, passed, script

from triton_agent.agent import authors
from triton_agent.agent.ledger import Ledger
from triton_agent.agent.loop import Loop
from triton_agent.agent.settings import LoopSettings, StopReason
from triton_agent.memory.observation import Observation, Rules
from triton_agent.memory.records import Completion
from triton_agent.memory.store import Store
from triton_agent.policy.answer import write_answer
from triton_agent.tools.errors import InstrumentError


class Moody:
    """A policy that answers every question with a function of the test."""

    name, version = "moody", "1"

    def __init__(self, do: Callable[[Observation, int], Awaitable[list[Completion]]]) -> None:
        self.propose = do
        self.left_off = False

    async def propose_many(self, observations: list[Observation]) -> list[Completion | None]:
        return [None for _ in observations]

    async def close(self) -> None:
        return


def said(number: int) -> Completion:
    return Completion(text=write_answer("a plan", kernel(number)), policy="moody")


async def fails(seen: Observation, n: int) -> list[Completion]:
    raise InstrumentError("it is down", where="moody", remedy="start it")


def run(store: Store, policies: list, **changes) -> tuple[Loop, list[dict]]:
    table = Table({kernel(number): passed(kernel(number), 1 + number / 10) for number in range(9)})
    settings = LoopSettings(**{"rules": Rules(), "turns": 3, "parallel": 2, "patience": 8} | changes)
    loop = Loop(Ledger.begin(store, new_run()), policies, [table], settings)

    async def collect() -> list[dict]:
        return [event async for event in loop.events()]

    return loop, asyncio.run(collect())


def test_a_policy_that_fails_alone_ends_the_run_by_name(store: Store) -> None:
    loop, events = run(store, [Moody(fails)])
    end = store.end(loop.ledger.run.id)
    assert end.stop_reason == StopReason.POLICY_FAILED and end.summary["failed"] == {"moody": "it is down; start it"}
    assert [event["what"] for event in events if event["kind"] == authors.FAILED] == ["it is down; start it"]
    assert [event.data["turn"] for event in loop.ledger.noted(authors.FAILED)] == [0]


def test_the_others_write_what_one_that_fails_does_not(store: Store) -> None:
    loop, _ = run(store, [Moody(fails), script([kernel(1), kernel(2), kernel(3)])], parallel=1)
    history = loop.ledger.history()
    assert [item.attempt.turn for item in history] == [0, 1, 2]  # no turn is lost
    assert store.end(loop.ledger.run.id).best == history[-1].attempt.key


def test_a_policy_that_failed_is_left_alone_for_some_turns(store: Store) -> None:
    asked = []

    async def fail(seen: Observation, n: int) -> list[Completion]:
        asked.append(seen.turn)
        return await fails(seen, n)

    run(store, [Moody(fail), script([kernel(number) for number in range(9)])], turns=9, parallel=1)
    assert asked == [0, authors.LEFT_OUT_TURNS, 2 * authors.LEFT_OUT_TURNS]


def test_one_answer_of_a_turn_is_enough_to_be_asked_again(store: Store) -> None:
    """The search asks about two parents at once, and one of the two questions fails."""

    async def half(seen: Observation, n: int) -> list[Completion]:
        if seen.turn and seen.parent is None:
            await asyncio.sleep(0.01)
            raise InstrumentError("lost")
        return [said(min(8, 2 * seen.turn + index)) for index in range(n)]

    loop, events = run(store, [Moody(half)], turns=4, parallel=4, explore=1.0)
    assert any(event["kind"] == authors.FAILED for event in events)
    end = store.end(loop.ledger.run.id)
    assert end.stop_reason == StopReason.TURNS and "failed" not in end.summary


def test_a_bug_in_a_policy_is_not_taken_for_a_failure(store: Store) -> None:
    async def broken(seen: Observation, n: int) -> list[Completion]:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        run(store, [Moody(broken)])


def test_answers_that_are_missing_are_told_with_the_reason(store: Store) -> None:
    async def one(seen: Observation, n: int) -> list[Completion]:
        return [said(1)]

    moody = Moody(one)
    moody.troubles = lambda: ["half of it was lost"]
    _, events = run(store, [moody], turns=1)
    (event,) = (event for event in events if event["kind"] == authors.SHORT)
    assert (event["asked"], event["given"], event["what"]) == (2, 1, "half of it was lost")


def test_a_run_that_is_told_to_stop_waits_for_no_answer(store: Store) -> None:
    closed = []

    async def hang(seen: Observation, n: int) -> list[Completion]:
        asyncio.get_running_loop().call_soon(loop.stop)
        try:
            await asyncio.sleep(600)
        finally:
            closed.append(seen.turn)
        return []

    loop = Loop(Ledger.begin(store, new_run()), [Moody(hang)], [Table({})], LoopSettings(rules=Rules()))

    async def drain() -> None:
        async for _ in loop.events():
            pass

    asyncio.run(asyncio.wait_for(drain(), 60))
    assert closed == [0]
    assert store.end(loop.ledger.run.id).stop_reason == StopReason.INTERRUPTED


def test_a_policy_that_answers_too_late_costs_no_more_than_the_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authors, "LEAST_ASKING_S", 0.02)

    async def hang(seen: Observation, n: int) -> list[Completion]:
        await asyncio.sleep(600)
        return []

    loop, _ = run(store, [Moody(hang)], seconds=0.01)
    assert store.end(loop.ledger.run.id).stop_reason == StopReason.TIME

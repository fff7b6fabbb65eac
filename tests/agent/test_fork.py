"""Forks: a run that continues an attempt of another run."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from tests.agent.tables import Table, kernel, new_run, passed, script

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.loop import Loop
from triton_agent.agent.settings import LoopSettings, StopReason
from triton_agent.memory.observation import Role, Rules
from triton_agent.memory.records import Run
from triton_agent.memory.store import Store

EARLIER, FORK, FORK_OF_FORK = "20260101-000000-aaaaaa", "20260102-000000-bbbbbb", "20260103-000000-cccccc"
SPEEDS = (1.1, 1.5, 1.2, 1.3, 1.4, 1.6, 1.25, 1.35)


def settings(**changes) -> LoopSettings:
    return LoopSettings(**{"rules": Rules(), "turns": 3, "parallel": 1, "patience": 8} | changes)


def forked(key: str, run_id: str = FORK) -> Run:
    return dataclasses.replace(new_run(run_id), forked_from=key)


@pytest.fixture
def table() -> Table:
    return Table({kernel(index): passed(kernel(index), speed) for index, speed in enumerate(SPEEDS)})


def run(ledger: Ledger, table: Table, **changes) -> Ledger:
    loop = Loop(ledger, [script([kernel(index) for index in range(len(SPEEDS))])], [table], settings(**changes))

    async def finish() -> None:
        async for _ in loop.events():
            pass

    asyncio.run(finish())
    return ledger


@pytest.fixture
def earlier(store: Store, table: Table) -> Ledger:
    """A run of three turns whose second attempt is the fastest."""
    return run(Ledger.begin(store, new_run(EARLIER)), table)


def test_its_first_answers_set_out_from_the_attempt_it_continues(store: Store, earlier: Ledger, table: Table) -> None:
    fork = run(Ledger.begin(store, forked(f"{EARLIER}/0.0")), table, turns=2, parallel=2)
    first = fork.of_turn(1)
    assert [attempt.key for attempt in first] == [f"{FORK}/1.0", f"{FORK}/1.1"]
    assert {attempt.parent for attempt in first} == {f"{EARLIER}/0.0"}
    assert first[0].observation.parent.source.strip() == kernel(0).strip()


def test_it_knows_what_was_known_then_and_nothing_that_came_later(store: Store, earlier: Ledger, table: Table) -> None:
    fork = run(Ledger.begin(store, forked(f"{EARLIER}/1.0")), table, turns=3)
    shown = fork.of_turn(2)[0].observation.tried
    assert {item.attempt: item.role for item in shown} == {
        f"{EARLIER}/0.0": Role.INCUMBENT,
        f"{EARLIER}/1.0": Role.PARENT,
    }


def test_a_policy_goes_on_with_what_it_had_not_said_yet(store: Store, earlier: Ledger, table: Table) -> None:
    fork = run(Ledger.begin(store, forked(f"{EARLIER}/1.0")), table, turns=4)
    assert [attempt.source.strip() for attempt in fork.attempts()] == [kernel(2).strip(), kernel(3).strip()]


def test_its_best_is_its_own(store: Store, earlier: Ledger, table: Table) -> None:
    run(Ledger.begin(store, forked(f"{EARLIER}/1.0")), table, turns=4)
    end = store.end(FORK)
    assert end.best == f"{FORK}/3.0"
    assert end.stop_reason == StopReason.TURNS


def test_the_earlier_run_is_left_as_it_was(store: Store, earlier: Ledger, table: Table) -> None:
    before = list(store.attempts(EARLIER)), store.end(EARLIER)
    run(Ledger.begin(store, forked(f"{EARLIER}/1.0")), table, turns=4)
    assert (list(store.attempts(EARLIER)), store.end(EARLIER)) == before


def test_a_fork_of_a_fork_knows_both(store: Store, earlier: Ledger, table: Table) -> None:
    run(Ledger.begin(store, forked(f"{EARLIER}/1.0")), table, turns=4)
    last = run(Ledger.begin(store, forked(f"{FORK}/2.0", FORK_OF_FORK)), table, turns=4)
    attempt = last.of_turn(3)[0]
    assert attempt.parent == f"{FORK}/2.0"
    assert {item.attempt for item in attempt.observation.tried} == {f"{EARLIER}/0.0", f"{EARLIER}/1.0", f"{FORK}/2.0"}
    assert [step.key for step in store.trajectory(attempt.key)][-2:] == [f"{FORK}/2.0", attempt.key]


def test_a_fork_that_was_killed_goes_on_as_a_fork(store: Store, earlier: Ledger, table: Table, tmp_path: Path) -> None:
    """The run is killed before its first answer."""

    async def until(kind: str) -> None:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints")) as saver:
            loop = Loop(
                Ledger.begin(store, forked(f"{EARLIER}/1.0")),
                [script([kernel(index) for index in range(len(SPEEDS))])],
                [table],
                settings(turns=4),
                checkpointer=saver,
            )
            async for event in loop.events():
                if event["kind"] == kind:
                    return

    asyncio.run(until("recalled"))
    again = run(Ledger.resume(store, FORK), table, turns=4)
    assert [attempt.key for attempt in again.attempts()] == [f"{FORK}/2.0", f"{FORK}/3.0"]
    assert again.of_turn(2)[0].parent == f"{EARLIER}/1.0"


def test_one_whose_earlier_run_is_not_here_starts_afresh(store: Store, table: Table) -> None:
    """This is the case after only the fork was imported into a store."""
    alone = run(Ledger.begin(store, forked(f"{EARLIER}/1.0")), table, turns=1)
    assert [attempt.key for attempt in alone.attempts()] == [f"{FORK}/0.0"]

"""Resumed runs: lessons are recalled once, and the time used before an interruption counts."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from tests.agent.tables import Table, kernel, new_run, passed, script

from triton_agent.agent.ledger import RECALLED, Ledger
from triton_agent.agent.loop import Loop
from triton_agent.agent.settings import LoopSettings, StopReason
from triton_agent.memory.observation import Lesson, Rules
from triton_agent.memory.records import RunEnd
from triton_agent.memory.store import Store

SOURCES = [kernel(index) for index in range(4)]


class Memory:
    """Recall that returns a different lesson at every call."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> tuple[Lesson, ...]:
        self.asked += 1
        return (Lesson(kind="lesson", text=f"answer {self.asked}", why="asked"),)


def drive(ledger: Ledger, memory: Memory, checkpoints: Path, *, until: str = "", **changes) -> None:
    table = Table({source: passed(source, 1.1) for source in SOURCES})
    settings = LoopSettings(**{"rules": Rules(), "turns": 4, "parallel": 1, "patience": 8} | changes)

    async def finish() -> None:
        async with AsyncSqliteSaver.from_conn_string(str(checkpoints)) as saver:
            loop = Loop(ledger, [script(SOURCES)], [table], settings, recall=memory, checkpointer=saver)
            async for event in loop.events():
                if event["kind"] == until:
                    return

    asyncio.run(finish())


def test_memory_is_asked_once_however_often_a_run_is_taken_up(store: Store, tmp_path: Path) -> None:
    memory = Memory()
    ledger = Ledger.begin(store, new_run())
    drive(ledger, memory, tmp_path / "checkpoints", until="recalled")
    drive(Ledger.resume(store, ledger.run.id), memory, tmp_path / "checkpoints", until="reflected")
    drive(Ledger.resume(store, ledger.run.id), memory, tmp_path / "others")
    shown = {attempt.observation.recalled[0].text for attempt in store.attempts(ledger.run.id)}
    assert (memory.asked, shown) == (1, {"answer 1"})
    assert len(Ledger.resume(store, ledger.run.id).noted(RECALLED)) == 1


def test_the_time_used_before_an_interruption_counts(store: Store, tmp_path: Path) -> None:
    run = new_run()
    ledger = Ledger.begin(store, run)
    drive(ledger, Memory(), tmp_path / "checkpoints", turns=1)
    now = datetime.datetime.now(datetime.UTC)
    interrupted = StopReason.INTERRUPTED.value
    store.end_run(
        RunEnd(run=run.id, stop_reason=interrupted, best=None, ended_at=now, summary={"spent": {"seconds": 90.0}})
    )
    drive(Ledger.resume(store, run.id), Memory(), tmp_path / "others", seconds=60.0)
    end = store.end(run.id)
    assert end.stop_reason == StopReason.TIME and end.summary["spent"]["seconds"] > 90
    assert len(list(store.attempts(run.id))) == 2, "a turn is begun, and then there is no time for another"

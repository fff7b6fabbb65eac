"""`kill -9` at any moment: acknowledged records are stored once; others are stored whole or not at all."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy
from tests.memory import samples
from tests.memory.crash_writer import attempt

from triton_agent.memory.sql.tables import AnswerRow, AttemptRow, GradingRow
from triton_agent.memory.store import Store

RUN = "20260131-120000-3fa9c1"
WRITER = Path(__file__).with_name("crash_writer.py")
ROOT = WRITER.parent.parent.parent
MOST_SAID = 25
"""Most acknowledgements after which a writer is killed, a moment later."""
LONGEST_MOMENT_S = 0.02
"""Longest time from the last acknowledgement to the kill; several commits long."""


class Writers:
    """Starts writers and kills them, one after another."""

    def __init__(self, place: str, draw: random.Random) -> None:
        self._draw = draw
        environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        self._forker = subprocess.Popen(
            [sys.executable, str(WRITER), place, RUN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Writers:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        self._forker.stdin.close()
        self._forker.wait()
        self._forker.stdout.close()

    def kill_one(self, first: int, mode: str) -> list[str]:
        """Kill a writer and return the keys that it had acknowledged."""
        assert self._forker.stdin is not None
        self._forker.stdin.write(f"{first} {mode}\n")
        self._forker.stdin.flush()
        pid, said, patience = 0, [], self._draw.randrange(MOST_SAID)
        while (line := self._line()) != "dead":
            if line.startswith("pid "):
                pid = int(line.removeprefix("pid "))
            else:
                said.append(line)
            if pid and len(said) >= patience:
                time.sleep(self._draw.uniform(0, LONGEST_MOMENT_S))
                os.kill(pid, signal.SIGKILL)
                pid, patience = 0, 1 << 30
        return said

    def _line(self) -> str:
        assert self._forker.stdout is not None
        line = self._forker.stdout.readline()
        assert line, "the writers are gone"
        return line.strip()


def kill_writers(place: str, kills: int, seed: int) -> int:
    """Kill writers one after another; return how many acknowledged attempts were found again."""
    draw = random.Random(seed)
    found = 0
    with Store.open(place) as store, Writers(place, draw) as writers:
        store.add_run(samples.run(RUN))
        for number in range(kills):
            acknowledged = writers.kill_one(1_000 * number, "group" if number % 2 else "single")
            with Store.open(place) as fresh:
                check(fresh, acknowledged, 1_000 * number)
            found += len(acknowledged)
    return found


def check(store: Store, acknowledged: list[str], first: int) -> None:
    """Read everything that the last writer wrote, and count all records."""
    there = {header.key for header in store.headers(RUN)}
    assert set(acknowledged) <= there
    assert len(set(acknowledged)) == len(acknowledged)
    written = [key for key in there if int(key.rpartition("/")[2].split(".")[0]) >= first]
    for key in written:
        one = store.attempt(key)
        assert one == attempt(RUN, one.turn)
        assert store.gradings(key) == [samples.passed(one, 1.5)]
    (summary,) = store.runs()
    assert summary.attempts == summary.judged == summary.passed == len(there)
    with store.reading() as connection:
        counts = [
            connection.execute(sqlalchemy.select(sqlalchemy.func.count()).select_from(table)).scalar()
            for table in (AttemptRow, AnswerRow, GradingRow)
        ]
    assert counts == [len(there)] * 3


def test_what_was_acknowledged_survives_kills(place: str) -> None:
    assert kill_writers(place, 8, seed=1) > 8


@pytest.mark.slow
def test_what_was_acknowledged_survives_two_hundred_kills(place: str) -> None:
    assert kill_writers(place, 200, seed=2) > 200


def test_writers_that_are_killed_do_not_hold_up_others(place: str) -> None:
    with Store.open(place) as store:
        store.add_run(samples.run(RUN))
        store.add_run(samples.run("other"))
        mine = [samples.attempt(turn, run="other", parent=None) for turn in range(12)]
        errors: list[BaseException] = []

        def write() -> None:
            try:
                for one in mine:
                    store.add_attempt(one)
                    time.sleep(0.02)
            except BaseException as error:
                errors.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        with Writers(place, random.Random(3)) as writers:
            acknowledged = [key for number in range(3) for key in writers.kill_one(1_000 * number, "group")]
        writer.join()
        assert errors == []
        assert [header.key for header in store.headers("other")] == [one.key for one in mine]
        assert set(acknowledged) <= {header.key for header in store.headers(RUN)}

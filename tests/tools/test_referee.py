"""What a checker says beside its answers reaches its driver, whenever it comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from triton_agent.tools.isolate.wire import Channel
from triton_agent.tools.referee import Referee

FACTS = {"facts": {"name": "relu"}, "lent": [(1, 2, 300)]}
LATE = {"lent": [(1, 3, 400)]}


class PlayedNursery:
    """Its checkers are channels into the test's hands."""

    def __init__(self) -> None:
        self.channel: Channel

    def for_checkers(self) -> PlayedNursery:
        return self

    def fork(self, name: str, channel: Channel, settings: dict[str, Any]) -> PlayedNursery:
        self.channel = channel
        return self

    def log_tail(self) -> str:
        return ""

    def reap(self, grace_s: float = 0.0) -> int:
        return 0


def begun() -> tuple[Referee, Channel]:
    nursery: Any = PlayedNursery()
    referee = Referee(nursery, {}, verdict_timeout_s=5.0)
    referee.begin()
    assert nursery.channel.receive(5.0)[0]["op"] == "prepare"
    return referee, nursery.channel


def comes_true(claim: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5.0
    while not claim() and time.monotonic() < deadline:
        time.sleep(0.005)
    return claim()


def test_files_that_were_made_after_the_facts_may_be_told_of_before_them() -> None:
    referee, checker = begun()
    checker.send(LATE)
    checker.send(FACTS)
    assert referee.facts() == FACTS["facts"]
    assert referee.lent == {(1, 2): 300, (1, 3): 400}
    referee.close()


def test_files_told_of_after_the_facts_are_known_beside_the_others() -> None:
    referee, checker = begun()
    checker.send(FACTS)
    referee.facts()
    assert referee.lent == {(1, 2): 300}
    with referee.job() as job:
        job.hand_over("", ())
        asked, _ = checker.receive(5.0)
        checker.send(LATE)
        checker.send({"job": asked["job"], "stage": "first"})
        checker.send({"job": asked["job"], "verdict": {"finding": None}})
        said: list[str] = []
        assert job.verdict(said.append) == {"finding": None} and said == ["first"]
    assert comes_true(lambda: referee.lent == {(1, 2): 300, (1, 3): 400})
    referee.close()

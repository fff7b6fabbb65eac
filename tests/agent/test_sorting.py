"""Quick looks rank the answers of a trusted author; only the most promising ones are judged."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from tests import verdicts
from tests.agent.tables import Table, kernel, new_run, passed, script
from tests.agent.test_loop import go, settings

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.loop import Loop
from triton_agent.agent.pool import Pool
from triton_agent.agent.sorting import LOOKS_PER_VERDICT, QuickLook, fastest_first, most_promising
from triton_agent.memory.records import Completion
from triton_agent.memory.store import Store
from triton_agent.policy.answer import read_answer
from triton_agent.tools.candidate.identity import candidate_id
from triton_agent.tools.errors import WorkerLost
from triton_agent.tools.results import Finding, Sketch


class Sketching(Table):
    """A table that also takes quick looks."""

    sketches = True

    def __init__(self, speeds: dict[str, float]) -> None:
        super().__init__({source: passed(source, max(speed, 1.0)) for source, speed in speeds.items()})
        self.speeds = speeds
        self.looked_at: list[str] = []

    def sketch(self, source: str) -> Sketch:
        source = source.strip() + "\n"
        self.looked_at.append(source)
        speed = self.speeds[source]
        if speed < 0:
            raise WorkerLost("gone")
        wrong = Finding.VALUES if speed == 0 else None
        timings = () if wrong else passed(source, speed).timings
        return Sketch(candidate=candidate_id(source), finding=wrong, message="", timings=timings, stages=())


def offer(judge: Sketching, keep: int) -> list[str]:
    answers = asyncio.run(script(list(judge.speeds)).propose(_observation(), len(judge.speeds)))
    kept, _ = asyncio.run(most_promising(answers, Pool([judge]), keep))
    return [(read_answer(answer.text).source or "").strip() + "\n" for answer in kept]


def _observation():
    from triton_agent.memory.observation import BudgetLeft, Observation, Rules

    return Observation(problem=new_run().problem, rules=Rules(), turn=0, seed=0, budget=BudgetLeft())


def test_the_fastest_at_first_sight_are_kept() -> None:
    judge = Sketching({kernel(i): speed for i, speed in enumerate((1.1, 0.0, 1.9, -1.0, 1.5))})
    assert offer(judge, 2) == [kernel(2), kernel(4)]


def test_if_none_is_right_the_first_get_their_verdicts() -> None:
    judge = Sketching({kernel(i): 0.0 for i in range(4)})
    assert offer(judge, 2) == [kernel(0), kernel(1)]


def test_as_many_as_are_wanted_are_not_looked_at() -> None:
    judge = Sketching({kernel(i): 1.1 for i in range(2)})
    assert offer(judge, 2) == [kernel(0), kernel(1)]
    assert judge.looked_at == []


def test_a_trusted_policy_is_sorted_once_there_is_a_first_verdict(store: Store) -> None:
    speeds = {kernel(i): 1.1 + i / 10 for i in range(1 + LOOKS_PER_VERDICT)}
    first, *later = speeds
    for name, trusted in (("stranger", False), ("trusted", True)):
        judge, policy = Sketching(speeds), script(list(speeds), name)
        policy.trusted = trusted
        ledger = Ledger.begin(store, dataclasses.replace(new_run(), id=f"20260101-000000-{name[:6]}"))
        go(Loop(ledger, [policy], [judge], settings(turns=2)))
        assert judge.looked_at == (later if trusted else [])
        assert len(judge.asked) == 2
        expected = [first, max(later, key=speeds.__getitem__) if trusted else later[0]]
        assert [graded.attempt.source.strip() for graded in ledger.history()] == [text.strip() for text in expected]


WELL = {"candidate": "c", "finding": None, "message": "", "stages": ()}


@pytest.mark.parametrize(
    ("figures", "order"),
    [
        # the latencies differ by less than processes differ, so device time decides
        ({"a": (5.0, 2.6), "b": (6.7, 2.4)}, "ba"),
        ({"a": (5.0, 2.6), "b": (5.2, 1.3)}, "ab"),  # `b` loses more by its launches than it gains on the device
        ({"a": (1.0, 1.0), "b": (1.5, 1.1), "c": (2.0, 0.4)}, "bac"),
    ],
)
def test_device_time_comes_before_what_latency_may_be_by_chance(
    figures: dict[str, tuple[float, float]], order: str
) -> None:
    looks = []
    for name, (device, latency) in figures.items():
        timings = (verdicts.timing(device), verdicts.timing(latency, kind="latency"))
        looks.append(QuickLook(completion=Completion(text=name, policy="p"), sketch=Sketch(**WELL, timings=timings)))
    assert "".join(look.completion.text for look in fastest_first(looks)) == order

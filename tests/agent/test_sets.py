"""Search over several input sets: attempts are ranked by the speed-up of the shipped file, and only by sure gains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.agent.tables import kernel, new_run, passed, refused, script

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.loop import Loop
from triton_agent.agent.settings import LoopSettings
from triton_agent.memory.observation import Rules
from triton_agent.memory.store import Store
from triton_agent.tools.evaluate.sets_evaluator import judged_at_all
from triton_agent.tools.problem.input_spec import InputSet, parse_input
from triton_agent.tools.ranking import best_of, standing
from triton_agent.tools.results import Evaluation, Status

SMALL = InputSet(name="small", inputs=(parse_input("f32[1]"),))
LARGE = InputSet(name="large", inputs=(parse_input("f32[64]"),), weight=3.0)


class Tables:
    """A judge over two input sets, with a table of verdicts for each."""

    def __init__(self, tables: dict[str, tuple[Evaluation, Evaluation]]) -> None:
        self.tables = tables

    async def evaluate_async(self, source: str, on_stage: Callable[[str], None] | None = None) -> Evaluation:
        return at_both(*self.tables[source.strip() + "\n"])


def at_both(large: Evaluation, small: Evaluation) -> Evaluation:
    judges = [(LARGE, lambda source, stage: large), (SMALL, lambda source, stage: small)]
    return judged_at_all(judges, kernel(0), problem="both")


def timed(large: float, small: float, width: float = 0.01) -> Evaluation:
    return at_both(passed(kernel(0), large, width=width), passed(kernel(0), small, width=width))


def test_the_figure_over_all_stands_where_the_only_one_stood() -> None:
    verdict = timed(2.0, 1.5)
    (over_all,) = verdict.against("eager", "device")
    assert over_all.speedup.median == pytest.approx(2.0**0.75 * 1.5**0.25)
    assert over_all.baseline_ms.median / over_all.candidate_ms.median == pytest.approx(over_all.speedup.median)
    assert verdict.timings[0] == over_all
    assert {name: rows[0].speedup.median for name, rows in verdict.by_set().items()} == {"large": 2.0, "small": 1.5}


def test_where_it_is_slower_the_original_runs_and_the_worst_is_named() -> None:
    found = standing(timed(2.0, 0.5))
    assert found.speedup is not None
    assert found.speedup.median == pytest.approx(2.0**0.75)
    assert found.worst is not None
    assert (found.worst.name, found.worst.speedup.median) == ("small", 0.5)
    assert found.faster_than_reference


def test_a_gain_at_one_of_many_sets_is_a_gain() -> None:
    found = standing(at_both(passed(kernel(0), 1.0), passed(kernel(0), 1.05)))
    assert found.faster_than_reference and found.speedup is not None and found.speedup.median < 1.02
    assert not standing(timed(1.0, 1.01)).faster_than_reference


def test_better_at_one_set_is_no_excuse_for_wrong_at_another() -> None:
    verdict = at_both(passed(kernel(0), 9.0), refused(kernel(0)))
    assert verdict.status is Status.WRONG_VALUES and verdict.message == "at small: wrong"
    assert not verdict.timings


def test_the_incumbent_is_replaced_only_by_what_is_surely_better_over_all(store: Store) -> None:
    speeds = [(1.5, 1.5, 0.02), (1.52, 1.4, 0.02), (1.6, 1.3, 0.3), (1.8, 0.9, 0.02), (2.2, 0.5, 0.02)]
    tables = {
        kernel(n): (passed(kernel(n), large, width=width), passed(kernel(n), small, width=width))
        for n, (large, small, width) in enumerate(speeds)
    }
    ledger = Ledger.begin(store, new_run())
    settings = LoopSettings(rules=Rules(), turns=8, parallel=1, patience=8)

    async def go() -> None:
        loop = Loop(ledger, [script(list(tables))], [Tables(tables)], settings)
        async for _ in loop.events():
            pass

    asyncio.run(go())
    history = ledger.history()
    assert [best_of(history[: n + 1]) for n in range(len(speeds))] == [*[history[0]] * 4, history[4]]
    again = store.gradings(history[4].attempt.key)[-1].evaluation
    assert again == history[4].evaluation
    assert again is not None and again.by_set().keys() == {"large", "small"}

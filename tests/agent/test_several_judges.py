"""A run with one judge per GPU: the judges share the work, and the result does not depend on which is quicker."""

from __future__ import annotations

import asyncio
import dataclasses
import types
from collections.abc import Callable

from tests.agent.tables import Table, kernel, new_run, passed, script
from tests.agent.test_loop import go, settings
from tests.agent.test_sorting import Sketching

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.loop import Loop
from triton_agent.agent.settings import StopReason
from triton_agent.agent.sorting import LOOKS_PER_VERDICT
from triton_agent.agent.state import LEFT_OUT
from triton_agent.memory.store import Store
from triton_agent.runs.optimize.screen import trouble_of
from triton_agent.tools.errors import WorkerLost
from triton_agent.tools.results import Evaluation


class Slow(Table):
    """A judge on its own GPU that waits `delay_s` before every verdict."""

    def __init__(self, verdicts: dict[str, Evaluation | Exception], card: str, delay_s: float = 0.0) -> None:
        super().__init__(verdicts)
        self.card = card
        self.facts = types.SimpleNamespace(place=card)
        self._delay_s = delay_s

    async def evaluate_async(self, source: str, on_stage: Callable[[str], None] | None = None) -> Evaluation:
        await asyncio.sleep(self._delay_s)
        found = await super().evaluate_async(source, on_stage)
        return dataclasses.replace(found, environment=dataclasses.replace(found.environment, gpu=self.card))


SOURCES = [kernel(index) for index in range(12)]
VERDICTS: dict[str, Evaluation | Exception] = {
    source: passed(source, 1.1 + index / 10) for index, source in enumerate(SOURCES)
}
GONE: dict[str, Evaluation | Exception] = {source: WorkerLost("the card fell off its bus") for source in SOURCES}


def story(ledger: Ledger) -> list[tuple[str, str, str | None, float]]:
    """Return key, source, parent and speed-up of every attempt."""
    found = []
    for item in ledger.history():
        assert item.standing.speedup is not None and item.attempt.source is not None
        parent = (item.attempt.parent or "").rpartition("/")[2]
        key = item.attempt.key.rpartition("/")[2]
        found.append((key, item.attempt.source.strip(), parent, item.standing.speedup.median))
    return found


def ran(store: Store, name: str, *judges: Table) -> tuple[Ledger, list[dict]]:
    ledger = Ledger.begin(store, dataclasses.replace(new_run(), id=f"20260101-000000-{name}"))
    return ledger, go(Loop(ledger, [script(SOURCES)], list(judges), settings(turns=3, parallel=4)))


def test_judges_share_the_work_and_every_verdict_names_its_card(store: Store) -> None:
    judges = [Slow(VERDICTS, f"GPU-{index}") for index in range(4)]
    ledger, _ = ran(store, "shared", *judges)
    assert [len(judge.asked) for judge in judges] == [3, 3, 3, 3]
    cards = [item.evaluation.environment.gpu for item in ledger.history() if item.evaluation is not None]
    assert sorted(set(cards)) == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]


def test_the_run_is_the_same_whichever_card_is_quicker(store: Store) -> None:
    alone, _ = ran(store, "alone", Slow(VERDICTS, "GPU-0"))
    for name, delays in (("early", (0.0, 0.02)), ("later", (0.02, 0.0))):
        judges = [Slow(VERDICTS, f"GPU-{index}", delay_s) for index, delay_s in enumerate(delays)]
        ledger, _ = ran(store, name, *judges)
        assert story(ledger) == story(alone)
        assert all(judge.asked for judge in judges)


def test_a_card_that_fails_is_left_out_and_the_run_goes_on(store: Store) -> None:
    dead, sound = Slow(GONE, "GPU-0"), Slow(VERDICTS, "GPU-1")
    ledger, events = ran(store, "broken", dead, sound)
    assert len(story(ledger)) == 12
    assert {item.evaluation.environment.gpu for item in ledger.history() if item.evaluation} == {"GPU-1"}
    (told,) = [event for event in events if event["kind"] == LEFT_OUT]
    assert trouble_of(told) == (
        "  GPU-0 failed where another did not, and is left out: the card fell off its bus; 1 go on"
    )
    assert len(ledger.noted(LEFT_OUT)) == 1
    assert len(dead.asked) < 6


def test_a_run_that_was_cut_short_goes_on_with_other_cards(store: Store) -> None:
    whole, _ = ran(store, "whole", Slow(VERDICTS, "GPU-0"))
    ledger = Ledger.begin(store, dataclasses.replace(new_run(), id="20260101-000000-cut000"))
    first = Slow(VERDICTS, "GPU-0")
    loop = Loop(ledger, [script(SOURCES)], [first], settings(turns=3, parallel=4))

    async def stopped() -> None:
        async for event in loop.events():
            if event["kind"] == "graded":
                loop.stop()

    asyncio.run(stopped())
    assert len(first.asked) < 12
    judges = [Slow(VERDICTS, "GPU-1"), Slow(VERDICTS, "GPU-2")]
    taken_up = Ledger.resume(store, ledger.run.id)
    go(Loop(taken_up, [script(SOURCES)], judges, settings(turns=3, parallel=4)))
    assert story(taken_up) == story(whole)
    assert len(first.asked) + sum(len(judge.asked) for judge in judges) == 12
    assert all(judge.asked for judge in judges)
    end = store.end(ledger.run.id)
    assert end is not None and end.stop_reason == StopReason.TURNS


def test_looks_are_spread_over_the_cards_and_none_is_lost(store: Store) -> None:
    speeds = {kernel(index): 1.1 + index / 10 for index in range(14)}
    first, looked_at = list(speeds)[:2], list(speeds)[2:]
    judges, policy = [Sketching(speeds), Sketching(speeds)], script(list(speeds))
    broken = Sketching(dict.fromkeys(speeds, -1.0))
    policy.trusted = True  # type: ignore[attr-defined]
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [policy], [*judges, broken], settings(turns=2, parallel=2)))
    seen = [source for judge in judges for source in judge.looked_at]
    assert len(seen) >= LOOKS_PER_VERDICT and set(seen) <= set(looked_at) and all(judge.looked_at for judge in judges)
    assert broken.looked_at
    best = [item.attempt.source.strip() for item in ledger.history() if item.attempt.source]
    assert best[:2] == [source.strip() for source in first]
    assert max(seen, key=speeds.__getitem__).strip() in best[2:]

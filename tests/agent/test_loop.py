"""The loop from the first turn to the last: which attempt it keeps, what it does not repeat, and why it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from tests import verdicts
from tests.agent.tables import Table, kernel, new_run, passed, refused, script

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.loop import Loop
from triton_agent.agent.settings import LoopSettings, Search, StopReason
from triton_agent.memory.observation import Role, Rules
from triton_agent.memory.store import Store
from triton_agent.policy.rollout import Episode, roll_out
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.ranking import best_of
from triton_agent.tools.results import Evaluation


def settings(**changes) -> LoopSettings:
    return LoopSettings(**{"rules": Rules(), "turns": 8, "parallel": 1, "patience": 8} | changes)


def go(loop: Loop) -> list[dict]:
    async def collect() -> list[dict]:
        return [event async for event in loop.events()]

    return asyncio.run(collect())


def speeds(*values: float) -> tuple[list[str], Table]:
    sources = [kernel(index) for index in range(len(values))]
    return sources, Table({source: passed(source, value) for source, value in zip(sources, values)})


def test_the_best_is_kept_and_the_end_is_written_down(store: Store) -> None:
    sources, table = speeds(1.1, 1.5, 1.2)
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(sources)], [table], settings()))
    end = store.end(ledger.run.id)
    assert end.stop_reason == StopReason.POLICY_DONE
    assert store.attempt(end.best).source.strip() == kernel(1).strip()
    assert len(list(store.attempts(ledger.run.id))) == 3


def test_what_is_within_the_noise_never_replaces_the_incumbent(store: Store) -> None:
    """Run 48 kernels that are equally fast, each measured with a little noise."""
    sources = [kernel(index) for index in range(48)]
    table = Table({source: passed(source, 1.5 + 0.0007 * (i % 25), width=0.015) for i, source in enumerate(sources)})
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(sources)], [table], settings(turns=48, patience=48)))
    assert len(ledger.history()) == 48
    assert best_of(ledger.history()).attempt.turn == 0


def test_no_file_is_judged_twice_under_other_names(store: Store) -> None:
    sources = [kernel(1), "# renamed\n" + kernel(1).replace("answer", "result"), kernel(1), kernel(2)]
    table = Table({kernel(1): passed(kernel(1), 1.2), kernel(2): passed(kernel(2), 1.3)})
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(sources)], [table], settings()))
    assert len(table.asked) == 2
    assert [item.standing.passed for item in ledger.history()] == [True] * 4
    assert "not evaluated again" in ledger.history()[1].evaluation.notes[-1]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"turns": 2}, StopReason.TURNS),
        ({"seconds": 1e-9}, StopReason.TIME),
        ({"patience": 1}, StopReason.NO_PROGRESS),
        ({}, StopReason.POLICY_DONE),
    ],
)
def test_it_stops_for_a_reason(store: Store, changes: dict, reason: StopReason) -> None:
    sources, table = speeds(1.5, 1.2, 1.2, 1.2)
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(sources)], [table], settings(**changes)))
    assert store.end(ledger.run.id).stop_reason == reason


def test_near_the_floor_the_search_is_over(store: Store) -> None:
    sources = [kernel(0), kernel(1)]
    table = Table({source: passed(source, 2.0, floor_ms=0.495) for source in sources})
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(sources)], [table], settings()))
    assert store.end(ledger.run.id).stop_reason == StopReason.NEAR_FLOOR
    assert len(table.asked) == 1


def test_an_instruments_failure_is_tried_again_and_never_becomes_a_verdict(store: Store) -> None:
    sources = [kernel(index) for index in range(5)]
    table = Table({source: InstrumentError("the GPU is busy") for source in sources})
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(sources)], [table], settings()))
    assert store.end(ledger.run.id).stop_reason == StopReason.INSTRUMENT
    assert len(table.asked) == 4
    assert all(item.evaluation is None and item.grading.failure.what == "the GPU is busy" for item in ledger.history())


def test_an_answer_without_a_file_is_fed_back(store: Store) -> None:
    policy = script([kernel(1)])
    policy._answers = ("I would rather not.", *policy._answers)
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [policy], [Table({kernel(1): passed(kernel(1), 1.2)})], settings(search=Search.CHAIN)))
    first, second = ledger.history()
    assert first.evaluation.status == "no_answer"
    assert second.attempt.observation.parent.attempt == first.attempt.key
    assert "no ```python block" in second.attempt.observation.parent.message


def test_each_attempt_sees_what_was_tried(store: Store) -> None:
    sources = [kernel(0), kernel(1), kernel(2)]
    table = Table(
        {sources[0]: refused(sources[0]), sources[1]: passed(sources[1], 1.4), sources[2]: passed(sources[2], 1.2)}
    )
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(sources)], [table], settings(explore=0.0)))
    last = ledger.history()[-1].attempt.observation
    assert last.parent.attempt == ledger.history()[1].attempt.key
    assert last.parent.speedup.median == 1.4
    assert last.of(Role.TRIED)[0].message == "wrong"
    assert last.budget.turns == 6


def test_sixty_four_candidates_in_a_turn(store: Store) -> None:
    sources, table = speeds(*(1.1 + index / 1000 for index in range(64)))
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(sources)], [table], settings(parallel=64)))
    assert len(ledger.history()) == 64
    assert {item.attempt.turn for item in ledger.history()} == {0}


class _Slow(Table):
    """A table of drafts that are right; each verdict takes some time."""

    def __init__(self, sources: list[str], verdict_s: float, ratio: float = 3.0) -> None:
        found = verdicts.diagnosis(traffic_ratio=ratio)
        super().__init__({source: verdicts.passed(candidate=source, diagnosis=found) for source in sources})
        self._verdict_s = verdict_s
        self._under_way = self.most_at_once = 0

    async def evaluate_async(self, source: str, on_stage: Callable[[str], None] | None = None) -> Evaluation:
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        await asyncio.sleep(self._verdict_s)
        self._under_way -= 1
        return await super().evaluate_async(source, on_stage)


def test_no_more_evaluations_run_at_once_than_allowed(store: Store) -> None:
    sources = [kernel(index) for index in range(6)]
    table = _Slow(sources, 0.02)
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(sources)], [table], settings(parallel=6, at_once=2)))
    assert table.most_at_once == 2
    assert len(ledger.history()) == 6


@pytest.mark.parametrize(
    ("seconds", "ratio", "judged"), [(None, 3.0, 4), (30.0, 3.0, 4), (0.5, 3.0, 1), (None, 1.0, 1)]
)
def test_further_drafts_are_judged_only_if_they_may_win_and_there_is_time(
    store: Store, seconds: float | None, ratio: float, judged: int
) -> None:
    """Judging the file to ship takes as long as a verdict, so a second verdict of 0.2 s does not fit into 0.5 s."""
    sources = [kernel(index) for index in range(4)]
    table = _Slow(sources, 0.2 if seconds == 0.5 else 0.0, ratio)
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(sources)], [table], settings(parallel=4, at_once=1, patience=0, seconds=seconds)))
    assert len(ledger.history()) == judged
    assert store.end(ledger.run.id).best == ledger.history()[0].attempt.key


def test_several_judges_share_the_work(store: Store) -> None:
    sources, first = speeds(*[1.1] * 8)
    second = Table(first.verdicts)
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(sources)], [first, second], settings(parallel=8)))
    assert len(first.asked) == len(second.asked) == 4


def test_asked_to_stop_it_ends_with_what_it_has_and_can_be_taken_up(store: Store, tmp_path: Path) -> None:
    sources, table = speeds(1.1, 1.5, 1.2, 1.3)
    policy = script(sources)

    async def run_until(stop_after: int | None) -> None:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints")) as saver:
            ledger = Ledger.resume(store, new_run().id) if stop_after is None else Ledger.begin(store, new_run())
            loop = Loop(ledger, [policy], [table], settings(), checkpointer=saver)
            async for event in loop.events():
                if event["kind"] == "graded" and len(ledger.history()) == stop_after:
                    loop.stop()
            await saver.adelete_thread(ledger.run.id)

    asyncio.run(run_until(2))
    assert store.end(new_run().id).stop_reason == StopReason.INTERRUPTED
    assert len(table.asked) == 2
    asyncio.run(run_until(None))
    assert store.end(new_run().id).stop_reason == StopReason.POLICY_DONE
    assert [source.strip() for source in table.asked] == [source.strip() for source in sources]


def test_a_portfolio_hears_every_policy_and_each_sees_the_others_best(store: Store) -> None:
    slow, fast = [kernel(i) for i in range(20)], [kernel(i + 20) for i in range(20)]
    table = Table({s: passed(s, 1.05) for s in slow} | {s: passed(s, 1.2 + i / 5) for i, s in enumerate(fast)})
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(slow, "slow"), script(fast, "fast")], [table], settings(parallel=2, turns=10)))
    names = [item.attempt.completion.policy for item in ledger.history()]
    assert set(names[:2]) == {"slow", "fast"}
    assert names.count("fast") > 2 * names.count("slow") > 0
    best = best_of(ledger.history())
    assert best.attempt.completion.policy == "fast"


def test_the_graph_and_a_trainers_rollout_show_the_same_observations(store: Store) -> None:
    sources = [kernel(0), kernel(1), kernel(2), kernel(3)]
    verdicts = {
        sources[0]: refused(sources[0]),
        sources[1]: passed(sources[1], 1.4),
        sources[2]: InstrumentError("the GPU is busy"),
        sources[3]: passed(sources[3], 1.2),
    }
    ledger = Ledger.begin(store, new_run())
    go(Loop(ledger, [script(sources)], [Table(verdicts)], settings(turns=4, search=Search.CHAIN)))
    episode = Episode(run=new_run().id, problem=new_run().problem, judge=Table(verdicts), rules=Rules())
    (rolled,) = asyncio.run(roll_out([episode], script(sources), turns=4))
    assert [item.attempt.observation for item in rolled] == [item.attempt.observation for item in ledger.history()]
    assert [item.attempt.key for item in rolled] == [item.attempt.key for item in ledger.history()]

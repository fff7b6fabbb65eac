"""The task that each answer of a language model gets, and the request that its prompt makes for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.agent.tables import Table, kernel, new_run, passed, refused
from tests.policy.llm.test_author import Heard, said

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.loop import Loop
from triton_agent.agent.settings import LoopSettings
from triton_agent.agent.tasks import EARLIER_AT_MOST, PRIOR, TaskCount, assign, belief, summed, task_counts, to_plain
from triton_agent.memory.observation import Rules, Task
from triton_agent.memory.store import Store
from triton_agent.policy.answer import write_answer
from triton_agent.policy.episode import Graded
from triton_agent.policy.llm.author import LanguageAuthor
from triton_agent.policy.llm.engine import ModelQuestion, Sampled

SETTINGS = LoopSettings(rules=Rules(), parallel=6, turns=4, patience=9)
ASKED = {
    Task.REPAIR: "Find out why attempt",
    Task.IMPROVE: "Write a file that is faster than attempt",
    Task.RESTART: "Start over: write a file whose idea differs",
    Task.COMBINE: "write one file that has both advantages",
}


def run(store: Path, table: Table, answers: Sequence[str], earlier: dict[Task, TaskCount] | None = None) -> Ledger:
    """Run a model that answers with these files in order, with a task of its own for every answer."""
    left = iter(answers)

    def answer(question: ModelQuestion) -> list[Sampled]:
        return [said(write_answer("a plan", next(left, kernel(0)))) for _ in range(question.n)]

    with Store.open(store) as opened:
        ledger = Ledger.begin(opened, new_run())
        author = LanguageAuthor(Heard(answer, 50_000))
        loop = Loop(ledger, [author], [table], SETTINGS, earlier_tasks=lambda: earlier or {})

        async def drain() -> None:
            async for _ in loop.events():
                pass

        asyncio.run(drain())
        return Ledger.resume(opened, ledger.run.id)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A run of four turns with six answers each: in each turn one file is refused, and later files repeat earlier
    ones.
    """
    files = [kernel(number) for number in range(24)]
    verdicts = {
        file: refused(file) if number % 6 == 5 else passed(file, 1 + number / 10) for number, file in enumerate(files)
    }
    return run(tmp_path_factory.mktemp("tasks") / "store.db", Table(verdicts), files)


def test_the_first_turn_has_no_task_and_later_ones_have_each(played: Ledger) -> None:
    given = [(attempt.turn, attempt.observation.task) for attempt in played.attempts()]
    assert {task for turn, task in given if turn == 0} == {Task.ANY}
    assert {task for turn, task in given if turn > 0} == set(ASKED)


def test_the_prompt_asks_for_the_task(played: Ledger) -> None:
    for attempt in played.attempts():
        wanted = attempt.completion.messages[-1].content.rpartition("# Your answer")[2]
        asks_for = [task for task, words in ASKED.items() if words in wanted]
        assert asks_for == ([attempt.observation.task] if attempt.turn else [])


def test_each_task_has_the_parents_that_it_needs(played: Ledger) -> None:
    for attempt in (item for item in played.attempts() if item.turn):
        task, parent = attempt.observation.task, attempt.observation.parent
        assert (parent is None) == (task is Task.RESTART)
        if parent is not None:
            assert (parent.status == "passed") == (task is not Task.REPAIR)
            assert attempt.parent == parent.attempt
        partner = next((one for one in attempt.observation.tried if one.attempt == attempt.observation.partner), None)
        assert (partner is not None and partner.source != "" and partner.status == "passed") == (task is Task.COMBINE)


def test_the_run_leaves_what_its_tasks_brought(played: Ledger) -> None:
    left = summed([played.ended().summary["tasks"]])
    assert left == task_counts(played.history())
    assert sum(count.answers for count in left.values()) == 18
    assert 0 < sum(count.paid for count in left.values()) < 18


def test_a_resumed_run_counts_earlier_runs_as_it_did_when_it_began(tmp_path: Path) -> None:
    earlier = {Task.RESTART: TaskCount(answers=8, paid=6)}
    files = [kernel(number) for number in range(24)]
    ledger = run(tmp_path / "store.db", Table({file: passed(file, 1.5) for file in files}), files, earlier)
    with Store.open(tmp_path / "store.db") as store:
        loop = Loop(Ledger.resume(store, ledger.run.id), [], [Table({})], SETTINGS)
        assert loop._take_up_memory()
        assert loop._earlier_tasks == earlier


def shares(history: Sequence[Graded], earlier: dict[Task, TaskCount]) -> Counter[Task]:
    return Counter(item.task for turn in range(50) for item in assign(history, SETTINGS, earlier, turn=turn + 10, n=4))


def test_what_paid_off_in_earlier_runs_is_asked_for_more_often(played: Ledger) -> None:
    history = played.history()
    poor = {task: TaskCount(answers=40, paid=0) for task in ASKED}
    for task in ASKED:
        found = shares(history, poor | {task: TaskCount(answers=40, paid=30)})
        assert found.most_common(1)[0][0] is task
        assert found[task] > 150


def test_what_was_never_tried_still_gets_its_turn(played: Ledger) -> None:
    found = shares(played.history(before_turn=1), {})
    assert set(found) == set(ASKED) and min(found.values()) >= 5


def test_beliefs_begin_with_the_prior_and_earlier_runs_weigh_little() -> None:
    assert belief(Task.REPAIR, {}, {}) == PRIOR
    own = {Task.REPAIR: TaskCount(answers=3, paid=1)}
    wins, losses = belief(Task.REPAIR, own, {Task.REPAIR: TaskCount(answers=1000, paid=500)})
    assert (wins, losses) == (PRIOR[0] + 1 + EARLIER_AT_MOST / 2, PRIOR[1] + 2 + EARLIER_AT_MOST / 2)


def test_counts_of_unknown_tasks_are_left_out() -> None:
    assert summed([{"repair": [2, 1], "dance": [9, 9]}, {"repair": [1, 0]}]) == {
        Task.REPAIR: TaskCount(answers=3, paid=1)
    }
    assert summed([to_plain({Task.COMBINE: TaskCount(answers=2, paid=2)})]) == {
        Task.COMBINE: TaskCount(answers=2, paid=2)
    }


def test_a_first_turn_is_a_free_start() -> None:
    assert [item.task for item in assign([], SETTINGS, {}, turn=0, n=2)] == [Task.ANY, Task.ANY]

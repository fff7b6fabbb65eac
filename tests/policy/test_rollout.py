"""Episodes in lock step draw different answers, even if their problems are equal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.policy.llm.asking import VIEW, render
from tests.verdicts import failed, passed, timing

from triton_agent.memory.observation import Rules
from triton_agent.memory.records import Attempt, Grading
from triton_agent.policy.answer import write_answer
from triton_agent.policy.episode import Graded
from triton_agent.policy.llm.author import LanguageAuthor
from triton_agent.policy.llm.engine import ModelQuestion, Sampled, seeds_of
from triton_agent.policy.rollout import Episode, TimeSpent, roll_out
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.results import Evaluation


class SeedEngine:
    """An engine that answers with its seed."""

    name, version, context_tokens = "seed:1", "1", 4096

    def count(self, text: str) -> int:
        return len(text.split())

    async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        return [[Sampled(text=str(seed)) for seed in seeds_of(question)] for question in questions]

    async def close(self) -> None:
        """Do nothing."""


class FileEngine(SeedEngine):
    async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        text = write_answer("", "class ModelNew:\n    pass\n")
        return [[Sampled(text=text) for _ in seeds_of(question)] for question in questions]


class NoJudge:
    async def evaluate_async(self, source: str, on_stage: object = None) -> Evaluation:
        raise InstrumentError("there is nothing to judge")


def texts(*runs: str, seed: int = 0) -> list[str]:
    episodes = [Episode(run=run, problem=VIEW, judge=NoJudge(), rules=Rules(), seed=seed) for run in runs]
    rolled = asyncio.run(roll_out(episodes, LanguageAuthor(SeedEngine(), render=render), turns=2))
    return [item.attempt.completion.text for history in rolled for item in history]


def test_every_episode_and_turn_has_a_seed_of_its_own_and_a_repeated_run_has_its_own_too() -> None:
    first, again, resumed, other = texts("a", "b"), texts("c", "d"), texts("a", "b"), texts("a", "b", seed=1)
    assert len({*first, *again, *other}) == 12
    assert resumed == first, "the same run draws the same answers"


def test_two_episodes_cannot_share_a_run() -> None:
    with pytest.raises(ValueError, match="one run id"):
        texts("a", "a")


def test_answers_to_one_question_have_one_group() -> None:
    episodes = [Episode(run=run, problem=VIEW, judge=NoJudge(), rules=Rules()) for run in "ab"]
    rolled = asyncio.run(roll_out(episodes, LanguageAuthor(SeedEngine(), render=render), turns=1))
    groups = {item.attempt.completion.group for history in rolled for item in history}
    assert len(groups) == 1 and groups != {""}


def test_an_episode_takes_its_next_turn_while_others_wait_for_their_verdicts() -> None:
    class HoldingJudge:
        """A judge that waits with episode `a` until `b` has all its answers."""

        def __init__(self) -> None:
            self.released = asyncio.Event()

        async def evaluate_async(self, source: str, on_stage: object = None) -> Evaluation:
            self.loop = asyncio.get_running_loop()
            await self.released.wait()
            raise InstrumentError("there is nothing to judge")

        def release(self) -> None:
            self.loop.call_soon_threadsafe(self.released.set)  # another thread calls this

    order: list[str] = []

    class Order:
        def keep_answers(self, attempts: Sequence[Attempt]) -> None:
            order.extend(attempt.key for attempt in attempts)
            if "b/1.0" in order:
                held.release()

        def keep_verdicts(self, gradings: Sequence[Grading]) -> None:
            order.extend(f"verdict {grading.attempt}" for grading in gradings)

    async def go() -> TimeSpent:
        spent = TimeSpent()
        episodes = [
            Episode(run=run, problem=VIEW, judge=judge, rules=Rules()) for run, judge in (("a", held), ("b", NoJudge()))
        ]
        author = LanguageAuthor(FileEngine(), render=render)
        await asyncio.wait_for(roll_out(episodes, author, turns=2, keeper=Order(), spent=spent), 60)
        return spent

    held = HoldingJudge()
    spent = asyncio.run(go())
    assert order.index("b/1.0") < order.index("verdict a/0.0") < order.index("a/1.0")
    assert order.index("verdict b/0.0") < order.index("b/1.0"), "no turn without the verdict of the one before"
    assert spent.generation_s > 0


def test_a_cancelled_rollout_stores_what_has_arrived() -> None:
    """The policy cancels the rollout while the answers before wait for a thread, as an interrupted engine does."""
    stored: list[str] = []

    class Stored:
        def keep_answers(self, attempts: Sequence[Attempt]) -> None:
            stored.extend(attempt.key for attempt in attempts)

        def keep_verdicts(self, gradings: Sequence[Grading]) -> None:
            stored.extend(f"verdict {grading.attempt}" for grading in gradings)

    class Cancelling(FileEngine):
        """An engine that cancels all tasks, as Ctrl-C does, when it is asked for the third time."""

        asked = 0

        async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
            self.asked += 1
            if self.asked == 3:
                for task in asyncio.all_tasks():
                    task.cancel()
            return await super().answer(questions)

    async def go() -> None:
        loop, free = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(max_workers=1))
        loop.run_in_executor(None, free.wait)
        loop.call_later(0.2, free.set)
        episodes = [Episode(run=run, problem=VIEW, judge=NoJudge(), rules=Rules()) for run in "abcd"]
        author = LanguageAuthor(Cancelling(), render=render)
        await roll_out(episodes, author, turns=1, batch_size=1, questions=2, keeper=Stored())

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(go())
    assert stored == ["a/0.0", "b/0.0"]


@pytest.mark.parametrize(("right", "turns_taken"), [(passed(), 2), (passed(timing(1.5)), 4)], ids=["untimed", "timed"])
def test_an_episode_ends_at_a_right_kernel_unless_a_faster_one_could_follow(
    right: Evaluation, turns_taken: int
) -> None:
    class SecondIsRight:
        def __init__(self) -> None:
            self.verdicts = iter((failed(), right, failed(), failed()))

        async def evaluate_async(self, source: str, on_stage: object = None) -> Evaluation:
            return next(self.verdicts)

    def rolled(*, until_right: bool, history: Sequence[Graded] = ()) -> list[Graded]:
        episode = Episode(run="a", problem=VIEW, judge=SecondIsRight(), rules=Rules(), history=list(history))
        author = LanguageAuthor(FileEngine(), render=render)
        return asyncio.run(roll_out([episode], author, turns=4, until_right=until_right))[0]

    assert len(rolled(until_right=False)) == 4
    taken = rolled(until_right=True)
    assert len(taken) == turns_taken
    assert len(rolled(until_right=True, history=taken)) == turns_taken, "a restored episode goes on no longer"

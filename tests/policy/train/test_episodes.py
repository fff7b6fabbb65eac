"""Figures of several turns, compared with hand-computed values; interrupted evaluations continue, repeated ones are
read.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from tests.policy.train.evaluations import KERNEL, failed, timing
from tests.policy.train.online import toy
from tests.verdicts import passed

from triton_agent.memory.store import Store
from triton_agent.policy.episode import Graded
from triton_agent.policy.llm.author import LanguageAuthor
from triton_agent.policy.llm.engine import ModelQuestion, Sampled, Sampling
from triton_agent.policy.train.evaluate.episodes import JudgedEpisode, figures_of, gains
from triton_agent.policy.train.evaluate.figures import JudgedAnswer
from triton_agent.policy.train.evaluate.rollouts import (
    Histories,
    RolloutSettings,
    as_episodes,
    evaluate,
    time_right_answers,
)
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.tools.ranking import standing
from triton_agent.tools.results import Evaluation, Finding

RECIPE = RECIPES["default"]
WRONG = failed(Finding.VALUES, launched=True)


def episode(problem: str, *verdicts: Evaluation | None) -> JudgedEpisode:
    answers = tuple(JudgedAnswer(problem=problem, source=KERNEL, evaluation=verdict) for verdict in verdicts)
    return JudgedEpisode(problem=problem, answers=answers)


def test_an_episode_is_correct_if_one_of_its_turns_is() -> None:
    told = figures_of(
        [episode("a", WRONG, passed()), episode("a", WRONG, WRONG), episode("b", passed(), WRONG)], RECIPE, ks=(1, 2)
    ).values
    assert told["correct@1"].median == pytest.approx((0.5 + 1.0) / 2), "problems weigh equally"
    assert told["correct first turn@1"].median == pytest.approx((0.0 + 1.0) / 2)
    assert told["correct@2"].median == 1.0, "only one problem has two episodes"
    assert told["turns to first correct"].median == pytest.approx((2 + 1) / 2)
    assert told["valid"].median == 1.0 and not any(name.startswith("fast") for name in told)


def test_an_episode_is_fast_if_a_right_turn_is_surely_faster_than_the_baseline() -> None:
    sure, unsure = passed(timing(1.1, 1.2, 1.3)), passed(timing(0.9, 1.2, 1.3))
    told = figures_of([episode("a", unsure, sure), episode("a", unsure, WRONG)], RECIPE).values
    assert told["fast_1@1 eager"].median == 0.5 and "fast_1@1 compile" not in told


def test_a_turn_that_could_not_be_measured_is_counted_and_is_no_failure() -> None:
    told = figures_of([episode("a", None, passed()), episode("b", None)], RECIPE)
    assert told.unmeasured == 2 and told.answers == 3
    assert told.values["correct@1"].median == 1.0


def test_intervals_cover_other_problems_and_gains_are_paired() -> None:
    before = [episode(str(n), WRONG) for n in range(20)]
    after = [episode(str(n), passed() if n % 2 else WRONG) for n in range(20)]
    share = figures_of(after, RECIPE).values["correct@1"]
    assert share.low < 0.5 < share.high and share.high - share.low > 0.2
    gained = gains(before, after, RECIPE)["correct@1"]
    assert gained.median == 0.5 and gained.low > 0
    same = gains(after, after, RECIPE)["correct@1"]
    assert same.low == same.high == 0.0, "differences are taken problem by problem"


def test_a_policy_without_right_answers_is_slow_beside_one_that_was_timed() -> None:
    fast, wrong = [episode("a", passed(timing(1.1, 1.2, 1.3)))], [episode("a", WRONG)]
    assert gains(fast, wrong, RECIPE)["fast_1@1 eager"].median == -1.0
    assert gains(wrong, fast, RECIPE)["fast_1@1 eager"].median == 1.0
    assert not any(name.startswith("fast") for name in gains(wrong, wrong, RECIPE))


class Numbers:
    """An engine without a model that answers with a number derived from the seed, as the toy's engine does."""

    name, version, context_tokens = "numbers:1", "1", 2048

    def __init__(self, answers: int = 1000) -> None:
        self.left = answers

    def count(self, text: str) -> int:
        return len(text.split())

    async def answer(self, questions: list[ModelQuestion]) -> list[list[Sampled]]:
        if self.left < len(questions):
            raise KeyboardInterrupt
        self.left -= len(questions)
        texts = [random.Random(one.sampling.seed).randrange(100) for one in questions]
        return [[Sampled(text=toy.write_answer("Plan.", f"class ModelNew:\n    number = {n}\n"))] for n in texts]

    async def close(self) -> None:
        """Do nothing."""


def ask(folder: Path, engine: Numbers, problems: toy.Problems) -> list[JudgedEpisode]:
    return as_episodes(histories_of(folder, engine, problems))


def histories_of(folder: Path, engine: Numbers, problems: toy.Problems) -> Histories:
    author = LanguageAuthor(engine, Sampling(max_tokens=512), render=toy.render)  # type: ignore[arg-type]
    settings = RolloutSettings(answers=3, turns=2, batch_size=2, open_at_once=2)
    with Store.open(folder / "runs.db") as store:
        return asyncio.run(evaluate(problems, author, store, "eval-1", settings))


def test_an_interrupted_evaluation_continues_and_an_equal_one_is_read_from_the_store(tmp_path: Path) -> None:
    whole = ask(tmp_path / "undisturbed", Numbers(), toy.Problems())
    assert [one.problem for one in whole] == [name for name in toy.NAMES for _ in range(3)]
    assert {len(one.answers) for one in whole} == {1, 2}
    firsts = [standing(one.answers[0].evaluation) for one in whole]
    assert [first.passed for first in firsts] == [len(one.answers) == 1 for one in whole], "a right kernel is the last"

    interrupted = Numbers(answers=8)
    with pytest.raises(KeyboardInterrupt):
        ask(tmp_path / "disturbed", interrupted, toy.Problems())
    engine = Numbers(answers=sum(len(one.answers) for one in whole) - (8 - interrupted.left))
    assert ask(tmp_path / "disturbed", engine, toy.Problems()) == whole
    assert engine.left == 0, "no answer is drawn twice"

    problems = toy.Problems()
    assert ask(tmp_path / "disturbed", Numbers(answers=0), problems) == whole
    assert not any(judge.judged for judge in problems.judges.values()), "nothing is judged again"


class TimingJudge(toy.EvenJudge):
    """A judge that times what it passes, and passes multiples of four alone."""

    async def evaluate_async(self, source: str, on_stage: object = None) -> Evaluation:
        await super().evaluate_async(source)
        number = int(source.split("number = ")[1].split()[0])
        return passed(timing(1.1, 1.2, 1.3)) if number % 4 == 0 else WRONG


class TimingProblems(toy.Problems):
    def __init__(self) -> None:
        self.judges = {name: TimingJudge() for name in toy.NAMES}


def test_right_answers_are_judged_again_where_they_are_timed_and_this_verdict_counts(tmp_path: Path) -> None:
    before, timers = histories_of(tmp_path, Numbers(), toy.Problems()), TimingProblems()
    with Store.open(tmp_path / "runs.db") as store:
        after = asyncio.run(time_right_answers(timers, store, before, open_at_once=2))
    right = {one.attempt.source for own in before.values() for history in own for one in history if passes(one)}
    assert right and {source for judge in timers.judges.values() for source in judge.judged} == right
    told = figures_of(as_episodes(after), RECIPE).values
    assert told["fast_1@1 eager"].median == pytest.approx(told["correct@1"].median), "what passed there was fast"
    assert told["correct@1"].median < figures_of(as_episodes(before), RECIPE).values["correct@1"].median

    again = histories_of(tmp_path, Numbers(answers=0), toy.Problems())
    assert as_episodes(again) == as_episodes(after), "the verdicts are stored"
    with Store.open(tmp_path / "runs.db") as store:
        idle = TimingProblems()
        asyncio.run(time_right_answers(idle, store, again, open_at_once=2))
    assert not any(judge.judged for judge in idle.judges.values())


def passes(graded: Graded) -> bool:
    return graded.evaluation is not None and standing(graded.evaluation).passed

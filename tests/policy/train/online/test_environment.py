"""Environments for other trainers give the same prompts, verdicts and rewards as the trainer of this project."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

import pytest
from tests.policy.train.marks import needs_training
from tests.policy.train.online import toy
from tests.policy.train.online.tool_calls import model_that_calls_tools, settings, trainer_that_submits

from triton_agent.policy.answer import write_answer
from triton_agent.policy.train.environment import KernelEpisode, TrlEnvironment, TrlReward
from triton_agent.policy.train.extra import require_training
from triton_agent.policy.train.online.rollouts import OpenProblem
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.tools.errors import InstrumentError

DEFAULT = RECIPES["default"]


def problem() -> OpenProblem:
    return asyncio.run(toy.Problems().open(["first"]))["first"]


def numbered(number: int) -> str:
    return write_answer(f"Take {number}.", f"class ModelNew:\n    number = {number}\n")


def test_the_second_prompt_of_an_episode_shows_the_first_answer_and_its_verdict() -> None:
    one = problem()

    async def go() -> None:
        episode = KernelEpisode(one, DEFAULT, turns=2)
        first = await episode.answer(numbered(1))
        assert not first.over and first.graded.evaluation.status == "wrong_values"  # type: ignore[union-attr]
        shown = episode.observation.parent
        assert shown and "number = 1" in shown.source and shown.status == "wrong_values"
        assert "number = 1" in episode.messages[-1].content
        second = await episode.answer(numbered(2))
        assert second.over and second.reward == 1.0 > first.reward  # type: ignore[operator]
        with pytest.raises(ValueError, match="over after 2 turns"):
            await episode.answer(numbered(3))

    asyncio.run(go())


def test_an_answer_that_cannot_be_measured_has_no_reward() -> None:
    class Broken:
        async def evaluate_async(self, source: str, on_stage: object = None) -> None:
            raise InstrumentError("the GPU is busy")

    episode = KernelEpisode(OpenProblem(view=problem().view, judge=Broken()), DEFAULT)  # type: ignore[arg-type]
    assert asyncio.run(episode.answer(numbered(2))).reward is None


@needs_training
def test_trls_own_trainer_trains_on_these_rewards(tmp_path: Path) -> None:
    """Run three steps of TRL's GRPO. The tiny policy writes nonsense, so every second answer is replaced."""
    require_training()
    from datasets import Dataset
    from trl import GRPOTrainer

    from triton_agent.policy.train.update.fresh import make_policy
    from triton_agent.policy.train.update.session import load

    make_policy("tiny", ["import triton\nimport triton.language as tl\n" * 20], tmp_path / "tiny")
    model, tokenizer = load(str(tmp_path / "tiny"), cpu=True)
    problems = asyncio.run(toy.Problems().open(toy.NAMES))
    reward = TrlReward(problems, DEFAULT)
    rows = reward.rows(context_tokens=2048, render=toy.render)
    assert [row["problem"] for row in rows] == list(toy.NAMES)
    given: list[list[float | None]] = []

    class Prompted(TrlReward):
        async def __call__(self, *, completions, **columns):  # type: ignore[no-untyped-def, override]
            said = [numbered(2) if place % 2 else text for place, text in enumerate(completions)]
            given.append(await super().__call__(completions=said, **columns))
            return given[-1]

    config = settings(tmp_path, max_completion_length=16)
    trainer = GRPOTrainer(
        model,
        reward_funcs=Prompted(problems, DEFAULT),
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()
    assert trainer.state.global_step == 3
    assert given == [[-0.25, 1.0]] * 3, "no Triton at all, and a right answer"
    assert any(entry.get("rewards/triton_agent/mean") == pytest.approx(0.375) for entry in trainer.state.log_history)


@needs_training
def test_models_of_trl_that_call_tools_submit_files_and_read_verdicts(tmp_path: Path) -> None:
    """Run three steps of TRL's tool loop. The answers of the tiny model are replaced: file 1 is wrong, file 2 is
    right.
    """
    require_training()
    from datasets import Dataset

    model, tokenizer = model_that_calls_tools(tmp_path / "tiny")
    problems = asyncio.run(toy.Problems().open(toy.NAMES))
    shown: list[str] = []
    trainer = trainer_that_submits(lambda number: f"class ModelNew:\n    number = {number}\n", shown)(
        model,
        environment_factory=functools.partial(TrlEnvironment, problems, DEFAULT, turns=2),
        args=settings(tmp_path, max_completion_length=1024),
        train_dataset=Dataset.from_list(TrlReward(problems, DEFAULT).rows(context_tokens=2048, render=toy.render)),
        processing_class=tokenizer,
    )
    trainer.train()
    assert trainer.state.global_step == 3
    assert any("wrong_values" in text and "number = 1" in text for text in shown)
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    assert rewards == [pytest.approx((wrong_values() + 1.0) / 2)] * 3


def wrong_values() -> float:
    reply = asyncio.run(KernelEpisode(problem(), DEFAULT).answer(numbered(1)))
    assert reply.reward is not None
    return reply.reward

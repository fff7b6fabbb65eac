"""Problems as an environment for trainers of other libraries: the same prompts, verdicts and rewards as in this
package.

    with opened(["examples/"]) as problems:                                    # runs/train/environment.py
        reward = TrlReward(problems, recipe_named("default"))
        GRPOTrainer(model, reward_funcs=reward, train_dataset=Dataset.from_list(reward.rows(context_tokens=4096)), ...)

`KernelEpisode` is for trainers with several turns per episode. `TrlEnvironment` offers the same to TRL, for models that
submit files by calling a tool.

Not covered: rewards that compare a group (novelty, plan gains), and storing rollouts, because tokens and
log-probabilities stay in the other library.
"""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from triton_agent.memory.observation import BudgetLeft, Observation
from triton_agent.memory.records import Completion, Message
from triton_agent.policy.answer import write_answer
from triton_agent.policy.episode import Graded, observe, predecessor, step, trajectory_seed
from triton_agent.policy.llm.author import Render
from triton_agent.policy.llm.prompting import attempts, prompt
from triton_agent.policy.train.online.rollouts import OpenProblem, SharedVerdicts
from triton_agent.policy.train.prepare.recipes import Recipe
from triton_agent.policy.train.record import novelty
from triton_agent.policy.train.record.trajectories import reward_of

CHARACTERS_A_TOKEN = 3
"""Characters per token that are assumed without a tokenizer. Code has more, so a prompt is rather too short than too
long.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The result of an answer."""

    reward: float | None
    """None if the answer could not be measured. That says nothing about the policy, so do not train on the answer."""
    parts: Mapping[str, float | None]
    hack: bool
    over: bool
    """True after the last turn."""
    graded: Graded


class KernelEpisode:
    """An episode of several turns at one problem: send `messages` to the model, pass its text to `answer`, until
    `over`.
    """

    def __init__(
        self,
        problem: OpenProblem,
        recipe: Recipe,
        *,
        turns: int = 1,
        context_tokens: int = 8192,
        count: Callable[[str], int] | None = None,
        render: Render = prompt.render,
        seed: int = 0,
    ) -> None:
        """`context_tokens` limits the prompt; `count` counts its tokens with the model's tokenizer."""
        self._problem, self._recipe, self._turns = problem, recipe, turns
        self._tokens, self._render = context_tokens, render
        self._count = count or (lambda text: -(-len(text) // CHARACTERS_A_TOKEN))
        self._run, self._seed = f"environment-{uuid.uuid4().hex[:12]}", seed
        self._history: list[Graded] = []

    @property
    def observation(self) -> Observation:
        """The observation for the next answer."""
        turn = len(self._history)
        return observe(
            self._problem.view,
            self._problem.rules,
            self._history,
            BudgetLeft(turns=self._turns - turn),
            turn=turn,
            attempts_before=turn,
            seed=trajectory_seed(self._run, self._seed),
            parent=predecessor(self._history, turn=turn, index=0),
        )

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt for the next answer."""
        return self._render(self.observation, budget_tokens=self._tokens, count=self._count).messages

    @property
    def verdict(self) -> str:
        """The verdict on the last answer as text, for conversations that contain the answers themselves."""
        parent = self.observation.parent
        return attempts.told(parent) if parent else ""

    @property
    def over(self) -> bool:
        return len(self._history) >= self._turns

    async def answer(self, text: str, *, policy: str = "environment") -> Reply:
        """Judge an answer; raise ValueError after the last turn."""
        if self.over:
            raise ValueError(f"the episode was over after {self._turns} turns")
        seen = self.observation
        parent = seen.parent.attempt if seen.parent else None
        said = Completion(text=text, policy=policy)
        graded = await step(self._run, seen, said, self._problem.judge, parent=parent)
        self._history.append(graded)
        source = graded.attempt.source
        program = novelty.program(source) if source else ""
        reward = reward_of(graded.attempt, graded.evaluation, self._recipe, program=program)
        return Reply(
            reward=reward.total,
            parts=reward.parts,
            hack=reward.hack,
            over=self.over,
            graded=graded,
        )


class TrlReward:
    """A reward function for TRL's `GRPOTrainer`, for answers of one turn. Its rows name their problem in `problem`."""

    __name__ = "triton_agent"

    def __init__(self, problems: Mapping[str, OpenProblem], recipe: Recipe) -> None:
        self._recipe = recipe
        self._problems = {
            name: dataclasses.replace(problem, judge=SharedVerdicts(problem.judge))
            for name, problem in problems.items()
        }

    def rows(self, *, context_tokens: int, render: Render = prompt.render) -> list[dict[str, Any]]:
        """Return a row for each problem: its prompt, and its name, by which the reward finds it."""
        return [
            {
                "prompt": [
                    {"role": message.role, "content": message.content}
                    for message in KernelEpisode(
                        problem, self._recipe, context_tokens=context_tokens, render=render
                    ).messages
                ],
                "problem": name,
            }
            for name, problem in self._problems.items()
        ]

    async def __call__(
        self, *, completions: Sequence[Any], problem: Sequence[str], **columns: Any
    ) -> list[float | None]:
        """Return the rewards of a batch, None where an answer could not be measured."""
        texts = [said if isinstance(said, str) else said[-1]["content"] for said in completions]
        episodes = [KernelEpisode(self._problems[name], self._recipe) for name in problem]
        replies = await asyncio.gather(*(episode.answer(text) for episode, text in zip(episodes, texts)))
        return [reply.reward for reply in replies]


class TrlEnvironment:
    """An environment for TRL's `GRPOTrainer`, for models that call tools: they submit files and read the verdicts.

        environment_factory=functools.partial(TrlEnvironment, problems, recipe, turns=4)

    The rows are those of `TrlReward.rows`. The reward is that of the best file.
    """

    def __init__(self, problems: Mapping[str, OpenProblem], recipe: Recipe, *, turns: int = 4) -> None:
        self._problems, self._recipe, self._turns = problems, recipe, turns

    def reset(self, *, problem: str, **columns: Any) -> str:
        """Begin an episode at a problem, as TRL does for each row; return the text to add to its prompt."""
        self._episode = KernelEpisode(self._problems[problem], self._recipe, turns=self._turns)
        self._replies: list[Reply] = []
        return f"\n\nSubmit a file by calling `submit`, which tells you the verdict; up to {self._turns} are judged."

    async def submit(self, plan: str, file: str) -> str:
        """
        Have a kernel file judged.

        Args:
            plan: What the file does, and why that is fast.
            file: The complete Python file, with a class ModelNew.

        Returns:
            The verdict with measurements and, if the file failed, the error.
        """
        if self._episode.over:
            return f"The episode is over: {self._turns} files were judged, and no more will be."
        self._replies.append(await self._episode.answer(write_answer(plan, file)))
        return self._episode.verdict

    async def get_reward(self) -> float | None:
        """Return the reward of the best file; None if none could be measured."""
        replies = self._replies or [await self._episode.answer("")]
        return max((reply.reward for reply in replies if reply.reward is not None), default=None)

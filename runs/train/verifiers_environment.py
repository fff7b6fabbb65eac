"""The problems as an environment of the library verifiers, under the name that `src/triton_agent_verifiers.py` gives.

    vf-eval triton_agent_verifiers --env.taskset.problems '["examples"]' --env.turns 4 -m MODEL

The conversation is: the prompt that policies get, an answer with a file, its verdict, the next answer. Evaluators run
in the process of the environment, `at_once` episodes at a time; further ones wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from triton_agent.policy.train.environment import KernelEpisode
from triton_agent.policy.train.prepare.recipes import recipe_named
from triton_agent.runs.train.environment import Problems
from triton_agent.runs.train.online import problem_files


class KernelTasksetConfig(vf.TasksetConfig):
    problems: tuple[Path, ...] = (Path("examples"),)
    """Problem files, and folders of such files."""


class KernelData(vf.TaskData):
    problem: str
    """Name of the problem."""


class KernelTask(vf.Task[KernelData]):
    pass


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    def load(self) -> Iterator[KernelTask]:
        for name in problem_files([str(path) for path in self.config.problems]):
            yield KernelTask(KernelData(name=name, problem=name), self.config.task)


class KernelEnvironmentConfig(vf.EnvConfig):
    author: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    """The model that writes kernels. It gets no tools: its answers are complete files."""
    turns: int = 4
    """Most answers that are judged."""
    context_tokens: int = 8192
    """Token limit of a prompt."""
    recipe: str = "default"
    """Recipe that turns verdicts into rewards; see docs/training.md."""
    device: str = "auto"
    """Where files are judged: auto, cpu, cuda or cuda:N."""
    at_once: int = 8
    """Episodes whose files are judged at the same time."""


class KernelEnvironment(vf.Env[KernelEnvironmentConfig]):
    async def start(self) -> None:
        paths = [str(path) for path in self.config.taskset.problems]
        self._problems = Problems(paths, device=self.config.device, at_once=self.config.at_once)

    async def stop(self) -> None:
        if hasattr(self, "_problems"):
            self._problems.close()

    async def run(self, task: vf.Task[Any], agents: vf.Agents) -> None:
        rewards: list[float] = []
        passed = False
        async with self._problems.places, self._problems.using(task.data.problem) as problem:
            episode = KernelEpisode(
                problem,
                recipe_named(self.config.recipe),
                turns=self.config.turns,
                context_tokens=self.config.context_tokens,
            )
            system, said = episode.messages
            task = type(task)(task.data.model_copy(update={"system_prompt": system.content}), task.config)
            async with agents.author.interaction(task) as interaction:
                segment = await interaction.turn(said.content)
                while not segment.terminated:
                    reply = await episode.answer(segment.last_reply)
                    rewards += [] if reply.reward is None else [reply.reward]
                    passed |= reply.graded.standing.passed
                    if reply.over:
                        break
                    segment = await interaction.turn(episode.verdict)
        if not rewards:
            raise vf.EnvError(f"{task.data.problem}: no answer could be measured")
        interaction.trace.record_reward("best_file", max(rewards))
        interaction.trace.record_metric("passed", float(passed))


__all__ = ["KernelEnvironment", "KernelTaskset"]

"""A small online training in a process of its own, which can kill itself at a named moment.

    python -m tests.policy.train.online.toy MODEL FOLDER [--resume] [--kill MOMENT:COUNT]

The training, the store, the trainer and its checkpoints are real. Only the answers are picked from a list by their
seeds, and the verdict depends on the picked answer.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import itertools
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from tests.policy.llm.asking import Page
from tests.policy.train.evaluations import failed
from tests.verdicts import passed

from triton_agent.memory.observation import Observation, ProblemView
from triton_agent.memory.records import Attempt, Distribution, Grading, Message
from triton_agent.memory.store import Store
from triton_agent.policy.answer import write_answer
from triton_agent.policy.llm.author import LanguageAuthor
from triton_agent.policy.llm.engine import ModelQuestion, Sampled, Sampling, seeds_of
from triton_agent.policy.train.extra import require_training
from triton_agent.policy.train.online.rollouts import EpisodeStore, OpenProblem
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.tools.results import Evaluation, Finding

NAMES = ("first", "second", "third")
TRAINING = "20260101-000000-000000"
"""Id of every training. Answers are picked by seeds that follow from it. With ids drawn anew, in one of 130 updates all
answers to each problem were alike right or wrong, and nothing was left to learn.
"""
UPDATES, PROBLEMS, ANSWERS, TURNS = 4, 2, 4, 2
MOMENTS = ("answer", "verdict", "published", "step", "line", "checkpoint", "mark")
"""Moments at which the process can kill itself: after storing an answer or a verdict, after publishing weights, within
a step of the optimiser, after writing a line, within a checkpoint, and right before the checkpoint is marked as whole.
"""


class PickingEngine:
    """An engine that picks a text by the seed of the request and records the weights it was given."""

    name, version, context_tokens = "picking:1", "1", 2048

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.given: list[Path] = []
        self.asked = 0

    def count(self, text: str) -> int:
        return len(text.split())

    async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        await asyncio.sleep(0.01)
        self.asked += len(questions)
        return [[self._sampled(question, seed) for seed in seeds_of(question)] for question in questions]

    def _sampled(self, question: ModelQuestion, seed: int) -> Sampled:
        text = write_answer(f"Plan {seed % 7}.", f"class ModelNew:\n    number = {seed % 97}\n")
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return Sampled(
            text=text,
            prompt_ids=tuple(self._tokenizer(question.messages[-1].content)["input_ids"]),
            token_ids=tuple(ids),
            log_probabilities=(-2.0,) * len(ids),
            log_probabilities_of=Distribution.SAMPLED,
            sampling=question.sampling.record(seed=seed, tokens_at_most=512),
        )

    async def reload(self, folder: Path) -> None:
        self.given.append(folder)

    async def close(self) -> None:
        """Do nothing."""


class EvenJudge:
    """A judge that passes even numbers."""

    def __init__(self) -> None:
        self.judged: list[str] = []

    async def evaluate_async(self, source: str, on_stage: object = None) -> Evaluation:
        await asyncio.sleep(0.005)
        self.judged.append(source)
        even = int(source.split("number = ")[1].split()[0]) % 2 == 0
        return passed() if even else failed(Finding.VALUES, launched=True)


class Problems:
    """Problems whose judges stay open."""

    names = NAMES

    def __init__(self) -> None:
        self.judges = {name: EvenJudge() for name in NAMES}

    async def open(self, names: Sequence[str]) -> Mapping[str, OpenProblem]:
        return {
            name: OpenProblem(
                view=ProblemView(digest=name * 8, name=name, spec={}, source="", fingerprint=name),
                judge=self.judges[name],
            )
            for name in names
        }


def render(observation: Observation, *, budget_tokens: int, count: Callable[[str], int]) -> Page:
    """Return a short prompt with the number of the turn."""
    said = Message(role="user", content=f"write {observation.problem.name} {observation.turn}")
    return Page(messages=(said,), version="toy/1", tokens=3)


def train(
    model: Path,
    folder: Path,
    *,
    resume: bool = False,
    engine: PickingEngine | None = None,
    problems: Problems | None = None,
    optimiser: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Any:
    """Train or resume in this process. `optimiser` are changes of `GRPOSettings`, all others of `OnlineSettings`."""
    require_training()
    import torch

    from triton_agent.policy.train.online import session
    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import load_tokenizer

    torch.manual_seed(0)
    settings = {"updates": UPDATES, "problems": PROBLEMS, "answers": ANSWERS, "turns": TURNS, "save_every": 2}
    settings |= {"batch_size": 3, "tokens_at_most": 512}
    engine = engine or PickingEngine(load_tokenizer(str(model)))
    with Store.open(folder / "runs.db") as store, mock.patch.object(session, "new_run_id", lambda now, salt: TRAINING):
        return session.train_online(
            str(model),
            problems or Problems(),
            LanguageAuthor(engine, Sampling(temperature=1.0, max_tokens=512), render=render),
            engine.reload,
            store,
            dataclasses.replace(RECIPES["default"], reasoning=0.0),
            GRPOSettings(output=folder / "out", cpu=True, learning_rate=1e-3, batch_size=8, **(optimiser or {})),
            session.OnlineSettings(**settings | changes),
            resume=resume,
        )


def kill_at(moment: str, count: int) -> None:
    """Make this process kill itself when it reaches the moment for the `count`-th time."""
    from transformers import Trainer

    from triton_agent.policy.train.online import session
    from triton_agent.policy.train.update.checkpoints import MarkWhole
    from triton_agent.policy.train.update.grpo import LoggedTrainer

    places: dict[str, tuple[Any, str, bool]] = {
        "answer": (EpisodeStore, "keep_answers", True),
        "verdict": (EpisodeStore, "keep_verdicts", True),
        "published": (session.Updates, "_publish", True),
        "step": (LoggedTrainer, "training_step", True),
        "line": (session.Lines, "add", True),
        "checkpoint": (Trainer, "_save_optimizer_and_scheduler", False),
        "mark": (MarkWhole, "on_save", False),
    }
    owner, name, after = places[moment]
    real, calls = getattr(owner, name), itertools.count(1)

    def dying(*arguments: Any, **keywords: Any) -> Any:
        dies = next(calls) == count  # several threads call this
        if dies and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = real(*arguments, **keywords)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, dying)


def records(folder: Path) -> dict[str, tuple[Attempt, list[Grading]]]:
    """Return all stored attempts and their gradings by key."""
    with Store.open(folder / "runs.db") as store:
        return {attempt.key: (attempt, gradings) for attempt, gradings in store.iterate()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--kill", default="")
    said = parser.parse_args()
    require_training()
    if said.kill:
        moment, _, count = said.kill.partition(":")
        kill_at(moment, int(count))
    train(said.model, said.folder, resume=said.resume)


if __name__ == "__main__":
    main()

"""Asks a policy in training and judges its answers, for held-out figures and `train eval`.

Equal files are judged once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from triton_agent.policy.answer import read_answer
from triton_agent.policy.episode import no_answer
from triton_agent.policy.train.evaluate.figures import Figures, JudgedAnswer, figures
from triton_agent.policy.train.evaluate.sampling import SampledTokens, sample
from triton_agent.policy.train.prepare.recipes import Recipe
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.results import Evaluation

Judge = Callable[[str, str], Evaluation]
"""Maps a problem's digest and a source to a verdict; raises InstrumentError if there is none."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrialTask:
    """A problem and the prompt that asks for a kernel."""

    problem: str
    """Digest of the problem."""
    prompt_ids: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    answers: int = 4
    """Answers per task."""
    tokens_at_most: int = 4096
    temperature: float = 1.0
    batch_size: int = 16
    seed: int = 0
    ks: tuple[int, ...] = (1,)


class Trial:
    """Tasks, and a judge that caches verdicts."""

    def __init__(self, tasks: Sequence[TrialTask], judge: Judge, tokenizer: Any, settings: TrialSettings) -> None:
        self.tasks = tuple(tasks)
        self.tokenizer = tokenizer
        self.settings = settings
        self._judge = judge
        self._known: dict[tuple[str, str], Evaluation | None] = {}

    def ask(self, model: Any, on_progress: Callable[[int, int], None] | None = None) -> list[JudgedAnswer]:
        """Return the model's judged answers to every task. Torch's generator is left unchanged.

        `on_progress` is called with the steps done and in total; sampling an answer and judging it count as a step
        each.
        """
        import torch

        chosen, tell = self.settings, on_progress or (lambda done, total: None)
        asked = [task for task in self.tasks for _ in range(chosen.answers)]
        with torch.random.fork_rng():
            torch.manual_seed(chosen.seed)
            answers = sample(
                model,
                [task.prompt_ids for task in asked],
                tokens_at_most=chosen.tokens_at_most,
                end_id=self.tokenizer.eos_token_id,
                pad_id=self.tokenizer.pad_token_id,
                temperature=chosen.temperature,
                batch_size=chosen.batch_size,
                on_progress=lambda done, total: tell(done, 2 * total),
            )
        judged = []
        for task, answer in zip(asked, answers):
            judged.append(self._judged(task.problem, answer))
            tell(len(answers) + len(judged), 2 * len(answers))
        return judged

    def figures(self, model: Any, recipe: Recipe) -> Figures:
        return figures(self.ask(model), recipe, ks=self.settings.ks)

    def logged(self, model: Any, recipe: Recipe) -> Mapping[str, float]:
        """Return the figures that a trainer logs: the estimates, and the share of answers without Triton."""
        found = {name: value.median for name, value in self.figures(model, recipe).values.items()}
        return {**found, "invalid": 1.0 - found["valid"]} if "valid" in found else found

    def text(self, answer: SampledTokens) -> str:
        said: str = self.tokenizer.decode(answer.token_ids, skip_special_tokens=True)
        return said

    def _judged(self, problem: str, answer: SampledTokens) -> JudgedAnswer:
        text = self.text(answer)
        source = read_answer(text).source
        if source is None:
            return JudgedAnswer(
                problem=problem, source="", evaluation=no_answer(text, problem, cut=not answer.finished)
            )
        return JudgedAnswer(problem=problem, source=source, evaluation=self.verdict(problem, source))

    def verdict(self, problem: str, source: str) -> Evaluation | None:
        """Return the verdict on a file; None if it could not be measured."""
        key = (problem, source)
        if key not in self._known:
            try:
                self._known[key] = self._judge(problem, source)
            except InstrumentError:
                return None  # not cached: the next try may succeed
        return self._known[key]

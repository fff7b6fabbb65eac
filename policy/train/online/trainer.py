"""The trainer of an online training: one optimiser that lives through all updates, fed with rows as they come.

The same loss, optimiser and checkpoints as for logged runs (`update/grpo.py`). What differs is where a batch comes
from: it is asked for when the step before it is done, so that it can have been sampled by the weights of that moment.
One process; several share neither rollouts nor judges.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Sampler
from transformers import TrainerCallback

from triton_agent.policy.train.prepare.credit import Advantage, TokenRole
from triton_agent.policy.train.prepare.prepared import TrainingRow
from triton_agent.policy.train.prepare.recipes import Recipe
from triton_agent.policy.train.record.spool import Numbers
from triton_agent.policy.train.update.grpo import GRPOSettings, LoggedTrainer

STEPS_AT_MOST = 10**6
"""The session ends the training; the library wants a number of steps all the same."""
NextBatch = Callable[["OnlineTrainer", int], Sequence[TrainingRow]]
"""Returns the rows of the next step, as many as asked for. Rolls out if there are none left."""
RATIO = "ratio"


class NothingLeft(Exception):
    """There is no further batch."""


class OnlineTrainer(LoggedTrainer):
    """Trains on the batches that `next_batch` returns."""

    def __init__(
        self,
        next_batch: NextBatch,
        *,
        settings: GRPOSettings,
        recipe: Recipe,
        model: Any,
        tokenizer: Any,
        longest: int,
        callbacks: Sequence[TrainerCallback] = (),
        peft_config: Any = None,
    ) -> None:
        """`longest` is the limit of tokens for an answer, by which a recipe may average its loss."""
        super().__init__(
            [_stand_in(longest)],
            settings=settings,
            recipe=recipe,
            model=model,
            tokenizer=tokenizer,
            callbacks=callbacks,
            peft_config=peft_config,
        )
        self.args.ignore_data_skip = True  # the data of a resumed training are in the store, not in a sampler
        self._next_batch = next_batch
        self.asks_ratio = False
        """True before a batch whose mean ratio is to be logged, which costs a forward pass."""

    def _get_train_sampler(self, dataset: Any = None) -> Endless:  # type: ignore[override]
        return Endless(STEPS_AT_MOST * self.args.generation_batch_size * self.args.steps_per_generation)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
        self.rows = self._next_batch(self, len(inputs))
        torch.manual_seed(self.args.seed * 1_000_003 + self.state.global_step)  # a resumed step orders rows alike
        batch = super()._generate_and_score_completions([{"row": place} for place in range(len(self.rows))])
        if self.asks_ratio:
            self._note(RATIO, self._mean_ratio(batch))
            self.asks_ratio = False
        return batch

    @torch.no_grad()
    def _mean_ratio(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the mean ratio of likelihoods, before the step over at sampling: 1 for what the weights just drew."""
        chosen = batch["completion_mask"] * batch["tool_mask"]
        ratios = (self.log_probabilities(batch) - batch["old_per_token_logps"]).exp()
        return (ratios * chosen).sum() / chosen.sum().clamp(min=1)


class Endless(Sampler[int]):
    """Yields the place of the only entry; which rows a batch has is decided when it is needed."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.length):
            yield 0


def _stand_in(longest: int) -> TrainingRow:
    """Return a row that tells the trainer the length of the longest answer and is never trained on."""
    nothing = Numbers(
        prompt_ids=array.array("I", [0]),
        token_ids=array.array("I", bytes(4 * longest)),
        log_probabilities=array.array("f", bytes(4 * longest)),
    )
    return TrainingRow(
        key="",
        numbers=nothing,
        roles=bytes((TokenRole.CODE,)) * longest,
        advantage=Advantage(plan=0.0, code=0.0),
        reward=0.0,
        parts={},
        hack=False,
        passed=False,
    )

"""The trainer of an online training: one optimiser through all updates, fed with rows as they are sampled.

Loss, optimiser and checkpoints are those of logged runs (`update/grpo.py`). The difference is where a batch comes from:
it is requested when the previous step is done, so that it can be sampled with the weights of that moment. There is one
process, since several would not share rollouts or judges.
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
"""The library requires a number of steps, although the session ends the training."""
NextBatch = Callable[["OnlineTrainer", int], Sequence[TrainingRow]]
"""Returns the rows of the next step, at most as many as requested; rolls out if there are none left."""
RATIO = "ratio"


class NothingLeft(Exception):
    """Raised if there is no further batch."""


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
        """`longest` is the token limit of an answer, by which some recipes average the loss."""
        super().__init__(
            [_placeholder_row(longest)],
            settings=settings,
            recipe=recipe,
            model=model,
            tokenizer=tokenizer,
            callbacks=callbacks,
            peft_config=peft_config,
        )
        self.args.ignore_data_skip = True  # a resumed training takes its data from the store, not from a sampler
        self._next_batch = next_batch
        self.asks_ratio = False
        """True before a batch whose mean ratio is logged, which costs a forward pass."""

    def _get_train_sampler(self, dataset: Any = None) -> Endless:  # type: ignore[override]
        return Endless(STEPS_AT_MOST * self.args.generation_batch_size * self.args.steps_per_generation)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
        self.parts = [self._next_batch(self, len(inputs))]
        # the order of rows in a step must not change on resume
        torch.manual_seed(self.args.seed * 1_000_003 + self.state.global_step)
        batch = super()._generate_and_score_completions([{"part": 0}])
        if self.asks_ratio:
            self._note(RATIO, self._mean_ratio(batch))
            self.asks_ratio = False
        return batch

    @torch.no_grad()
    def _mean_ratio(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the mean importance ratio before the step; 1 if the tokens were sampled with the current weights."""
        chosen = batch["completion_mask"] * batch["tool_mask"]
        ratios = (self.log_probabilities(batch) - batch["sampled"]).exp()
        return (ratios * chosen).sum() / chosen.sum().clamp(min=1)


class Endless(Sampler[int]):
    """Yields the index of the only entry. The rows of a batch are chosen when the batch is needed."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.length):
            yield 0


def _placeholder_row(longest: int) -> TrainingRow:
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

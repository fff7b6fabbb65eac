"""Multi-turn GRPO on logged trajectories in one file, to be read from top to bottom.

There is no trainer, no store, and no option that is not needed to understand the method. A trajectory is a
conversation: the policy answers, is told the verdict, and answers better. Each turn is one sample. Its prompt is the
conversation so far, its completion the tokens that the policy sampled. Both are stored as token ids when they are
sampled, with the log-probability of each sampled token and the reward of the turn. The steps are:

    rewards of turns  ->  returns  ->  advantages  ->  clipped, importance-weighted loss  ->  steps of an optimiser

The files beside this one add other baselines, separate credit for plan and code, trees (`credit.py`), rejection of
stale data (`off_policy.py`), several GPUs, checkpoints and LoRA (`grpo.py`). A test checks that the loss here equals
the loss there.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTurn:
    """One turn of a logged trajectory."""

    group: str
    """Name of the request. Trajectories of one group answer the same request and are compared with each other."""
    trajectory: str
    number: int
    """Number of the turn within its trajectory."""
    prompt_ids: Sequence[int]
    token_ids: Sequence[int]
    log_probabilities: Sequence[float]
    """Log-probability of each token under the policy that sampled it."""
    chosen: Sequence[bool]
    """False for tokens that the policy did not sample, such as a tool's answer; they have no loss."""
    reward: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the method, each with its usual value."""

    learning_rate: float = 1e-6
    batch_size: int = 16
    """Turns per step of the optimiser."""
    epochs: int = 1
    gamma: float = 0.4
    """Discount per turn for the rewards of later turns, which also count for a turn."""
    clip_low: float = 0.2
    clip_high: float = 0.28
    """Upper bound of the clip range, higher than the lower one so that unlikely tokens can become likelier quickly."""
    proximal: bool = False
    """For data of an older policy: clip against the policy before the step, and weight by the importance ratio."""
    weight_cap: float = 2.0
    """Largest importance weight."""
    drift_at_most: float = 0.05
    """Answers with a negative advantage are excluded once their tokens are less likely than when sampled by this many
    nats on average.
    """
    gradient_norm: float = 1.0
    temperature: float = 1.0
    """Temperature at which the tokens were sampled."""
    seed: int = 0


# -- from rewards to advantages ----------------------------------------------------------------------------------------


def returns(turns: Sequence[LoggedTurn], gamma: float) -> list[float]:
    """Return for each turn its own reward plus the discounted rewards of later turns."""
    later = defaultdict(list)
    for turn in turns:
        later[turn.trajectory].append(turn)
    return [
        math.fsum(
            gamma ** (other.number - turn.number) * other.reward
            for other in later[turn.trajectory]
            if other.number >= turn.number
        )
        for turn in turns
    ]


def advantages(turns: Sequence[LoggedTurn], gamma: float) -> list[float]:
    """Return how much better each turn did than the same turn of the *other* trajectories of its group on average.

    Leaving the turn itself out matters: included in the mean of N turns, it would scale its advantage by 1 - 1/N. A
    turn without a counterpart has advantage zero and teaches nothing.
    """
    gained = returns(turns, gamma)
    rivals = defaultdict(list)
    for turn, value in zip(turns, gained):
        rivals[turn.group, turn.number].append(value)
    found = []
    for turn, value in zip(turns, gained):
        others = rivals[turn.group, turn.number]
        found.append(value - (math.fsum(others) - value) / (len(others) - 1) if len(others) > 1 else 0.0)
    return found


# -- a batch -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Padded tensors: prompts on the left, completions on the right, aligned where completions begin."""

    ids: Tensor
    present: Tensor
    """1 for tokens, 0 for padding."""
    targets: Tensor
    """The completions alone, that is, the last columns of `ids`. The following tensors have the same columns."""
    chosen: Tensor
    sampled: Tensor
    """Stored log-probabilities of the completions."""
    advantages: Tensor


def make_batch(turns: Sequence[LoggedTurn], worth: Sequence[float], device: Any = "cpu") -> Batch:
    before = max(len(turn.prompt_ids) for turn in turns)
    width = max(len(turn.token_ids) for turn in turns)

    def right(rows: Sequence[Sequence[float]], kind: torch.dtype) -> Tensor:
        return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], dtype=kind, device=device)

    prompts = [[0] * (before - len(turn.prompt_ids)) + [*turn.prompt_ids] for turn in turns]
    in_prompt = [[0] * (before - len(turn.prompt_ids)) + [1] * len(turn.prompt_ids) for turn in turns]
    targets = right([turn.token_ids for turn in turns], torch.long)
    in_completion = right([[1] * len(turn.token_ids) for turn in turns], torch.long)
    return Batch(
        ids=torch.cat([torch.tensor(prompts, device=device), targets], dim=1),
        present=torch.cat([torch.tensor(in_prompt, device=device), in_completion], dim=1),
        targets=targets,
        chosen=right([turn.chosen for turn in turns], torch.float32),
        sampled=right([turn.log_probabilities for turn in turns], torch.float32),
        advantages=right([[value] * len(turn.token_ids) for turn, value in zip(turns, worth)], torch.float32),
    )


def log_probabilities_of(model: Any, ids: Tensor, present: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Return the model's log-probabilities of the last columns' tokens, each predicted one column earlier."""
    logits = model(input_ids=ids, attention_mask=present).logits
    predicted = logits[:, -targets.shape[1] - 1 : -1].float() / temperature
    found: Tensor = predicted.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return found


# -- the loss ----------------------------------------------------------------------------------------------------------


def clipped_loss(
    now: Tensor, before: Tensor, worth: Tensor, chosen: Tensor, *, clip_low: float, clip_high: float
) -> Tensor:
    """Make good tokens likelier and bad ones less likely, while the policy stays close to `before`.

    The ratio starts at 1, and its gradient is that of the log-probability. Once it leaves the clip range in the
    direction of the advantage, the minimum selects the clipped constant, and the token has no gradient. The mean is
    over the tokens of the whole batch, so that a long answer counts by its tokens and short answers are not preferred.
    """
    ratio = torch.exp(now - before)
    pulled = torch.min(ratio * worth, ratio.clamp(1 - clip_low, 1 + clip_high) * worth)
    return -(pulled * chosen).sum() / chosen.sum().clamp(min=1.0)


def batch_loss(model: Any, batch: Batch, settings: Settings) -> Tensor:
    """Return the loss of a batch. Without `proximal`, clip against the sampling policy; with it, use it for weights
    only.
    """
    now = log_probabilities_of(model, batch.ids, batch.present, batch.targets, settings.temperature)
    before, worth = batch.sampled, batch.advantages
    if settings.proximal:
        before = now.detach()
        drift = ((batch.sampled - before) * batch.chosen).sum(1, keepdim=True) / batch.chosen.sum(1, keepdim=True)
        unlearned = (worth < 0) & (drift > settings.drift_at_most)
        worth = worth * (before - batch.sampled).exp().clamp(max=settings.weight_cap) * ~unlearned
    return clipped_loss(now, before, worth, batch.chosen, clip_low=settings.clip_low, clip_high=settings.clip_high)


# -- the loop ----------------------------------------------------------------------------------------------------------


def batches(turns: Sequence[LoggedTurn], settings: Settings, device: Any = "cpu") -> Iterator[Batch]:
    """Yield each epoch's turns with an advantage, in a new order. Advantages are fixed because the rewards are
    logged.
    """
    worth = advantages(turns, settings.gamma)
    places = [place for place, value in enumerate(worth) if value != 0.0]
    order = torch.Generator().manual_seed(settings.seed)
    for _ in range(settings.epochs):
        shuffled = [places[i] for i in torch.randperm(len(places), generator=order).tolist()]
        for start in range(0, len(shuffled), settings.batch_size):
            picked = shuffled[start : start + settings.batch_size]
            yield make_batch([turns[i] for i in picked], [worth[i] for i in picked], device)


def train(
    model: Any,
    turns: Sequence[LoggedTurn],
    settings: Settings,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Train the model in place."""
    device = next(model.parameters()).device
    optimiser = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    model.train()
    for step, batch in enumerate(batches(turns, settings, device), start=1):
        loss = batch_loss(model, batch, settings)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_norm)
        optimiser.step()
        optimiser.zero_grad()
        on_step(step, float(loss.detach()))

"""Chooses the fine-tuning checkpoint from which to start reinforcement learning, by entropy among those that are good
enough.

The checkpoint with the lowest loss has often stopped exploring, and a policy cannot learn what it never tries. Among
checkpoints whose held-out loss is near the best, the one with the highest entropy is therefore taken. Without the bound
on the loss an untrained model would win.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

LOSS_SLACK = 0.1
"""Most nats per token by which a loss may exceed the best."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The measurements of a checkpoint."""

    folder: Path
    entropy: float
    """Nats per token, on the tokens of answers."""
    loss: float
    """Nats per token."""


def choose(found: Sequence[Checkpoint], slack: float = LOSS_SLACK) -> Checkpoint:
    """Return the checkpoint of highest entropy among those with a loss near the best."""
    if not found:
        raise ValueError("there is no checkpoint to choose from")
    best = min(checkpoint.loss for checkpoint in found)
    near = [checkpoint for checkpoint in found if checkpoint.loss <= best + slack]
    return max(near, key=lambda checkpoint: checkpoint.entropy)


def measure(folder: Path, conversations: Sequence[tuple[Sequence[int], Sequence[int]]], *, cpu: bool) -> Checkpoint:
    """Measure entropy and loss on pairs of prompt and answer, as token ids."""
    import torch

    from triton_agent.policy.train.update.scoring import scores_of
    from triton_agent.policy.train.update.session import load_frozen

    model = load_frozen(str(folder), cpu=cpu)
    entropies: list[float] = []
    losses: list[float] = []
    for prompt, answer in conversations:
        ids = torch.tensor([[*prompt, *answer]], device=model.device)
        likely, entropy = scores_of(model, ids, torch.ones_like(ids), len(answer), temperature=1.0)
        entropies += entropy[0].tolist()
        losses += (-likely[0]).tolist()
    count = len(losses)
    return Checkpoint(folder=folder, entropy=math.fsum(entropies) / count, loss=math.fsum(losses) / count)

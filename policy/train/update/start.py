"""Chooses the fine-tuning checkpoint from which to start reinforcement learning, by entropy among those that are good
enough.

The checkpoint with the lowest loss has often stopped exploring, and a policy cannot learn what it never tries. Among
checkpoints whose held-out loss is near the best, the one with the highest entropy is therefore taken. Without the bound
on the loss an untrained model would win. A model is often undecided about others' answers and sure of its own, so
entropy is that of its own answers.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

OWN_TOKENS_AT_MOST = 512
"""Tokens that are sampled of an answer. Whole answers of thousands of tokens would take longer than some trainings."""
LOSS_SLACK = 0.1
"""Most nats per token by which a loss may exceed the best."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The measurements of a checkpoint."""

    folder: Path
    entropy: float
    """Nats per token, on tokens that the model sampled itself."""
    loss: float
    """Nats per token."""


def choose(found: Sequence[Checkpoint], slack: float = LOSS_SLACK) -> Checkpoint:
    """Return the checkpoint of highest entropy among those with a loss near the best."""
    if not found:
        raise ValueError("there is no checkpoint to choose from")
    best = min(checkpoint.loss for checkpoint in found)
    near = [checkpoint for checkpoint in found if checkpoint.loss <= best + slack]
    return max(near, key=lambda checkpoint: checkpoint.entropy)


def measure(
    folder: Path,
    conversations: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    cpu: bool,
    batch_size: int = 8,
    own_tokens: int = OWN_TOKENS_AT_MOST,
) -> Checkpoint:
    """Measure the entropy of the model's own answers to the prompts, and the loss on the answers that are given.

    Conversations are pairs of prompt and right answer, as token ids. The same seed is used for every checkpoint.
    """
    import torch

    from triton_agent.policy.train.evaluate.sampling import sample
    from triton_agent.policy.train.update.session import load_frozen, load_tokenizer

    model, tokenizer = load_frozen(str(folder), cpu=cpu), load_tokenizer(str(folder))
    torch.manual_seed(0)
    drawn = sample(
        model,
        [prompt for prompt, _ in conversations],
        tokens_at_most=own_tokens,
        end_id=tokenizer.eos_token_id,
        pad_id=tokenizer.pad_token_id or 0,
        batch_size=batch_size,
    )
    own = [(prompt, one.token_ids) for (prompt, _), one in zip(conversations, drawn)]
    return Checkpoint(
        folder=folder,
        entropy=statistics.fmean(entropy for _, entropy in _scores(model, own, batch_size)),
        loss=-statistics.fmean(likely for likely, _ in _scores(model, conversations, batch_size)),
    )


def _scores(
    model: Any, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], batch_size: int
) -> Iterator[tuple[float, float]]:
    """Yield log-probability and entropy of each token of the answers."""
    import torch

    from triton_agent.policy.train.update.scoring import padded, scores_of

    pad = functools.partial(padded, filler=0, kind=torch.long, device=model.device)
    for start in range(0, len(pairs), batch_size):
        prompts, answers = zip(*pairs[start : start + batch_size])
        ids = torch.cat([pad(prompts, left=True), pad(answers)], 1)
        there = [[[1] * len(text) for text in texts] for texts in (prompts, answers)]
        present = torch.cat([pad(there[0], left=True), pad(there[1])], 1)
        found = scores_of(model, ids, present, max(map(len, answers)), temperature=1.0)
        for answer, *rows in zip(answers, *(scores.tolist() for scores in found)):
            yield from zip(*(row[: len(answer)] for row in rows))

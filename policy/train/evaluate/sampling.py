"""Samples answers from a model in training: their tokens and, on request, the log-probabilities that training needs.

For held-out evaluation and for small models. An engine samples faster, but needs its own copy of the weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SampledTokens:
    token_ids: tuple[int, ...]
    """Token ids, including the end token."""
    log_probabilities: tuple[float, ...]
    """Log-probabilities of the tokens; empty unless requested."""
    finished: bool
    """False if the answer was cut off at the limit."""


@torch.no_grad()
def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    tokens_at_most: int,
    end_id: int,
    pad_id: int,
    temperature: float = 1.0,
    batch_size: int = 16,
    scored: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[SampledTokens]:
    """Sample one answer to each prompt with torch's global generator; set its seed to repeat the answers.

    `scored` computes log-probabilities, which takes another forward pass. `on_progress` is called with the number of
    answers so far and in total.
    """
    found: list[SampledTokens] = []
    for start in range(0, len(prompts), batch_size):
        part = prompts[start : start + batch_size]
        found += _sample_batch(model, part, tokens_at_most, end_id, pad_id, temperature, scored)
        if on_progress is not None:
            on_progress(len(found), len(prompts))
    return found


def _sample_batch(
    model: Any,
    prompts: Sequence[Sequence[int]],
    tokens_at_most: int,
    end_id: int,
    pad_id: int,
    temperature: float,
    scored: bool,
) -> list[SampledTokens]:
    width = max(map(len, prompts))
    ids = torch.tensor([[pad_id] * (width - len(prompt)) + list(prompt) for prompt in prompts], device=model.device)
    present = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    ids = model.generate(
        input_ids=ids,
        attention_mask=present,
        max_new_tokens=tokens_at_most,
        do_sample=True,
        temperature=temperature,
        top_k=0,
        top_p=1.0,
        eos_token_id=end_id,
        pad_token_id=pad_id,
        # processes must call each layer together, even if their answers differ in length
        synced_gpus=isinstance(model, FSDPModule),
    )
    tokens = ids[:, width:]
    likely: list[list[float]] = [[]] * len(prompts)
    if scored:
        from triton_agent.policy.train.update.scoring import scores_of  # needs the extra `train`

        there = torch.cat([present, torch.ones_like(tokens)], 1)
        likely = scores_of(model, ids, there, tokens.shape[1], temperature)[0].tolist()
    return [_until_end(row, lps, end_id) for row, lps in zip(tokens.tolist(), likely)]


def _until_end(tokens: list[int], log_probabilities: list[float], end_id: int) -> SampledTokens:
    length = tokens.index(end_id) + 1 if end_id in tokens else len(tokens)
    return SampledTokens(
        token_ids=tuple(tokens[:length]),
        log_probabilities=tuple(log_probabilities[:length]),
        finished=end_id in tokens,
    )

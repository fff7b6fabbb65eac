"""Samples answers from a causal language model in memory, token by token, for several conversations in one batch.

The library's `generate` is not used, for three reasons. Each row needs its own generator, so that an answer does not
depend on the other rows. Only the log-probability of the sampled token is kept, not those of the whole vocabulary. And
sampling must be able to stop between two tokens. Not covered: beam search, speculative decoding.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers.cache_utils import DynamicLayer


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrawRequest:
    """Settings for one answer."""

    prompt_ids: tuple[int, ...]
    tokens_at_most: int
    temperature: float
    """0 takes the likeliest token and records its log-probability at temperature 1."""
    top_p: float
    top_k: int = 0
    """0 for no limit."""
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int


@dataclasses.dataclass(slots=True, kw_only=True)
class Drawn:
    """One answer, which grows while it is sampled."""

    token_ids: list[int] = dataclasses.field(default_factory=list)
    """Token ids, including the end token."""
    log_probabilities: list[float] = dataclasses.field(default_factory=list)
    finish_reason: str = ""
    """`stop` or `length`; empty while the answer is incomplete."""


F64 = torch.float64


class Stopped(Exception):
    """Raised if sampling was cancelled."""


@torch.inference_mode()
def draw(
    model: Any,
    rows: Sequence[DrawRequest],
    *,
    end_ids: frozenset[int],
    stop: Callable[[], bool] = bool,
    pause: Callable[[], None] = lambda: None,
) -> list[Drawn]:
    """Sample all rows as one batch, padded on the left. Each row stops at its end token or its limit.

    Between two tokens nothing is queued on the GPU: `pause` may wait there, and `stop` may end the sampling.
    """
    device = model.device
    width = max(len(row.prompt_ids) for row in rows)
    ids = torch.tensor([[0] * (width - len(row.prompt_ids)) + list(row.prompt_ids) for row in rows], device=device)
    present = torch.tensor([[0] * (width - len(r.prompt_ids)) + [1] * len(r.prompt_ids) for r in rows], device=device)
    positions = (present.cumsum(-1) - 1).clamp(min=0)  # padding has no position
    sampler = _Sampler(rows, device)
    drawn = [Drawn() for _ in rows]
    narrow = {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
    cache = None
    while not all(answer.finish_reason for answer in drawn):
        if stop():
            raise Stopped
        seen = model(
            input_ids=ids,
            attention_mask=present,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            **narrow,
        )
        if cache is None:
            _preallocate(seen.past_key_values, max(row.tokens_at_most for row in rows))
        cache = seen.past_key_values
        tokens, likely = sampler.next_tokens(seen.logits[:, -1])
        for answer, row, token, value in zip(drawn, rows, tokens.tolist(), likely.tolist()):
            _append(answer, row, token, value, end_ids)
        pause()
        ids = tokens.unsqueeze(1)
        present = torch.cat([present, torch.ones_like(ids)], dim=1)
        positions = positions[:, -1:] + 1
    return drawn


class _PreallocatedLayer(DynamicLayer):  # type: ignore[misc]  # the library is not read for types
    """Keys and values of one layer, in memory allocated for all tokens that may be sampled.

    The library's own layer is copied into new, slightly larger memory for each token. PyTorch keeps the freed memory,
    and nothing later fits into it, so sampling on a GPU would take all memory.
    """

    def __init__(self, filled: DynamicLayer, tokens: int) -> None:
        super().__init__()
        self.dtype, self.device = filled.dtype, filled.device
        self._all_keys, self.keys = _preallocated(filled.keys, tokens)
        filled.keys = None
        self._all_values, self.values = _preallocated(filled.values, tokens)
        filled.values = None
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens; return the keys and values of all tokens."""
        before = self.keys.shape[-2]
        after = before + key_states.shape[-2]
        self.keys, self.values = self._all_keys[..., :after, :], self._all_values[..., :after, :]
        self.keys[..., before:, :] = key_states
        self.values[..., before:, :] = value_states
        return self.keys, self.values


def _preallocate(cache: Any, tokens: int) -> None:
    """Preallocate memory for this many tokens in layers that grow; keep layers of other kinds."""
    layers = getattr(cache, "layers", [])
    for index, layer in enumerate(layers):
        if type(layer) is DynamicLayer and layer.get_seq_length():
            layers[index] = _PreallocatedLayer(layer, tokens)


def _preallocated(filled: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return memory for `tokens` more positions, and the view of it that holds a copy of `filled`."""
    *outer, length, width = filled.shape
    memory = filled.new_empty(*outer, length + tokens, width)
    kept = memory[..., :length, :]
    kept.copy_(filled)
    return memory, kept


def _append(answer: Drawn, row: DrawRequest, token: int, likely: float, end_ids: frozenset[int]) -> None:
    if answer.finish_reason:
        return  # finished; the row only fills the batch until the other rows are finished
    answer.token_ids.append(token)
    answer.log_probabilities.append(likely)
    if token in end_ids:
        answer.finish_reason = "stop"
    elif len(answer.token_ids) == row.tokens_at_most:
        answer.finish_reason = "length"


class _Sampler:
    """Samples tokens with each row's temperature, cut-offs and generator."""

    def __init__(self, rows: Sequence[DrawRequest], device: torch.device) -> None:
        self.greedy = torch.tensor([row.temperature == 0 for row in rows], device=device)
        self.temperature = torch.tensor([row.temperature or 1.0 for row in rows], device=device)
        self.top_p = torch.tensor([row.top_p if row.temperature else 1.0 for row in rows], device=device)
        self.cut = any(row.top_p < 1 for row in rows)
        self.top_k = [row.top_k for row in rows]
        self.min_p = torch.tensor([row.min_p for row in rows], device=device).unsqueeze(1)
        self.penalty = torch.tensor([row.repetition_penalty for row in rows], device=device).unsqueeze(1)
        self.seen = [list(row.prompt_ids) for row in rows]
        longest = max(row.tokens_at_most for row in rows)
        chances = [torch.rand(longest, generator=_generator(row, device), device=device, dtype=F64) for row in rows]
        self.chances = iter(torch.stack(chances, dim=1))
        """For each token, a random number from 0 to 1 per row, which depends only on the row's seed."""

    def next_tokens(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample a token for each row; return it with its log-probability in the distribution that it was sampled
        from.
        """
        scaled = self._penalised(logits.float()) / self.temperature.unsqueeze(1)
        for row, most in enumerate(self.top_k):
            if 0 < most < scaled.shape[1]:
                scaled[row].masked_fill_(scaled[row] < scaled[row].topk(most).values[-1], -torch.inf)
        if bool((self.min_p > 0).any()):
            # min_p times the probability of the likeliest token
            least = scaled.amax(-1, keepdim=True) + self.min_p.log()
            scaled = scaled.masked_fill(scaled < least, -torch.inf)
        if self.cut:
            scaled = _nucleus(scaled, self.top_p.unsqueeze(1))
        likely = scaled.log_softmax(-1)
        below = likely.to(F64).exp().cumsum(-1)
        tokens = torch.searchsorted(below, next(self.chances).unsqueeze(1) * below[:, -1:], right=True).squeeze(1)
        tokens = torch.where(self.greedy, likely.argmax(-1), tokens)
        for seen, token in zip(self.seen, tokens.tolist()):
            seen.append(token)
        return tokens, likely.gather(1, tokens.unsqueeze(1)).squeeze(1)

    def _penalised(self, logits: torch.Tensor) -> torch.Tensor:
        """Apply the repetition penalty to tokens of the conversation: divide positive logits, multiply negative
        ones.
        """
        if bool((self.penalty == 1).all()):
            return logits
        known = torch.zeros_like(logits, dtype=torch.bool)
        for row, seen in enumerate(self.seen):
            known[row, seen] = True
        return torch.where(known, torch.where(logits > 0, logits / self.penalty, logits * self.penalty), logits)


def _generator(row: DrawRequest, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(row.seed)


def _nucleus(scaled: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Keep the smallest set of likeliest tokens whose probabilities reach `top_p`."""
    ordered, order = scaled.sort(dim=-1, descending=True)
    before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
    return scaled.masked_fill(torch.zeros_like(scaled, dtype=torch.bool).scatter(1, order, before >= top_p), -torch.inf)

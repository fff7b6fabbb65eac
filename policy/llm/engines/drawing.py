"""Samples answers from a causal language model in memory, token by token, for several conversations in one batch.

The library's `generate` is not used, for three reasons. Each row needs its own generator, so that an answer does not
depend on the other rows. Only the log-probability of the sampled token is kept, not those of the whole vocabulary. And
sampling must be able to stop between two tokens. Not covered: beam search, speculative decoding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from triton_agent.policy.llm.engines.token_steps import FixedSteps, GrowingSteps, can_be_fixed


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
READ_EVERY = 16
"""Tokens after which a GPU's are read. To wait for each one would take longer than to compute it."""


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

    Between two tokens, or on a GPU every few tokens, nothing is queued: `pause` may wait there, and `stop` may end the
    sampling.
    """
    on_gpu = model.device.type == "cuda"
    longest = max(row.tokens_at_most for row in rows)
    sampler = Sampler(rows, model.device)
    chances = random_numbers(rows, longest, model.device)
    begun = GrowingSteps(model, [row.prompt_ids for row in rows], longest, chances)
    steps: GrowingSteps | FixedSteps = begun
    drawn = [Drawn() for _ in rows]
    taken = 0
    while not all(answer.finish_reason for answer in drawn):
        if stop():
            raise Stopped
        due = 1 if taken == 0 or not on_gpu else min(READ_EVERY, longest - taken)
        sampled = [steps.next(sampler.next_tokens) for _ in range(due)]
        for tokens, likely in sampled:
            for answer, row, token, value in zip(drawn, rows, tokens.tolist(), likely.tolist()):
                _append(answer, row, token, value, end_ids)
        pause()
        if taken == 0 and on_gpu and can_be_fixed(model, begun.cache):
            steps = FixedSteps(begun, graphs=True)
        taken += due
    return drawn


def _append(answer: Drawn, row: DrawRequest, token: int, likely: float, end_ids: frozenset[int]) -> None:
    if answer.finish_reason:
        return  # finished; the row only fills the batch until the other rows are finished
    answer.token_ids.append(token)
    answer.log_probabilities.append(likely)
    if token in end_ids:
        answer.finish_reason = "stop"
    elif len(answer.token_ids) == row.tokens_at_most:
        answer.finish_reason = "length"


class Sampler:
    """Samples tokens with each row's temperature and cut-offs. The CPU takes no part, so a GPU can do it in a graph."""

    def __init__(self, rows: Sequence[DrawRequest], device: torch.device) -> None:
        self.greedy = torch.tensor([row.temperature == 0 for row in rows], device=device)
        self.temperature = torch.tensor([row.temperature or 1.0 for row in rows], device=device).unsqueeze(1)
        self.top_p = torch.tensor([row.top_p if row.temperature else 1.0 for row in rows], device=device).unsqueeze(1)
        self.cut = any(row.top_p < 1 for row in rows)
        self.top_k = [row.top_k for row in rows]
        self.has_min_p = any(row.min_p > 0 for row in rows)
        self.min_p = torch.tensor([row.min_p for row in rows], device=device).unsqueeze(1)
        self.penalised = any(row.repetition_penalty != 1 for row in rows)
        self.penalty = torch.tensor([row.repetition_penalty for row in rows], device=device).unsqueeze(1)
        self.prompts = [row.prompt_ids for row in rows]
        self.known: torch.Tensor | None = None
        """For each row and token, whether the conversation contains it; only needed for the penalty."""

    def next_tokens(self, logits: torch.Tensor, chances: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample a token for each row by a random number from 0 to 1; return it with its log-probability in the
        distribution that it was sampled from.
        """
        scaled = self._penalised(logits.float()) / self.temperature
        for row, most in enumerate(self.top_k):
            if 0 < most < scaled.shape[1]:
                scaled[row].masked_fill_(scaled[row] < scaled[row].topk(most).values[-1], -torch.inf)
        if self.has_min_p:
            # min_p times the probability of the likeliest token
            least = scaled.amax(-1, keepdim=True) + self.min_p.log()
            scaled = scaled.masked_fill(scaled < least, -torch.inf)
        if self.cut:
            scaled = _nucleus(scaled, self.top_p)
        likely = scaled.log_softmax(-1)
        below = likely.to(F64).exp().cumsum(-1)
        tokens = torch.searchsorted(below, chances.unsqueeze(1) * below[:, -1:], right=True).squeeze(1)
        tokens = torch.where(self.greedy, likely.argmax(-1), tokens)
        if self.known is not None:
            self.known.scatter_(1, tokens.unsqueeze(1), True)
        return tokens, likely.gather(1, tokens.unsqueeze(1)).squeeze(1)

    def _penalised(self, logits: torch.Tensor) -> torch.Tensor:
        """Apply the repetition penalty to tokens of the conversation: divide positive logits, multiply negative
        ones.
        """
        if not self.penalised:
            return logits
        if self.known is None:
            self.known = torch.zeros_like(logits, dtype=torch.bool)
            for row, ids in enumerate(self.prompts):
                self.known[row, list(ids)] = True
        return torch.where(self.known, torch.where(logits > 0, logits / self.penalty, logits * self.penalty), logits)


def random_numbers(rows: Sequence[DrawRequest], longest: int, device: torch.device) -> torch.Tensor:
    """Return a row of random numbers from 0 to 1 for each token. A conversation's numbers depend only on its seed."""
    generators = [torch.Generator(device).manual_seed(row.seed) for row in rows]
    return torch.stack([torch.rand(longest, generator=g, device=device, dtype=F64) for g in generators], dim=1)


def _nucleus(scaled: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Keep the smallest set of likeliest tokens whose probabilities reach `top_p`."""
    ordered, order = scaled.sort(dim=-1, descending=True)
    before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
    return scaled.masked_fill(torch.zeros_like(scaled, dtype=torch.bool).scatter(1, order, before >= top_p), -torch.inf)

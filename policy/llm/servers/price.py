"""Prices of tokens. Only the user knows them: without a price an answer costs 0, and the page says so."""

from __future__ import annotations

import dataclasses
import math

from triton_agent.tools.errors import UsageError

PER = 1_000_000
"""Prices are per million tokens."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price per million tokens, in any currency."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None
    """Price of prompt tokens that were in the server's cache; None: the price of other prompt tokens."""

    def of(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float:
        cached = self.prompt if self.cached is None else self.cached
        fresh = prompt_tokens - cached_tokens
        return (fresh * self.prompt + cached_tokens * cached + completion_tokens * self.completion) / PER


UNKNOWN = Price()


def parse_price(text: str | None) -> Price:
    """Parse `0.15,0.60` or `0.15,0.60,0.075`: prices per million tokens of prompt, of answer, and of cached prompt."""
    if text is None:
        return UNKNOWN
    try:
        prompt, completion, *rest = (float(part) for part in text.split(","))
    except ValueError:
        prompt, completion, rest = math.nan, math.nan, []
    if len(rest) > 1 or not all(0 <= price < math.inf for price in (prompt, completion, *rest)):
        remedy = "two or three numbers per million tokens, prompt, answer and cached prompt, as in 0.15,0.60,0.075"
        raise UsageError(f"--price {text}", remedy=remedy)
    return Price(prompt=prompt, completion=completion, cached=rest[0] if rest else None)

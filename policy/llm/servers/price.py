"""Prices of tokens. Only the user knows them: without a price an answer costs 0, and the page says so."""

from __future__ import annotations

import dataclasses
import math

from triton_agent.tools.errors import UsageError

PER = 1_000_000
"""Prices are per million tokens."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price per million tokens, in any currency. Discounts for cached tokens are not covered."""

    prompt: float = 0.0
    completion: float = 0.0

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / PER


UNKNOWN = Price()


def parse_price(text: str | None) -> Price:
    """Parse `0.15,0.60`: price of a million prompt tokens, and of a million answer tokens."""
    if text is None:
        return UNKNOWN
    try:
        prompt, completion = (float(part) for part in text.split(","))
    except ValueError:
        prompt = completion = math.nan
    if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
        raise UsageError(f"--price {text}", remedy="two numbers per million tokens, prompt and answer, as in 0.15,0.60")
    return Price(prompt=prompt, completion=completion)

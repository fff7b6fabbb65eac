"""Prices of tokens."""

from __future__ import annotations

import pytest

from triton_agent.policy.llm.servers.price import UNKNOWN, Price, parse_price
from triton_agent.tools.errors import UsageError


def test_a_price_is_of_a_million_tokens() -> None:
    price = parse_price("0.15,0.60")
    assert price == Price(prompt=0.15, completion=0.6)
    assert price.of(2_000_000, 500_000) == pytest.approx(0.6)
    assert price.of(1_000_000, 0, cached_tokens=500_000) == pytest.approx(0.15), "no price of its own is known"
    assert parse_price("0.15,0.60,0.05").of(1_000_000, 0, cached_tokens=500_000) == pytest.approx(0.1)
    assert parse_price(None) == UNKNOWN and UNKNOWN.of(1000, 1000) == 0


@pytest.mark.parametrize("text", ["", "1", "1,2,3,4", "1,2,-3", "a,b", "-1,2", "nan,1", "1,inf"])
def test_a_wrong_price_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--price"):
        parse_price(text)

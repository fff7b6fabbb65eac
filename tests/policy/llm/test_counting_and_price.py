"""Estimates of tokens, and what they cost."""

from __future__ import annotations

import pytest

from triton_agent.policy.llm.price import UNKNOWN, Price, parse_price
from triton_agent.policy.llm.token_bound import token_bound
from triton_agent.tools.errors import UsageError

PYTHON = """@triton.jit
def kernel(x_ptr, out_ptr, n: tl.constexpr):
    offsets = tl.program_id(0) * 1024 + tl.arange(0, 1024)
"""


@pytest.mark.parametrize("text", ["word", "12345", "x = [1, 2]", "größer", "核函数", "\ud800", PYTHON])
def test_an_estimate_has_no_fewer_tokens_than_words_digits_and_signs(text: str) -> None:
    pieces = sum(1 for char in text if not char.isalnum() and not char.isspace() and char.isascii())
    assert token_bound(text) >= max(1, pieces, sum(char.isdigit() for char in text), len(text.split()))


def test_an_estimate_grows_with_the_text() -> None:
    assert token_bound("") == 0
    assert token_bound(PYTHON * 3) > 2 * token_bound(PYTHON)
    assert token_bound(PYTHON) < len(PYTHON)


def test_a_price_is_of_a_million_tokens() -> None:
    price = parse_price("0.15,0.60")
    assert price == Price(prompt=0.15, completion=0.6)
    assert price.of(2_000_000, 500_000) == pytest.approx(0.6)
    assert parse_price(None) == UNKNOWN and UNKNOWN.of(1000, 1000) == 0


@pytest.mark.parametrize("text", ["", "1", "1,2,3", "a,b", "-1,2", "nan,1", "1,inf"])
def test_a_wrong_price_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--price"):
        parse_price(text)

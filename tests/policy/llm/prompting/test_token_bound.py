"""Estimates of the number of tokens."""

from __future__ import annotations

import pytest

from triton_agent.policy.llm.prompting.counting import token_bound

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

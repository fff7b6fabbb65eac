"""Answers are taken apart whatever their form; what is wrong with one is said exactly."""

from __future__ import annotations

import pytest

from triton_agent.policy.answer import read_answer, write_answer

FILE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"


def test_what_is_written_is_read_again() -> None:
    answer = read_answer(write_answer("One pass over the row.\nThen a store.", FILE))
    assert answer.plan == "One pass over the row.\nThen a store."
    assert answer.source == FILE
    assert answer.complaint == ""


@pytest.mark.parametrize(
    "text",
    [
        f"plan\n```python\n{FILE}```",
        f"plan\n```py\n{FILE}```\nthat is all",
        f"plan\n~~~\n{FILE}~~~",
        f"plan\n````python\n{FILE}````",
        f"plan\n  ```python\n{FILE}  ```",
        f"<think>should I?\n```python\nclass ModelNew: wrong\n```\n</think>plan\n```python\n{FILE}```",
        f"plan\n```python\nx = 1\n```\n```python\n{FILE}```",
        f"plan\n```python\nclass ModelNew:\n    old = 1\n```\nno, rather\n```python\n{FILE}```",
        f"plan\n```python\n{FILE}",
    ],
)
def test_the_last_complete_file_counts(text: str) -> None:
    assert (read_answer(text).source or "").strip() == FILE.strip()


def test_a_bare_file_is_an_answer() -> None:
    assert read_answer(FILE).source == FILE
    assert read_answer(f"I would fuse these.\n\n{FILE}").plan == "I would fuse these."


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("<think>hm", "thinking"),
        ("I give up.", "no ```python block"),
        ("```python\nclass Model: pass\n```", "class ModelNew"),
        ("```json\n{}\n```", "no ```python block"),
    ],
)
def test_what_is_missing_is_named(text: str, complaint: str) -> None:
    answer = read_answer(text)
    assert answer.source is None
    assert complaint in answer.complaint


def test_a_plan_holds_no_code() -> None:
    text = f"First this:\n```python\nx = 1\n```\nthen that.\n```python\n{FILE}```"
    assert "x = 1" not in read_answer(text).plan

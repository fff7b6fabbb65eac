"""The answer pattern allows exactly the answers that the parser reads."""

from __future__ import annotations

import re

from triton_agent.policy.answer import ANSWER_PATTERN, read_answer, write_answer

FILE = "import torch\nimport torch.nn as nn\n\n\nclass ModelNew(nn.Module):\n    pass\n"


def test_an_answer_as_it_should_be_is_allowed() -> None:
    text = write_answer("Fuse both loops.", FILE)
    assert re.fullmatch(ANSWER_PATTERN, text)
    assert read_answer(text).source == FILE


def test_answers_without_a_plan_or_a_model_are_not() -> None:
    for text in (write_answer("", FILE), write_answer("plan", "import torch\n"), "plan", f"plan\n```python\n{FILE}"):
        assert not re.fullmatch(ANSWER_PATTERN, text)

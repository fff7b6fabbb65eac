"""The mark `train` of tests that need the extra of that name; without it they skip. `make test-train` selects them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from triton_agent.policy.train.extra import missing_modules

Test = TypeVar("Test", bound=Callable[..., object])

SKIPS = pytest.mark.skipif(bool(missing_modules()), reason=f"training needs {', '.join(missing_modules())}")
NEEDS_TRAINING = [pytest.mark.train, SKIPS]
"""For `pytestmark`."""


def needs_training(test: Test) -> Test:
    marked: Test = pytest.mark.train(SKIPS(test))
    return marked

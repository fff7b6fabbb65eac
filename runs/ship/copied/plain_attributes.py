"""Parts of the guard (`machinery.py`) for files of models whose attributes are numbers, names and functions.

The text from the line that `MARKER` names replaces parts of the same names. Such an attribute does not change without
being replaced, so nothing in it needs to be looked at.
"""

from __future__ import annotations

from typing import Any

import torch

# -- which calls run the kernels ---------------------------------------------------------------------------------------


def _noted(value: Any) -> Any:
    """Return what shows later whether a value was changed: itself, or its class if it is a tensor, which may change."""
    return type(value) if isinstance(value, torch.Tensor) else value


def _is_as_noted(value: Any, noted: Any) -> bool:
    """Return whether a value is as it was noted, in code that torch.compile follows."""
    return not isinstance(value, torch.Tensor) and value == noted

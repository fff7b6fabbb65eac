"""How much memory operators ask for that make a tensor out of nothing, known before they take it."""

from __future__ import annotations

import math
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.verify.input_tensors import tensors_in


class AllowanceSpent(BaseException):
    """More was asked for than was allowed. The user's code, which may catch every `Exception`, is not meant to."""


class Allowance(UncompiledMode):  # type: ignore[no-untyped-call]
    """Inside, operators may ask for so many bytes together; then `AllowanceSpent` is raised, in place of the next."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = size_bytes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        self._left -= asked_elements(args) * dtype.itemsize
        if self._left < 0:
            raise AllowanceSpent
        return func(*args, **kwargs)


def asked_elements(args: Any) -> int:
    """What an operator that makes a tensor out of nothing is asked for; 0 for the others."""
    if any(True for _ in tensors_in(args)):
        return 0
    sizes = [arg for arg in args if isinstance(arg, (list, tuple)) and all(type(size) is int for size in arg)]
    return max((math.prod(size) for size in sizes), default=0)

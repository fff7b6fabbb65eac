"""How much memory the operators of a piece of code take for tensors, told in time to stop it."""

from __future__ import annotations

import math
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.verify.input_tensors import tensors_in


class AllowanceSpent(BaseException):
    """More was asked for than was allowed. The user's code, which may catch every `Exception`, is not meant to."""


class Allowance(UncompiledMode):  # type: ignore[no-untyped-call]
    """Inside, operators may take so many bytes together, given back or not; then `AllowanceSpent` is raised.

    What is asked for by its size is known before it is taken.
    """

    def __init__(self, size_bytes: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = size_bytes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        self._require(asked_elements(args) * dtype.itemsize)
        result = func(*args, **kwargs)
        given = {memory_of(tensor) for tensor in tensors_in((args, tuple(kwargs.values())))}
        self._left -= sum(_bytes(tensor) for tensor in tensors_in(result) if memory_of(tensor) not in given)
        self._require(0)
        return result

    def _require(self, size_bytes: int) -> None:
        if size_bytes > self._left:
            raise AllowanceSpent


def _bytes(tensor: torch.Tensor) -> int:
    """What a sparse one is made of was counted when it was made."""
    return tensor.nbytes if tensor.layout is torch.strided else 0


def asked_elements(args: Any) -> int:
    """What an operator that makes a tensor out of nothing is asked for; 0 for the others."""
    if any(True for _ in tensors_in(args)):
        return 0
    sizes = (arg for arg in args if isinstance(arg, (list, tuple)) and all(type(size) is int for size in arg))
    return math.prod(next(sizes, (0,)))  # strides come behind


def memory_of(tensor: torch.Tensor) -> int:
    """Address of the tensor's storage; 0 for tensors that have none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0

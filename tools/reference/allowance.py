"""Stop a piece of code before its operators take more memory for tensors than allowed."""

from __future__ import annotations

import math
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.reference.input_tensors import tensors_in


class TooLarge(ProblemError):
    """A run of the reference exceeded its limits and was stopped."""


class AllowanceSpent(BaseException):
    """More memory was asked for than allowed. No `Exception`, since the user's code may catch every one of those."""


class Allowance(UncompiledMode):  # type: ignore[no-untyped-call]
    """Raise `AllowanceSpent` once operators inside have taken so many bytes together, freed or not.

    Memory that is asked for by its size is counted before it is taken.
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
        made = (tensor for tensor in tensors_in(result) if memory_of(tensor) not in given)
        # The parts of a sparse tensor were counted when they were made.
        self._left -= sum(tensor.nbytes for tensor in made if tensor.layout is torch.strided)
        self._require(0)
        return result

    def _require(self, size_bytes: int) -> None:
        if size_bytes > self._left:
            raise AllowanceSpent


def asked_elements(args: Any) -> int:
    """Return how many elements an operator is asked for that makes a tensor out of nothing; 0 for other operators."""
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

"""Stop a piece of code before its operators take more memory for tensors than allowed."""

from __future__ import annotations

import math
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.reference.input_tensors import map_tensors, tensors_in


class TooLarge(ProblemError):
    """A run of the reference exceeded its limits and was stopped."""


class AllowanceSpent(BaseException):
    """More memory was asked for than allowed. No `Exception`, since the user's code may catch every one of those."""


class Allowance(UncompiledMode):  # type: ignore[no-untyped-call]
    """Raise `AllowanceSpent` once operators inside have taken so many bytes together, freed or not.

    Memory of a large result is counted before it is taken, where torch can tell its size.
    """

    def __init__(self, size_bytes: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = size_bytes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        self._require(elements_made(func, args, kwargs, self._left // dtype.itemsize) * dtype.itemsize)
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


SMALL = 1 << 26
"""Elements of a result whose memory (256 MiB of float32) may be taken before its size is known."""

PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"})
NEVER_LARGER = frozenset(
    ("aten::cat", "aten::native_batch_norm", "aten::native_group_norm", "aten::native_layer_norm", "aten::addmv")
)
"""Operators with no more results than arguments. Running them, the pointwise ones and some products on meta tensors
would import torch's compiler, which takes a second."""


def elements_made(func: Any, args: Any, kwargs: Any, at_most: int) -> int:
    """Return the elements that an operator's largest result will have; 0 if not more than `at_most`, or unknown."""
    tensors = list(tensors_in((args, tuple(kwargs.values()))))
    given = sum(tensor.numel() for tensor in tensors)
    if not tensors:
        sizes = (arg for arg in args if isinstance(arg, (list, tuple)) and all(type(size) is int for size in arg))
        return math.prod(next(sizes, (0,)))  # strides come behind
    name = func.name().partition(".")[0]
    if func.is_view or name in NEVER_LARGER or given**2 <= max(at_most, SMALL):
        return 0
    try:
        if torch.Tag.pointwise in func.tags:
            return math.prod(torch.broadcast_shapes(*(it.shape for it in tensors)))  # type: ignore[no-untyped-call]
        if name in PRODUCTS:
            left, right = tensors[-2:]
            return left.numel() // max(left.shape[-1], 1) * right.shape[-1]
        with torch._C._DisableTorchDispatch():
            args, kwargs = map_tensors(args, _without_memory), map_tensors(kwargs, _without_memory)
            return max((tensor.numel() for tensor in tensors_in(func(*args, **kwargs))), default=0)
    except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return 0  # the operator has no such form, needs values, or is about to fail


def _without_memory(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def memory_of(tensor: torch.Tensor) -> int:
    """Address of the tensor's storage; 0 for tensors that have none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0

"""Limits on a run of the reference: the bytes that its operators may allocate, and the time that it may take."""

from __future__ import annotations

import math
import time
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.reference.input_tensors import map_tensors, tensors_in


class TooLarge(ProblemError):
    """A run of the reference exceeded its limits and was stopped."""


class AllowanceSpent(BaseException):
    """More memory was requested than allowed. Not an `Exception`, since the user's code may catch all of those."""


class Allowance(UncompiledMode):  # type: ignore[no-untyped-call]
    """Raises `AllowanceSpent` once the operators inside have allocated this many bytes in total, freed or not.

    A large result is counted before its memory is allocated, if torch can tell its size.
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
"""Number of elements (256 MiB of float32) up to which a result may be allocated before its size is known."""

PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"})
NEVER_LARGER = frozenset(
    ("aten::cat", "aten::native_batch_norm", "aten::native_group_norm", "aten::native_layer_norm", "aten::addmv")
)
"""Operators whose results are no larger than their arguments. Their sizes, and those of pointwise operators and some
products, are not computed on meta tensors, because that would import torch's compiler, which takes a second."""


def elements_made(func: Any, args: Any, kwargs: Any, at_most: int) -> int:
    """Return the elements of an operator's largest result before it runs; 0 if at most `at_most`, or if unknown."""
    tensors = list(tensors_in((args, tuple(kwargs.values()))))
    given = sum(tensor.numel() for tensor in tensors)
    if not tensors:
        sizes = (arg for arg in args if isinstance(arg, (list, tuple)) and all(type(size) is int for size in arg))
        return math.prod(next(sizes, (0,)))  # the first list is the shape; strides follow it
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
        return 0  # the operator does not run on meta tensors, depends on values, or is about to fail


def _without_memory(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def memory_of(tensor: torch.Tensor) -> int:
    """Return the address of the tensor's storage; 0 if it has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


SLOWED_AT_MOST = 3.0
"""Factor by which a busy machine may stretch the limit. Beyond it, time spent waiting counts as well."""


class TimeLimit:
    """Counts wall time or processor time, whichever is less: a process with many threads uses more of the latter."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._wall, self._processor = time.monotonic(), time.process_time()

    @property
    def is_over(self) -> bool:
        wall = time.monotonic() - self._wall
        if wall <= self.seconds:  # asked at every operator, and reading the processor's clock is a system call
            return False
        return max(time.process_time() - self._processor, wall / SLOWED_AT_MOST) > self.seconds

"""Runs a reference with TF32 products: float32 operands keep ten bits of their mantissa.

GPUs drop the other bits in two ways. Libraries round to the nearest value. A float32 `tl.dot` with default settings
passes the operand as it is, and the tensor core ignores the low bits, which errs two to three times as much and always
toward zero. If TF32 is allowed, a CPU runs the reference with rounding; the yardstick includes truncation as well, so
that a plain `tl.dot` is accepted. Not covered: the order of sums, which are done in float32 as the machine does them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.processes.torch_switches import Conditions

DROPPED_BITS = 13
"""float32 has 23 mantissa bits, TF32 has 10."""

OPERANDS = {
    "mm": (0, 1),
    "bmm": (0, 1),
    "addmm": (1, 2),
    "_addmm_activation": (1, 2),
    "addbmm": (1, 2),
    "baddbmm": (1, 2),
    "convolution": (0, 1),
    "_scaled_dot_product_flash_attention_for_cpu": (0, 1, 2),
    "_scaled_dot_product_efficient_attention": (0, 1, 2),
    "mkldnn_rnn_layer": (0, 1, 2),
    "_cudnn_rnn": (0, 1),
}
"""Operators that use tensor cores: their name in the dispatcher, and the positions of the multiplied arguments."""

BY_CUDNN = {name: OPERANDS[name] for name in ("convolution", "_cudnn_rnn")}
"""Operators that torch lets cuDNN run in TF32 by default. Whether cuDNN does so depends on the sizes."""

Around = Callable[[], contextlib.AbstractContextManager[Any]]


class TensorCores(UncompiledMode):  # type: ignore[no-untyped-call]
    """Rounds the float32 operands of products inside to TF32."""

    def __init__(self, *, cut: bool, operands: Mapping[str, tuple[int, ...]] = OPERANDS) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._cut, self._operands = cut, operands
        self.met = False
        """True once one of these operators has run."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        places = self._operands.get(func._schema.name.removeprefix("aten::"), ())
        self.met |= bool(places)
        args = tuple(self._narrowed(arg) if place in places else arg for place, arg in enumerate(args))
        return func(*args, **(kwargs or {}))

    def _narrowed(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self._narrowed(item) for item in value)
        if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
            return to_tf32(value, cut=self._cut)
        return value


def to_tf32(values: torch.Tensor, *, cut: bool) -> torch.Tensor:
    """Truncate the low bits, or round to nearest with ties away from zero. Non-finite values are unchanged."""
    bits = values.contiguous().view(torch.int32)
    increment = 0 if cut else 1 << (DROPPED_BITS - 1)
    narrow = ((bits + increment) & -(1 << DROPPED_BITS)).view(torch.float32)
    return torch.where(torch.isfinite(values), narrow, values)


def as_the_user_runs_it(conditions: Conditions, device: str) -> Around:
    """Return the context in which the reference computes as it does for the user."""
    if conditions.precision == "tf32" and device == "cpu":
        return lambda: _both(conditions, device, TensorCores(cut=False))
    return lambda: conditions.calling(device)


def at_the_coarsest(conditions: Conditions, device: str) -> Around | None:
    """Return the context with the largest error that TF32 may cause in the reference; None if TF32 is not allowed.

    On a GPU torch allows TF32 in convolutions by default, even at sizes where cuDNN does not use it.
    """
    if conditions.precision == "tf32":
        return lambda: _both(conditions, device, TensorCores(cut=True))
    if device == "cpu":
        return None
    return lambda: _both(conditions, device, TensorCores(cut=True, operands=BY_CUDNN))


@contextlib.contextmanager
def _both(conditions: Conditions, device: str, mode: TensorCores) -> Iterator[TensorCores]:
    with conditions.calling(device), mode:
        yield mode

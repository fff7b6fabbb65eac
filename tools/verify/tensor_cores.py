"""What TF32 makes of an original: float32 products whose operands keep ten bits of their mantissa.

Two ways to lose the rest, and both are ordinary on a GPU: libraries round to the nearest value, while a float32
`tl.dot` at its default has the tensor core ignore the low bits, which errs two to three times as much and always toward
zero. The first is how an original is run on a CPU where TF32 is allowed; the second is part of the yardstick there, so
that a kernel is not refused for being a plain `tl.dot`.

Sums are taken in float32, in the order of the machine it runs on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.isolate.conditions import Conditions

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
"""Operators that tensor cores work for, as they reach the dispatcher, and which of their arguments are multiplied."""

Around = Callable[[], contextlib.AbstractContextManager[Any]]


class TensorCores(UncompiledMode):  # type: ignore[no-untyped-call]
    """Products inside get their float32 operands in TF32."""

    def __init__(self, *, cut: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._cut = cut

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        places = OPERANDS.get(func._schema.name.removeprefix("aten::"), ())
        args = tuple(self._narrowed(arg) if place in places else arg for place, arg in enumerate(args))
        return func(*args, **(kwargs or {}))

    def _narrowed(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self._narrowed(item) for item in value)
        if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
            return to_tf32(value, cut=self._cut)
        return value


def to_tf32(values: torch.Tensor, *, cut: bool) -> torch.Tensor:
    """The low bits dropped, or rounded to nearest with ties away from zero; what is not finite stays."""
    bits = values.contiguous().view(torch.int32)
    increment = 0 if cut else 1 << (DROPPED_BITS - 1)
    narrow = ((bits + increment) & -(1 << DROPPED_BITS)).view(torch.float32)
    return torch.where(torch.isfinite(values), narrow, values)


def as_the_user_runs_it(conditions: Conditions, device: str) -> Around:
    """Surroundings in which an original gives what it gives the user."""
    if conditions.precision == "tf32" and device == "cpu":
        return lambda: _both(conditions, device, TensorCores(cut=False))
    return lambda: conditions.calling(device)


def at_the_coarsest(conditions: Conditions, device: str) -> Around | None:
    """Surroundings in which it errs as much as TF32 ever makes it; None where TF32 is not allowed."""
    if conditions.precision != "tf32":
        return None
    return lambda: _both(conditions, device, TensorCores(cut=True))


@contextlib.contextmanager
def _both(conditions: Conditions, device: str, mode: TensorCores) -> Any:
    with conditions.calling(device), mode:
        yield

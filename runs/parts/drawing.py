"""Describes a tensor argument of a submodule as a Python expression that draws a similar one.

It keeps shape, layout, and the properties of the values that matter for testing a part: their spread, their sign, a
causal mask. Values without such a description are refused, since a part that was tried on wrong inputs proves nothing.
"""

from __future__ import annotations

import math

import torch
from torch._subclasses.fake_tensor import FakeTensor

NARROW, WIDE = 0.25, 4.0
"""Spreads in this range are treated as 1, because problems are tried at several magnitudes anyway."""


class Indescribable(Exception):
    """A tensor or module cannot be described; holds the reason."""


def expression(tensor: torch.Tensor) -> str:
    """Return Python text that makes a similar tensor and uses only the name `torch`."""
    order = _order_in_memory(tensor)
    drawn = _values(tensor.detach().permute(order))
    back = [order.index(place) for place in range(tensor.dim())]
    return drawn if back == sorted(back) else f"{drawn}.permute({', '.join(map(str, back))})"


def case(tensor: torch.Tensor) -> str:
    """Return dtype and memory order as Python text, by which an assembled model chooses kernels."""
    return f"({tensor.dtype}, {tuple(_order_in_memory(tensor))})"


def _order_in_memory(tensor: torch.Tensor) -> list[int]:
    """Return dimensions from the widest stride to the narrowest, such that the tensor is contiguous in that order."""
    if tensor.layout is not torch.strided:
        raise Indescribable("an argument is sparse")
    order, strides = list(range(tensor.dim())), tensor.stride()
    if not tensor.is_contiguous():
        order.sort(key=lambda place: (-strides[place], place))
    if not tensor.permute(order).is_contiguous():
        raise Indescribable("an argument is a slice or an expanded view")
    return order


def _values(tensor: torch.Tensor) -> str:
    if tensor.is_complex():
        raise Indescribable("an argument is complex")
    if isinstance(tensor, FakeTensor):
        if tensor.is_floating_point():
            return f"torch.randn({_shape(tensor)}{_dtype(tensor)})"
        raise Indescribable("an argument holds whole numbers or a mask, and the model is too large to look at them")
    if tensor.numel() == 0:
        raise Indescribable("an argument is empty")
    tensor = tensor.cpu()
    same = tensor.flatten()[0]
    if tensor.numel() > 1 and bool((tensor == same).all()):
        return f"torch.full(({_shape(tensor)}{',' if tensor.dim() == 1 else ''}), {same.item()!r}{_named(tensor)})"
    if tensor.is_floating_point():
        return _floats(tensor)
    return _mask(tensor) if tensor.dtype is torch.bool else _integers(tensor)


def _floats(tensor: torch.Tensor) -> str:
    if not bool(torch.isfinite(tensor).all()):
        return _causal(tensor)
    wide = tensor.double()
    low, high, mean = float(wide.min()), float(wide.max()), float(wide.mean())
    if low >= 0:
        return f"torch.rand({_shape(tensor)}{_dtype(tensor)}){_times(high)}"
    spread = float(wide.std()) if wide.numel() > 1 else 1.0
    offset = f" + {_rounded(mean)}" if abs(mean) > spread else ""
    drawn = f"torch.randn({_shape(tensor)}{_dtype(tensor)}){_times(spread)}"
    return f"({drawn}{offset})" if offset else drawn


def _times(spread: float) -> str:
    if spread == 0.0 or not math.isfinite(spread) or NARROW <= spread <= WIDE:
        return ""
    return f".mul({_rounded(spread)})"


def _rounded(value: float) -> str:
    return repr(float(f"{value:.2g}"))


def _causal(tensor: torch.Tensor) -> str:
    """Describe an additive causal mask: zero up to the diagonal and minus infinity above it."""
    size = _shape(tensor)
    ones = torch.full_like(tensor, -math.inf)
    if tensor.dim() >= 2 and torch.equal(tensor, ones.triu(1)):
        return f"torch.full(({size}), float('-inf'){_named(tensor)}).triu(1)"
    raise Indescribable("an argument holds values that are not finite")


def _mask(tensor: torch.Tensor) -> str:
    size = _shape(tensor)
    if tensor.dim() >= 2:
        for word in ("tril()", "triu(1)", "triu()"):
            diagonal = 1 if word == "triu(1)" else 0
            ones = torch.ones_like(tensor)
            if torch.equal(tensor, ones.tril() if word == "tril()" else ones.triu(diagonal)):
                return f"torch.ones({size}, dtype=torch.bool).{word}"
    raise Indescribable("an argument is a mask that is not causal")


def _integers(tensor: torch.Tensor) -> str:
    low, high = int(tensor.min()), int(tensor.max())
    if tensor.dim() == 1 and torch.equal(tensor, torch.arange(tensor.numel(), dtype=tensor.dtype)):
        return f"torch.arange({tensor.numel()}{_dtype(tensor)})"
    return f"torch.randint({low}, {high + 1}, ({_shape(tensor)},){_dtype(tensor)})"


def _shape(tensor: torch.Tensor) -> str:
    return ", ".join(str(int(size)) for size in tensor.shape) or "()"


def _dtype(tensor: torch.Tensor) -> str:
    usual = torch.float32 if tensor.is_floating_point() else torch.int64
    return "" if tensor.dtype is usual else f", dtype={tensor.dtype}"


def _named(tensor: torch.Tensor) -> str:
    return f", dtype={tensor.dtype}"

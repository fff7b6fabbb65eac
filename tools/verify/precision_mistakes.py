"""Mistakes of precision: operands rounded to fewer bits than the outputs have, sums kept in half precision.

A float16 answer may have intermediates of float16: rounding them is within what every kernel is allowed. So only
formats coarser than the coarsest output are tried.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

from triton_agent.tools.verify.axis_mistakes import dimensions_of
from triton_agent.tools.verify.mistakes import CONTRACTIONS, Mistake
from triton_agent.tools.verify.operator_call import Call
from triton_agent.tools.worth import Family

TILE = 16
"""Terms added exactly before a sum is rounded: the smallest tile of a matrix unit."""


def to_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """A float32 with the 10 bits that a matrix unit looks at, rounded half up."""
    bits = tensor.float().contiguous().view(torch.int32)
    rounded = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
    return torch.where(torch.isfinite(tensor), rounded, tensor.float()).to(tensor.dtype)


def _through(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor.to(dtype).to(tensor.dtype)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """A format with fewer bits."""

    name: str
    unit: float
    """Spacing of numbers at one."""
    apply: Callable[[torch.Tensor], torch.Tensor]
    matrix_only: bool = False


FLOAT32 = Rounding(name="float32", unit=2.0**-23, apply=_through(torch.float32))
TF32 = Rounding(name="TF32", unit=2.0**-10, apply=to_tf32, matrix_only=True)
FLOAT16 = Rounding(name="float16", unit=2.0**-10, apply=_through(torch.float16))
BFLOAT16 = Rounding(name="bfloat16", unit=2.0**-7, apply=_through(torch.bfloat16))


def coarser_than(dtypes: list[torch.dtype]) -> tuple[Rounding, ...]:
    """Formats that none of these output dtypes excuses; for integers the coarsest alone."""
    units = [torch.finfo(dtype).eps for dtype in dtypes if dtype.is_floating_point]
    if not units:
        return (BFLOAT16,)
    return tuple(rounding for rounding in (FLOAT32, TF32, FLOAT16, BFLOAT16) if rounding.unit > max(units))


def imprecise(call: Call, roundings: tuple[Rounding, ...]) -> Iterator[Mistake]:
    """One operator computed on operands of fewer bits."""
    floats = [name for name, tensor in call.tensors.items() if tensor.is_floating_point()]
    if call.kind not in ("heavy", "arithmetic", "reduction") or not floats:
        return
    for rounding in roundings:
        if rounding.matrix_only and call.kind != "heavy":
            continue
        yield Mistake(
            family=Family.PRECISION,
            what=f"{call.name} on operands in {rounding.name}",
            result=_on_rounded(rounding),
        )
    if call.first.dtype in (torch.float16, torch.bfloat16):
        yield from _sums_in_half(call)


def _on_rounded(rounding: Rounding) -> Callable[[Call], Any]:
    return lambda call: call.run({n: rounding.apply(t) for n, t in call.tensors.items() if t.is_floating_point()})


def _sums_in_half(call: Call) -> Iterator[Mistake]:
    dims = dimensions_of(call) if call.name in ("sum", "mean") else None
    if call.name in CONTRACTIONS and call.get(CONTRACTIONS[call.name][0]).shape[-1] > TILE:
        result: Callable[[Call], Any] = _contracted_in_half
    elif dims is not None and call.get("dtype") is None and call.first.shape[dims[-1]] > TILE:
        result = _summed_in_half
    else:
        return
    name = str(call.first.dtype).removeprefix("torch.")
    yield Mistake(family=Family.PRECISION, what=f"accumulating {call.name} in {name}", result=result)


def _contracted_in_half(call: Call) -> Any:
    names = CONTRACTIONS[call.name]
    a, b = (call.get(name) for name in names)
    total: Any = 0
    for left, right in zip(torch.split(a, TILE, -1), torch.split(b, TILE, -2)):
        total = total + torch.matmul(left.float(), right.float()).to(a.dtype)
    if "mat1" in names or "batch1" in names:
        return call.get("beta") * call.get("self") + call.get("alpha") * total
    return total


def _summed_in_half(call: Call) -> Any:
    last = (dimensions_of(call) or [-1])[-1]
    total: Any = 0
    for part in torch.split(call.first, TILE, last):
        share = part.shape[last] / call.first.shape[last] if call.name == "mean" else 1.0
        total = total + (call.run({"self": part}).float() * share).to(call.first.dtype)
    return total

"""Mistakes of exchange: another operator in its place, operands the wrong way about, matrices transposed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from triton_agent.tools.verify.mistakes import CONTRACTIONS, Mistake, given, is_neutral
from triton_agent.tools.verify.operator_call import Call, sibling
from triton_agent.tools.worth import Family

EXCHANGES = (
    "add sub, mul div, maximum minimum, amax amin, max min, argmax argmin, cummax cummin, clamp_min clamp_max, "
    "any all, bitwise_and bitwise_or, logical_and logical_or, bitwise_left_shift bitwise_right_shift, remainder fmod, "
    "sin cos, sqrt rsqrt, floor ceil, exp exp2, log log2, sigmoid tanh, tril triu, gt lt, ge le, eq ne, silu relu"
)
EXCHANGED = {
    one: other for pair in EXCHANGES.split(", ") for one, other in (tuple(pair.split()), tuple(reversed(pair.split())))
} | {"round": "floor", "trunc": "floor", "relu": "abs", "gelu": "relu", "erf": "tanh", "max_pool2d": "avg_pool2d"}


def swapped(call: Call, result: Any) -> Iterator[Mistake]:
    """Another operator in its place, or operands the wrong way about."""
    other = EXCHANGED.get(call.name)
    operator = sibling(call, other) if other else None
    if operator is not None and not (call.name in ("add", "sub", "mul", "div") and is_neutral(call)):
        yield Mistake(
            family=Family.SWAPPED,
            what=f"{other} instead of {call.name}",
            result=lambda c: c.run(operator=operator),
        )
    if call.name.startswith("max_pool"):
        yield Mistake(
            family=Family.SWAPPED,
            what=f"the minimum instead of the maximum in {call.name}",
            result=lambda c: (lambda r: -r if isinstance(r, torch.Tensor) else (-r[0], *r[1:]))(
                c.run({"self": -c.first})
            ),
        )
    yield from _reversed_operands(call, result)
    yield from _transposed(call)


def _reversed_operands(call: Call, result: Any) -> Iterator[Mistake]:
    if call.name in ("sub", "div") and {"self", "other"} <= set(call.tensors):
        yield Mistake(
            family=Family.SWAPPED,
            what=f"the operands of {call.name} the wrong way about",
            result=lambda c: c.run({"self": c.get("other"), "other": c.get("self")}),
        )
    parts = call.get("tensors")
    if call.name == "cat" and isinstance(parts, (list, tuple)) and len({part.shape for part in parts}) < len(parts):
        yield Mistake(
            family=Family.SWAPPED,
            what="the parts of cat in reverse",
            result=lambda c: c.run({"tensors": list(reversed(c.get("tensors")))}),
        )


def _transposed(call: Call) -> Iterator[Mistake]:
    """Square matrices the wrong way round; filters flipped."""
    for name in CONTRACTIONS.get(call.name, ()):
        matrix = call.get(name)
        if matrix.shape[-1] == matrix.shape[-2] > 1:
            yield Mistake(
                family=Family.SWAPPED,
                what=f"transposing the square {name} of {call.name}",
                result=given(name, lambda matrix: matrix.mT),
            )
    weight = call.get("weight")
    if call.name == "convolution" and any(size > 1 for size in weight.shape[2:]):
        spatial = tuple(range(2, weight.dim()))
        yield Mistake(
            family=Family.SWAPPED,
            what="flipping the filters of convolution",
            result=lambda c: c.run({"weight": c.get("weight").flip(spatial)}),
        )

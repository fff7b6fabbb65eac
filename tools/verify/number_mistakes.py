"""Mistakes in the numbers and flags of one operator: a scale, a slope, an eps, a divisor, a mode.

What a number does not do here is not offered: a fill that stands for infinity, a guard against division by zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from triton_agent.tools.verify.mistakes import GUARD, Mistake, given, is_guard
from triton_agent.tools.verify.operator_call import Call
from triton_agent.tools.worth import Family

STAND_IN_FOR_INFINITY = 1e4
"""A constant this large is a mask's fill or a bound that is never met; ten per cent of it means nothing."""
EPSILON = 2e-3
"""Added constants from `GUARD` up to this are an eps."""


def constants(call: Call, result: Any) -> Iterator[Mistake]:
    """Numbers in the formula."""
    if call.kind not in ("arithmetic", "reduction", "heavy", "movement"):
        return
    for name, value in call.takes("number", "float", "Tensor"):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield from _other_number(call, name, value)
    yield from _other_word(call)
    for name, value in call.takes("bool"):
        if name in ("is_causal", "count_include_pad", "descending", "largest", "training") and _has_effect(call, name):
            yield Mistake(
                family=Family.CONSTANT,
                what=f"{name}={not value} in {call.name}",
                result=given(name, lambda flag: not flag),
            )
    if call.get("reduction") in (1, 2) and isinstance(result, (torch.Tensor, tuple)):
        wrong = 3 - int(call.get("reduction"))
        words = {1: "the mean instead of the sum", 2: "the sum instead of the mean"}[wrong]
        yield Mistake(
            family=Family.CONSTANT, what=f"{words} in {call.name}", result=given("reduction", lambda _: wrong)
        )


def _is_idle(call: Call, name: str, value: float) -> bool:
    """Numbers that do nothing in this call, or that are looked after elsewhere."""
    if name == "momentum":
        return not call.get("training")
    if value == 0:
        return call.name not in THRESHOLDED
    neutral = (name in ("alpha", "beta") and value == 1) or (name == "threshold" and call.name == "softplus")
    return neutral or name == "exponent" or abs(value) >= STAND_IN_FOR_INFINITY or is_guard(value)


THRESHOLDED = frozenset(
    ["clamp", "clamp_min", "clamp_max", "gt", "ge", "lt", "le", "threshold", "where", "masked_fill"]
)
"""Operators in which a zero is a number like any other."""


def _has_effect(call: Call, name: str) -> bool:
    if name == "count_include_pad":
        return any(call.get("padding") or ())
    return name != "training" or call.get("running_mean") is not None


def _other_number(call: Call, name: str, value: float) -> Iterator[Mistake]:
    is_eps = name in ("eps", "epsilon") or (call.name == "add" and GUARD <= value <= EPSILON)
    if is_eps:
        if value >= GUARD:
            yield _with_number(name, f"dropping eps in {call.name}", lambda v: v * 0)
            yield _with_number(name, f"ten times the eps in {call.name}", lambda v: v * 10)
    elif name == "correction":
        yield _with_number(name, f"the other divisor (n or n-1) in {call.name}", lambda v: 0 if v else 1)
    elif _is_idle(call, name, value):
        return
    elif value == 0 and call.first.is_floating_point():
        yield _with_number(name, f"{name} 0.1 instead of 0 in {call.name}", lambda v: v + 0.1)
    elif call.first.is_floating_point():
        yield _with_number(name, f"{name} 10% larger in {call.name}", lambda v: v * 1.1)
    else:
        yield _with_number(name, f"{name} larger by one in {call.name}", lambda v: v + 1)


def _with_number(name: str, what: str, change: Callable[[Any], Any]) -> Mistake:
    return Mistake(family=Family.CONSTANT, what=what, result=given(name, change))


OTHER_WORDS = {"approximate": {"none": "tanh", "tanh": "none"}, "rounding_mode": {"floor": "trunc", "trunc": "floor"}}


def _other_word(call: Call) -> Iterator[Mistake]:
    for name, exchange in OTHER_WORDS.items():
        word = str(call.get(name))
        if word in exchange:
            what = f"{name}={exchange[word]} in {call.name}"
            yield Mistake(family=Family.CONSTANT, what=what, result=given(name, exchange.__getitem__))
    if "attention" in call.name and call.get("scale") is None and "scale" in call.arguments:
        yield Mistake(
            family=Family.CONSTANT,
            what=f"scale 10% larger in {call.name}",
            result=lambda c: c.run({"scale": 1.1 / math.sqrt(c.first.shape[-1])}),
        )

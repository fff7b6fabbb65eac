"""Finds the numbers that the reference itself compares values with in a call.

A reference may ask whether a norm is zero, or clamp what stays far within its limits. A kernel that asks the same of
the same values has a predicate with one result in all calls, and nothing is wrong with it (`answers/one_sided.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.graph.operators import bare_name


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """A number that values are compared with."""

    number: float
    side: str
    """`above`, `below`, `equal` or `unequal`: where all values are; those above or below may be equal, too. `both` if
    they are not all on one side.
    """
    low: float
    """The least of the values."""
    high: float
    """The largest of the values."""


BOTH = "both"
COMPARING = {
    "gt": (("above", "unequal"), ("below",)),
    "ge": (("above",), ("below", "unequal")),
    "lt": (("below", "unequal"), ("above",)),
    "le": (("below",), ("above", "unequal")),
    "eq": (("equal",), ("unequal",)),
    "ne": (("unequal",), ("equal",)),
}
"""Sides of a limit that values are on if a comparison is true, and if it is false; those above may be equal to it."""
LIMITS = {
    "clamp": (1, 2),
    "clamp_min": (1,),
    "clamp_max": (1,),
    "hardtanh": (1, 2),
    "threshold": (1,),
    "softplus": (2,),
    "huber_loss": (3,),
    "smooth_l1_loss": (3,),
}
"""Positions of the limits among the arguments of operators that have some."""
USUAL: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("relu", "elu", "leaky_relu", "_prelu_kernel", "log_sigmoid_forward", "sign", "abs"), (0.0,)),
    **dict.fromkeys(("hardswish", "hardsigmoid"), (-3.0, 3.0)),
    **dict.fromkeys(("mish", "softplus"), (20.0,)),
}
"""Limits of operators that have the same ones always, or unless others are given."""
AROUND_ZERO: dict[str, float] = {"softshrink": 0.5, "hardshrink": 0.5}
"""Operators whose second argument is a limit with either sign, and what it is if none is given."""
DIFFERING = frozenset({"huber_loss", "smooth_l1_loss"})
"""Operators that compare the distance between their first two arguments with the limit."""


def told(name: str, result: bool) -> tuple[str, ...]:
    """Return the sides of a limit that values are on if a comparison has this result, the main one first."""
    return COMPARING[name][0 if result else 1]


class OwnLimits(UncompiledMode):  # type: ignore[no-untyped-call]
    """While this mode is on, notes the numbers that operators compare values with."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: set[Limit] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = bare_name(str(func))
        if name in COMPARING and isinstance(args[1], (int, float)):
            self._note(name, float(args[1]), args[0], result)
        else:
            for limit in _limits(name, args):
                values = (args[0] - args[1]).abs() if name in DIFFERING else args[0]
                self._note("lt", limit, values, values < limit)
        return result

    def _note(self, name: str, limit: float, values: torch.Tensor, flags: torch.Tensor) -> None:
        are_numbers = values == values  # NaN is neither above nor below
        numbers, flags = values[are_numbers], flags[are_numbers]
        if not len(numbers):
            return
        low, high, one = float(numbers.min()), float(numbers.max()), bool(flags.any())
        sides = told(name, one) if one == bool(flags.all()) else (BOTH,)
        self.found |= {Limit(limit, side, low, high) for side in sides}


def _limits(name: str, args: Sequence[Any]) -> list[float]:
    """Return the numbers that an operator compares its first argument with; none for complex values."""
    if any(isinstance(value, torch.Tensor) and value.is_complex() for value in args[:1]):
        return []
    if name in AROUND_ZERO:
        limit = float(args[1]) if len(args) > 1 else AROUND_ZERO[name]
        return [-limit, limit]
    given = [args[at] for at in LIMITS.get(name, ()) if at < len(args)]
    return [float(limit) for limit in given if isinstance(limit, (int, float))] or list(USUAL.get(name, ()))

"""Finds the limits of the reference's own that it never reaches.

A reference may ask whether a norm is zero, or clamp what stays far within its limits. A kernel that does the same has a
predicate with one result in all calls, as the reference has, and nothing is wrong with it (`answers/one_sided.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.graph.operators import bare_name

Limit = tuple[float, str]
"""A number with `above`, `below`, `equal` or `unequal`: all values that are compared with it are so."""
COMPARING = {
    "gt": (("above", "unequal"), ("below",)),
    "ge": (("above",), ("below", "unequal")),
    "lt": (("below", "unequal"), ("above",)),
    "le": (("below",), ("above", "unequal")),
    "eq": (("equal",), ("unequal",)),
    "ne": (("unequal",), ("equal",)),
}
"""Comparisons with what their results tell of a value, true ones first; a value above a limit may be equal to it."""
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
DIFFERING = frozenset({"huber_loss", "smooth_l1_loss"})
"""Operators whose limit is for the distance of their first two arguments."""


class OwnLimits(UncompiledMode):  # type: ignore[no-untyped-call]
    """While this mode is on, notes the numbers that operators compare values with, and with which results."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._results: dict[tuple[int, str, float], set[bool]] = defaultdict(set)
        self._order = 0

    def begin(self) -> None:
        """Begin another run of the reference, in which the same operators come in the same order."""
        self._order = 0

    def one_sided(self) -> frozenset[Limit]:
        """Return the limits on one side of which all values were in all runs."""
        return frozenset(
            (limit, told)
            for (_, name, limit), results in self._results.items()
            if len(results) == 1
            for told in COMPARING[name][0 if True in results else 1]
        )

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = bare_name(str(func))
        if name in COMPARING and isinstance(args[1], (int, float)):
            self._note(name, float(args[1]), args[0], result)
        elif name in LIMITS:
            values = (args[0] - args[1]).abs() if name in DIFFERING else args[0]
            for limit in (args[at] for at in LIMITS[name] if at < len(args)):
                if isinstance(limit, (int, float)):
                    self._note("lt", float(limit), values, values < limit)
        return result

    def _note(self, name: str, limit: float, values: torch.Tensor, flags: torch.Tensor) -> None:
        self._order += 1
        numbers = flags[values == values]  # NaN is neither above nor below
        if len(numbers):
            self._results[self._order, name, limit] |= {bool(numbers.any()), bool(numbers.all())}

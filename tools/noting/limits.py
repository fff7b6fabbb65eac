"""Tells limits of values that need no check from limits that do.

A limit is a constant in place of a value that compares so with one: `maximum(s, c)`, or `where(s < c, c, s)`. Kernels
limit values to keep divisors and logarithms away from zero, and results within a dtype. These limits are tiny, zero,
large or infinite. Any other limit of a total, such as a sum over a row, changes answers for inputs of a kind that need
not be among those that are checked, so it is a predicate. A limit of a single element is none: elements of every
magnitude occur in inputs.

Not covered: limits of whole numbers, which are places mostly; sums that a loop makes element by element; the factor
that a total was multiplied by before it is compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from triton_agent.tools.emulate.arithmetic import Handle, numbers
from triton_agent.tools.emulate.floats import Array
from triton_agent.tools.noting.bounds import compare, decides, of_constant
from triton_agent.tools.noting.origins import DATA, EXTREMA, LARGE, MAXIMA, TINY, active_lanes, bounds_in, data_in

FAR = 1e4
"""Smallest of the constants that stand for infinity, or for the largest number of a dtype."""
NEAR = 0.01
"""A value that comes so near to a limit, relative to it, counts as beyond it, too. A cosine reaches one, but does not
pass it, and quantised numbers reach -127, but not -128."""
NEAR_ZERO = 1e-3
"""The same for limits at zero: the variance of inputs times 0.01 is about 1e-4."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ValueLimit:
    """A total that a constant takes the place of where it is beyond a limit."""

    value: Handle
    """The value that is compared."""
    number: Handle
    """The constants that it is compared with."""
    kept: Handle
    """The value itself, or what was made of it."""
    other: Handle
    """The constants that replace it."""
    keeps: Array
    """Lanes on which the value is kept."""
    ending: str = ""
    """What is added to the place of an operation to name this limit of it."""
    is_least: bool = True
    """True for a limit from below, if the operation is an extremum."""

    @property
    def compared(self) -> tuple[float, str] | None:
        """The number of the limit, and how an extremum compares values with it; see `limit_of`."""
        low, high = of_constant(numbers(self.number))
        return (low, "GT" if self.is_least else "LT") if low == high else None

    def lanes_that_tell(self, flags: Array, active: Array | None) -> tuple[Array, Array | None]:
        """Return the flags of the limit and the lanes on which it makes a difference; both flags if a value is near.

        No lane tells anything of counts that are all at least one, where a kernel only avoids a division by zero.
        """
        kept, other = np.broadcast_arrays(numbers(self.kept), numbers(self.other))
        with np.errstate(all="ignore"):
            is_near = np.abs(kept - other) <= NEAR * np.abs(other)
            is_nearly_zero = np.abs(kept - other) <= np.where(other == 0, NEAR_ZERO, TINY)
        lanes = np.ones_like(is_near) if active is None else np.broadcast_to(active, is_near.shape)
        lanes = lanes & ~np.isnan(kept)
        if self._is_clamp():
            if (lanes & (is_near | is_nearly_zero)).any():
                return np.array([False, True]), None
        else:
            lanes = lanes & ~is_near
        if self._is_of_counts() and np.broadcast_to(self.keeps, lanes.shape)[lanes].all():
            lanes = np.zeros_like(lanes)
        return flags, lanes

    def _is_clamp(self) -> bool:
        """Return True if the value itself is limited, and replaced by the limit."""
        values, kept = numbers(self.value), numbers(self.kept)
        same = values.size == kept.size and np.array_equal(values.ravel(), kept.ravel(), equal_nan=True)
        number = of_constant(numbers(self.number))
        return same and number[0] == number[1] and number == of_constant(numbers(self.other))

    def _is_of_counts(self) -> bool:
        values, active = numbers(self.value), active_lanes(self.value)
        values = values if active is None else values[np.broadcast_to(active, values.shape)]
        return bool((numbers(self.number) <= 1).all() and (values >= 1).all() and (values == np.floor(values)).all())


def limits_of(name: str, args: Sequence[Any], handles: Sequence[Handle]) -> list[ValueLimit]:
    """Return the limits of totals that an extremum or `clamp` makes, other than those of guards."""
    if name == "create_clampf":
        value, ends = args[0], [(" from below", args[1], True), (" from above", args[2], False)]
    elif name in EXTREMA and len(handles) == 2 and len(data_in(handles)) == 1:
        value, constant = handles if DATA in handles[0].attr else reversed(handles)
        ends = [(" of a limit", constant, name in MAXIMA)]
    else:
        return []
    found = []
    for ending, constant, is_least in ends:
        if DATA not in value.attr or DATA in constant.attr or not asks_of_total(value, constant):
            continue
        if not decides("GT" if is_least else "LT", bounds_in(value), of_constant(numbers(constant))):
            keeps = compare("GT" if is_least else "LT", numbers(value), numbers(constant))
            found.append(
                ValueLimit(
                    value=value,
                    number=constant,
                    kept=value,
                    other=constant,
                    keeps=keeps,
                    ending=ending,
                    is_least=is_least,
                )
            )
    return found


def limit_by_choice(handles: Sequence[Handle], value: Handle, number: Handle) -> ValueLimit | None:
    """Return what limits a value, if a choice puts constants in place of a function of it by this comparison of it."""
    values = data_in(handles[1:])
    if len(values) != 1:
        return None
    kept = values[0]
    is_first = kept is handles[1]
    other = handles[2] if is_first else handles[1]
    is_moderate = numbers(other).dtype.kind in "iub" or bool((np.abs(numbers(other)) <= LARGE).all())
    if not is_moderate or kept.attr[DATA].stem != value.attr[DATA].stem:
        return None
    flags = handles[0].data
    return ValueLimit(value=value, number=number, kept=kept, other=other, keeps=flags if is_first else ~flags)


def asks_of_total(value: Handle, number: Handle) -> bool:
    """Return True if a comparison with these constants asks something of a total that no guard needs to know."""
    if not value.attr[DATA].is_total or not value.dtype.scalar.is_floating():
        return False
    sizes = np.abs(numbers(number))
    return bool(((sizes < FAR) & ((sizes > TINY) | value.attr[DATA].is_shifted)).any())

"""Finds the two numbers between which values of a kernel certainly lie, by interval arithmetic.

A comparison that asks for a number beyond them has one result, however inputs were made. Bounds say nothing about NaN:
values lie between them or are NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl

from triton_agent.tools.emulate.arithmetic import Handle, handle_of, numbers
from triton_agent.tools.emulate.floats import Array

Bounds = tuple[float, float]
ANY: Bounds = (-np.inf, np.inf)
FLAGS: Bounds = (0.0, 1.0)
SINES: Bounds = (-1.0, 1.0)

RISING: dict[str, Callable[[float], float]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "precise_sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "fp_to_si": np.trunc,
}
"""Functions that are the larger, the larger their argument is."""
FROM_ZERO = {"log", "log2", "sqrt", "precise_sqrt", "rsqrt"}
"""Functions that are NaN below zero."""
WITHIN = {"sin": SINES, "cos": SINES, "erf": SINES, "tanh": SINES}
SUMS, DIFFERENCES, PRODUCTS = {"fadd", "add"}, {"fsub", "sub"}, {"fmul", "mul"}
QUOTIENTS, SIZES = {"fdiv", "precise_divf"}, {"fabs", "iabs"}
GREATER, LESSER = {"maximumf", "maxnumf", "maxsi"}, {"minimumf", "minnumf", "minsi"}
DROPPING_NAN = {"maxnumf", "minnumf"}
COMPARED = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "GT": np.greater,
    "LE": np.less_equal,
    "GE": np.greater_equal,
}
"""Comparisons by the last letters of their names."""
CASTS = {"fp_ext", "fp_trunc", "fp_to_fp", "int_cast", "si_to_fp"}


def bounds_of(
    name: str,
    args: Sequence[Any],
    handles: Sequence[Handle],
    known: Sequence[Bounds],
    may_be_nan: Sequence[bool],
    result: Handle,
) -> Bounds:
    """Return bounds of the results of an operation of the builder, of whose operands, `handles`, these are known."""
    short = name.removeprefix("create_")
    if result.data.dtype == np.bool_:
        return _of_flags(short, handles, known)
    if result.dtype.scalar.is_ptr():
        return ANY
    if short == "extern_elementwise":
        short = re.sub(r"^__nv_(\w+?)f?$", r"\1", str(args[2]))
    with np.errstate(all="ignore"):
        if short in DROPPING_NAN or short == "clampf":
            return _in_type(*_without_nan(short, known, may_be_nan), result)
        return _in_type(*_exact(short, handles, known), result)


def of_constant(values: Array) -> Bounds:
    """Return the least and the largest of these numbers."""
    if not values.size:
        return ANY
    low, high = float(values.min()), float(values.max())
    return ANY if np.isnan(low) else (low, high)


def of_type(values: Handle) -> Bounds:
    """Return bounds of all numbers of the type of these values."""
    return FLAGS if values.data.dtype == np.bool_ else _in_type(*ANY, values)


def of_sum(terms: Bounds, count: int) -> Bounds:
    """Return bounds of the sum of `count` values, some of which may be left out."""
    return min(terms[0] * count, 0.0), max(terms[1] * count, 0.0)


def of_any_number(terms: Bounds) -> Bounds:
    """Return bounds that say no more than whether values are below zero, above zero, or both."""
    return -np.inf if terms[0] < 0 else 0.0, np.inf if terms[1] > 0 else 0.0


def of_product(one: Bounds, other: Bounds) -> Bounds:
    return _corners(np.multiply, one, other)


def compare(name: str, one: Any, other: Any) -> Any:
    """Return what a comparison of the builder gives for these numbers."""
    return COMPARED[name[-2:]](one, other)


def decides(name: str, one: Bounds, other: Bounds) -> bool:
    """Return True if all values within these bounds compare alike."""
    below, above = one[1] < other[0], one[0] > other[1]
    if below or above:
        return True
    comparison = name[-2:]
    if comparison in ("EQ", "NE"):
        return one[0] == one[1] == other[0] == other[1]
    if comparison in ("LT", "GE"):
        return one[0] >= other[1]
    return comparison in ("GT", "LE") and one[1] <= other[0]


def _of_flags(name: str, handles: Sequence[Handle], known: Sequence[Bounds]) -> Bounds:
    """Return (0, 0) or (1, 1) for flags that are certain, as far as whole numbers and other flags tell."""
    if len(known) != 2:
        return FLAGS
    if name == "and":
        return max(0.0, known[0][0] + known[1][0] - 1), min(known[0][1], known[1][1])
    if name == "or":
        return max(known[0][0], known[1][0]), max(known[0][1], known[1][1])
    is_whole = name[-2:] in COMPARED and not any(it.dtype.scalar.is_floating() for it in handles)
    wraps = name.startswith("icmpU") and min(known[0][0], known[1][0]) < 0
    if not is_whole or wraps or not decides(name, *known):
        return FLAGS
    flag = float(compare(name, known[0][0], known[1][0]))
    return flag, flag


def _exact(name: str, handles: Sequence[Handle], known: Sequence[Bounds]) -> Bounds:
    if name in WITHIN:
        return WITHIN[name]
    if name in CASTS:
        return known[0]
    if name in SIZES:
        low, high = known[0]
        return max(low, -high, 0.0), max(-low, high)
    if name in RISING:
        low, high = (float(RISING[name](max(end, 0.0) if name in FROM_ZERO else end)) for end in known[0])
        return low, high
    if name == "rsqrt":
        low, high = (max(end, 0.0) for end in known[0])
        return float(1 / np.sqrt(np.float64(high))), float(1 / np.sqrt(np.float64(low)))
    if name == "select":
        return min(low for low, _ in known[1:]), max(high for _, high in known[1:])
    if name == "fma":
        (low, high), (least, most) = of_product(known[0], known[1]), known[2]
        return low + least, high + most
    if len(known) != 2:
        return ANY
    one, other = known
    if name in SUMS:
        return one[0] + other[0], one[1] + other[1]
    if name in DIFFERENCES:
        return one[0] - other[1], one[1] - other[0]
    if name in PRODUCTS:
        low, high = of_product(one, other)
        return (max(low, 0.0) if handles[0] is handles[1] else low), high
    if name in QUOTIENTS:
        if other[0] > 0 or other[1] < 0:
            return _corners(np.divide, one, other)
        return (0.0, np.inf) if one[0] >= 0 and other[0] >= 0 else ANY
    if name in GREATER:
        return max(one[0], other[0]), max(one[1], other[1])
    if name in LESSER:
        return min(one[0], other[0]), min(one[1], other[1])
    if name == "and" and max(one[0], other[0]) >= 0:
        return 0.0, min(high for low, high in known if low >= 0)
    return ANY


def _corners(function: Callable[[float, float], float], one: Bounds, other: Bounds) -> Bounds:
    found = [float(function(np.float64(a), np.float64(b))) for a in one for b in other]
    found = [0.0 if np.isnan(it) else it for it in found]  # of zero and an infinity, which gives NaN or nearly that
    return min(found), max(found)


def _without_nan(name: str, known: Sequence[Bounds], may_be_nan: Sequence[bool]) -> Bounds:
    """Return bounds of an extremum that leaves out NaN, so that only certain numbers bound it."""
    if name == "clampf":
        return ANY if any(may_be_nan[1:]) else (known[1][0], known[2][1])
    lows, highs = zip(*known)
    certain = [it for it, is_nan in zip(known, may_be_nan) if not is_nan]
    if name in GREATER:
        return max((low for low, _ in certain), default=min(lows)), max(highs)
    return min(lows), min((high for _, high in certain), default=max(highs))


def _in_type(low: float, high: float, values: Handle) -> Bounds:
    """Return bounds as numbers of the type of these values; any number of it if they go beyond it."""
    element, kind = values.dtype.scalar, values.data.dtype
    if element == tl.float32:
        low, high = float(np.float32(low)), float(np.float32(high))
    elif element.is_floating():
        low, high = map(float, numbers(handle_of(np.array([low, high]), element)))
    elif kind.kind in "iu":
        least, most = float(np.iinfo(kind).min), float(np.iinfo(kind).max)
        return (low, high) if least <= low and high <= most else (least, most)
    else:
        return ANY
    return -np.inf if np.isnan(low) else low, np.inf if np.isnan(high) else high

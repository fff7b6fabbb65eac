"""Notes which numbers the elements of inputs are combined with in a kernel, place by place.

A kernel may treat one number differently from all others, and another one at every place. Wherever a loaded block, or a
line of it such as `2 * x + 1`, meets other values in an operation, the element that would equal its counterpart is
noted by its address; so are the bits of a float that meet integers. Of several counterparts of an element a random one
is kept. Not covered: blocks that were changed in another way after they were loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as stock

from triton_agent.tools.emulate.arithmetic import Handle, numbers
from triton_agent.tools.emulate.floats import Array

LOADED = "loaded"
"""Attribute of a handle whose values are a line of elements in memory."""
SHAPING = frozenset({"create_broadcast", "create_expand_dims", "create_reshape", "create_trans", "create_splat"})
CASTS = frozenset(
    {"create_fp_ext", "create_fp_trunc", "create_fp_to_fp", "create_int_cast", "create_si_to_fp", "create_ui_to_fp"}
)
SUMS = {"create_fadd": 1.0, "create_add": 1.0, "create_fsub": -1.0, "create_sub": -1.0}
"""Sign of the second operand."""
PRODUCTS = frozenset({"create_fmul", "create_mul"})
PAIRS_OF_AN_OPERATION, OPERATIONS = 1 << 12, 256
"""Maximum number of pairs kept of one operation, and of operations, both chosen at random."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Line:
    """`scale * element + shift` for the elements at these addresses; an address of zero stands for none."""

    addresses: Array
    scale: Array
    shift: Array
    is_bits: bool = False
    """True if the values are the bits of the elements, as integers."""


class Counterparts:
    """Collects, for each element in memory, a number that kernels combine it with."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._kept: list[tuple[Array, Array]] = []
        self._operations = 0
        self._chance = np.random.default_rng()

    def found(self) -> tuple[Array, Array]:
        """Return addresses, each once, and the number that the element there would have to be."""
        if not self._kept:
            return np.zeros(0, np.uint64), np.zeros(0)
        addresses, values = (np.concatenate(parts) for parts in zip(*self._kept))
        order = self._chance.permutation(len(addresses))
        unique, first = np.unique(addresses[order], return_index=True)
        return unique, values[order][first]

    def note(self, name: str, create: Callable[..., Any], args: Sequence[Any], result: Any) -> None:
        """Note one operation of the builder with its arguments and its result."""
        if name == "create_masked_load":
            active = np.ones(1, bool) if args[1] is None else getattr(args[1], "data", args[1])
            addresses = np.where(active, args[0].data, 0)
            result.attr[LOADED] = _Line(np.broadcast_to(addresses, result.data.shape), np.ones(1), np.zeros(1))
            return
        handles = [it for it in args if isinstance(it, stock.TensorHandle) and isinstance(it.data, np.ndarray)]
        sources = [it for it in handles if LOADED in it.attr]
        if not sources:
            return
        if name == "create_bitcast" and sources[0].dtype.scalar == tl.float32 and result.data.itemsize == 4:
            line = sources[0].attr[LOADED]
            if (line.scale == 1.0).all() and (line.shift == 0.0).all():
                result.attr[LOADED] = dataclasses.replace(line, is_bits=True)
        elif name in CASTS and result.data.shape == sources[0].data.shape:
            result.attr[LOADED] = sources[0].attr[LOADED]
        elif name in SHAPING and sources[0] is args[0]:
            line = sources[0].attr[LOADED]
            parts = (np.broadcast_to(it, args[0].data.shape) for it in (line.addresses, line.scale, line.shift))
            kinds = (tl.uint64, tl.float64, tl.float64)
            shaped = [create(stock.TensorHandle(it, kind), *args[1:]).data for it, kind in zip(parts, kinds)]
            addresses, scale, shift = shaped
            result.attr[LOADED] = _Line(addresses, scale, shift, line.is_bits)
        elif not _is_elementwise(handles, result):
            return
        for source, other in _pairs(handles):
            self._keep(source.attr[LOADED], numbers(other), whole=not source.dtype.scalar.is_floating())
        if len(handles) == 2 and not sources[0].attr[LOADED].is_bits and (name in SUMS or name in PRODUCTS):
            one, other = handles
            line = sources[0].attr[LOADED]
            if name in PRODUCTS:
                factor = numbers(other if sources[0] is one else one).astype(np.float64)
                result.attr[LOADED] = _Line(line.addresses, line.scale * factor, line.shift * factor)
            elif sources[0] is one:
                shift = line.shift + SUMS[name] * numbers(other)
                result.attr[LOADED] = _Line(line.addresses, line.scale, shift)
            else:
                sign = SUMS[name]
                result.attr[LOADED] = _Line(line.addresses, sign * line.scale, sign * line.shift + numbers(one))

    def _keep(self, line: _Line, values: Array, *, whole: bool) -> None:
        self._operations += 1
        at = len(self._kept) if len(self._kept) < OPERATIONS else int(self._chance.integers(self._operations))
        if at >= OPERATIONS:
            return
        if line.is_bits:
            exact = (values.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.float32).astype(np.float64)
        else:
            exact = (values - line.shift) / line.scale
        addresses, exact = (it.reshape(-1) for it in np.broadcast_arrays(line.addresses, exact))
        chosen = np.flatnonzero((addresses != 0) & np.isfinite(exact) & (np.abs(exact) <= 3e38))
        if len(chosen) > PAIRS_OF_AN_OPERATION:
            chosen = self._chance.choice(chosen, PAIRS_OF_AN_OPERATION, replace=False)
        near = exact[chosen].astype(np.float64 if whole else np.float32)
        if not whole and ((line.scale != 1.0).any() or (line.shift != 0.0).any()):  # the line is rounded, too
            way = self._chance.integers(-1, 2, len(near))
            near = np.where(way == 0, near, np.nextafter(near, np.where(way > 0, np.inf, -np.inf).astype(np.float32)))
        self._kept[at : at + 1] = [(addresses[chosen], near.astype(np.float64))]


def _is_elementwise(handles: Sequence[Handle], result: Any) -> bool:
    shapes = [it.data.shape for it in handles]
    try:
        return isinstance(result, stock.TensorHandle) and result.data.shape == np.broadcast_shapes(*shapes)
    except ValueError:  # a product of matrices
        return False


def _pairs(handles: Sequence[Handle]) -> Iterator[tuple[Handle, Handle]]:
    """Yield each operand that was loaded, with each other operand that is a number."""
    for source in handles:
        for other in handles:
            element = other.dtype.scalar
            if LOADED in source.attr and other is not source and not element.is_ptr() and element != tl.int1:
                yield source, other

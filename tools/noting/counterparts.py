"""Notes which numbers the elements of inputs are combined with in a kernel, place by place.

A kernel may treat one number differently from all others, and another one at every place. Wherever a loaded block, or a
line of it such as `2 * x + 1`, meets other values in an operation, the element that would equal its counterpart is
noted by its address; so are the bits of a float that meet integers. Of several counterparts of an element a random one
is kept. A sum of such lines is a line of its first element as long as the others stay what they are, so counterparts of
sums are kept apart. Not covered: blocks that were changed in another way after they were loaded.
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
    is_sum: bool = False
    """True if the values hold for the other elements of a sum as they are."""


@dataclasses.dataclass(slots=True)
class _Kept:
    """Addresses of elements with their counterparts, by operation."""

    pairs: list[tuple[Array, Array]] = dataclasses.field(default_factory=list)
    operations: int = 0


class Counterparts:
    """Collects, for each element in memory, a number that kernels combine it with."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._elements, self._sums = _Kept(), _Kept()
        self._chance = np.random.default_rng()

    def found(self, *, of_sums: bool = False) -> tuple[Array, Array]:
        """Return addresses, each once, and the number that the element there would have to be."""
        kept = (self._sums if of_sums else self._elements).pairs
        if not kept:
            return np.zeros(0, np.uint64), np.zeros(0)
        addresses, values = (np.concatenate(parts) for parts in zip(*kept))
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
        if name == "create_dot":
            _note_product(args[0], args[1], args[2], result)
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
            result.attr[LOADED] = dataclasses.replace(line, addresses=addresses, scale=scale, shift=shift)
        elif not _is_elementwise(handles, result):
            return
        for source, other in _pairs(handles):
            self._keep(source.attr[LOADED], numbers(other), whole=not source.dtype.scalar.is_floating())
        if len(handles) == 2 and not sources[0].attr[LOADED].is_bits and (name in SUMS or name in PRODUCTS):
            one, other = handles
            line = sources[0].attr[LOADED]
            scale, shift = line.scale, line.shift
            if name in PRODUCTS:
                factor = numbers(other if sources[0] is one else one).astype(np.float64)
                scale, shift = scale * factor, shift * factor
            elif sources[0] is one:
                shift = shift + SUMS[name] * numbers(other)
            else:
                scale, shift = SUMS[name] * scale, SUMS[name] * shift + numbers(one)
            is_sum = any(it.attr[LOADED].is_sum for it in sources)
            result.attr[LOADED] = dataclasses.replace(line, scale=scale, shift=shift, is_sum=is_sum)
        elif name == "create_fdiv" and len(handles) == 2 and len(sources) == 1 and sources[0] is handles[0]:
            line, divisor = sources[0].attr[LOADED], numbers(handles[1]).astype(np.float64)
            with np.errstate(divide="ignore", invalid="ignore"):
                line = dataclasses.replace(line, scale=line.scale / divisor, shift=line.shift / divisor)
            result.attr[LOADED] = line

    def _keep(self, line: _Line, values: Array, *, whole: bool) -> None:
        kept = self._sums if line.is_sum else self._elements
        kept.operations += 1
        at = len(kept.pairs) if len(kept.pairs) < OPERATIONS else int(self._chance.integers(kept.operations))
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
        kept.pairs[at : at + 1] = [(addresses[chosen], near.astype(np.float64))]


def note_sum(summed: Handle, along: int, result: Handle) -> None:
    """Note that `result` has the sums of a block along this axis: lines of the first loaded element of each."""
    line = summed.attr.get(LOADED)
    if line is None or line.is_bits:
        return
    totals = numbers(result).astype(np.float64)
    address, scale, own = (it.reshape(totals.shape) for it in _first_terms(summed, line, along)[1:])
    result.attr[LOADED] = _Line(address, scale, totals - own, is_sum=True)


def _first_terms(block: Handle, line: _Line, along: int) -> tuple[Array, Array, Array, Array]:
    """Return the place of the first loaded element of each sum along this axis, and its address, scale and term."""
    values = numbers(block).astype(np.float64)
    addresses, scale, shift = (np.broadcast_to(it, values.shape) for it in (line.addresses, line.scale, line.shift))
    first = np.expand_dims(((addresses != 0) & (scale != 0)).argmax(along), along)
    address, factor, own = (np.take_along_axis(it, first, along) for it in (addresses, scale, values - shift))
    return first, address, factor, own


def _note_product(a: Handle, b: Handle, before: Handle, after: Handle) -> None:
    """Note that `after` is `before` and the product of blocks a and b: lines of the first element of each row of a."""
    line, totals = before.attr.get(LOADED), numbers(after).astype(np.float64)
    if line is not None and not line.is_bits:
        shift = line.shift + totals - numbers(before)
        after.attr[LOADED] = dataclasses.replace(line, shift=shift, is_sum=True)
        return
    line = a.attr.get(LOADED)
    if line is None or line.is_bits:
        return
    first, address, scale, own = _first_terms(a, line, -1)
    factor = np.take_along_axis(numbers(b).astype(np.float64), first, -2)
    address = np.broadcast_to(address, totals.shape)
    after.attr[LOADED] = _Line(address, scale * factor, totals - own * factor, is_sum=True)


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

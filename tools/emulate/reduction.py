"""`tl.reduce` and `tl.associative_scan` on whole blocks at a time.

Both combine level by level, with one rounding per combination, so a bfloat16 sum shows the same error as on a GPU. The
candidate's own combining functions run on halved blocks instead of single elements, which takes log2(n) calls.

The order of elements matters only to functions that are not associative and commutative. A GPU keeps the order in a
scan. In a reduction it combines the elements of one thread in sequence, and then those of distant threads; the
interpreter does so too if the combining function is the candidate's own. For Triton's own functions it combines
neighbours, which changes at most the last bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as stock

from triton_agent.tools.emulate.arithmetic import Handle, handle_of, numbers
from triton_agent.tools.emulate.floats import Array
from triton_agent.tools.noting.counterparts import note_sum
from triton_agent.tools.noting.origins import note_combined, note_reduced, note_scanned

IN_SEQUENCE = 4
"""Number of neighbours that one thread combines in sequence: as many as it loads at once."""

Combine = Callable[[list[Array]], list[Array]]
"""Takes the data of the left operands followed by that of the right ones; returns the data of the results."""


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any) -> Any:
    """Replacement for `tl.reduce`."""
    if not isinstance(input, tuple):
        return reduce((input,), axis, combine_fn, keep_dims)[0]
    axis, rank = tl.core._unwrap_if_constexpr(axis), len(input[0].shape)
    along, dtypes = _checked(axis, rank), [part.dtype for part in input]
    arrays = [part.handle.data for part in input]
    if axis is None:
        arrays = [array.reshape(len(array), -1) for array in arrays]
    combined: list[Handle] = []
    combine = _combiner(combine_fn, dtypes, input, combined)
    is_own = tl.core._unwrap_if_constexpr(combine_fn) not in _KNOWN
    if is_own:
        step = min(IN_SEQUENCE, arrays[0].shape[along])
        first, *others = [[_every(array, along, step, offset) for array in arrays] for offset in range(step)]
        arrays = functools.reduce(lambda sofar, part: combine([*sofar, *part]), others, first)
    while arrays[0].shape[along] > 1:
        if is_own:
            halves = zip(*(np.split(array, 2, axis=along) for array in arrays))
        else:
            halves = zip(*([_every(array, along, 2, offset) for offset in (0, 1)] for array in arrays))
        arrays = combine([part for half in halves for part in half])
    arrays = [np.take(array, 0, axis=along) for array in arrays]
    if tl.core._unwrap_if_constexpr(keep_dims):
        shape = [-1, *(1 for _ in range(rank))]
        arrays = [array.reshape(shape) if axis is None else np.expand_dims(array, along) for array in arrays]
    reduced = tuple(map(_tensor, arrays, dtypes))
    if tl.core._unwrap_if_constexpr(combine_fn) is tl.standard._sum_combine and axis is not None:
        note_sum(input[0].handle, along, reduced[0].handle)
    handles, results = ([part.handle for part in parts] for parts in (input, reduced))
    function = tl.core._unwrap_if_constexpr(combine_fn)
    note_reduced(handles, None if axis is None else along, results, combine=function, combined=combined)
    return reduced


def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: Any) -> Any:
    """Replacement for `tl.associative_scan`."""
    if not isinstance(input, tuple):
        return associative_scan((input,), axis, combine_fn, reverse)[0]
    along, dtypes = _checked(tl.core._unwrap_if_constexpr(axis), len(input[0].shape)), [part.dtype for part in input]
    is_reversed = bool(tl.core._unwrap_if_constexpr(reverse))
    arrays = [np.flip(part.handle.data, along) if is_reversed else part.handle.data for part in input]
    combined: list[Handle] = []
    combine = _combiner(combine_fn, dtypes, input, combined)
    position = np.arange(arrays[0].shape[along]).reshape([-1 if d == along else 1 for d in range(arrays[0].ndim)])
    distance = 1
    while distance < arrays[0].shape[along]:
        earlier = [np.roll(array, distance, axis=along) for array in arrays]
        later = combine([*earlier, *arrays])
        arrays = [np.where(position >= distance, new, old) for new, old in zip(later, arrays)]
        distance *= 2
    scanned = tuple(_tensor(np.flip(a, along) if is_reversed else a, dtype) for a, dtype in zip(arrays, dtypes))
    note_scanned([part.handle for part in input], [part.handle for part in scanned], combined)
    return scanned


def _combiner(combine_fn: Any, dtypes: list[Any], like: Sequence[Any], combined: list[Handle]) -> Combine:
    """Return the combining function on arrays: with numpy for Triton's own functions, else by running the function.

    `like` are the tensors whose values it combines. `combined` is set to what running the function last returned.
    """
    combine_fn = tl.core._unwrap_if_constexpr(combine_fn)
    known = _KNOWN.get(combine_fn)
    count = len(dtypes)

    def with_numpy(operands: list[Array]) -> list[Array]:
        assert known is not None
        values = [numbers(stock.TensorHandle(data, dtype)) for data, dtype in zip(operands, [*dtypes, *dtypes])]
        return [handle_of(value, dtype).data for value, dtype in zip(known(*values), dtypes)]

    def by_running(operands: list[Array]) -> list[Array]:
        given = list(map(_tensor, operands, [*dtypes, *dtypes]))
        note_combined([part.handle for part in like], [part.handle for part in given])
        result = combine_fn(*given)
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != count:
            raise ValueError(f"the combining function gave {len(results)} values for {count} inputs")
        semantic = stock.interpreter_semantic
        combined[:] = [semantic.cast(value, dtype).handle for value, dtype in zip(results, dtypes)]
        return [handle.data for handle in combined]

    return by_running if known is None else with_numpy


def _first_largest(value: Array, index: Array, other: Array, other_index: Array) -> tuple[Array, Array]:
    wins = (value > other) | ((value == other) & (index < other_index))
    return np.where(wins, value, other), np.where(wins, index, other_index)


def _first_smallest(value: Array, index: Array, other: Array, other_index: Array) -> tuple[Array, Array]:
    wins = (value < other) | ((value == other) & (index < other_index))
    return np.where(wins, value, other), np.where(wins, index, other_index)


_KNOWN: dict[Any, Callable[..., tuple[Array, ...]]] = {
    tl.standard._sum_combine: lambda a, b: (a + b,),
    tl.standard._prod_combine: lambda a, b: (a * b,),
    tl.standard._elementwise_max: lambda a, b: (np.fmax(a, b),),
    tl.standard._elementwise_min: lambda a, b: (np.fmin(a, b),),
    tl.standard._xor_combine: lambda a, b: (a ^ b,),
    tl.standard._argmax_combine_tie_break_left: _first_largest,
    tl.standard._argmin_combine_tie_break_left: _first_smallest,
}
"""numpy versions of Triton's own combining functions."""


def _every(data: Array, along: int, step: int, offset: int) -> Array:
    return data[tuple(slice(offset, None, step) if d == along else slice(None) for d in range(data.ndim))]


def _checked(axis: int | None, rank: int) -> int:
    """Return the axis of the arrays, whose first axis is that of the programs."""
    if axis is None:
        return 1
    if not -rank <= axis < rank:
        raise ValueError(f"invalid axis {axis}. Expected {-rank} <= axis < {rank}")
    return axis % rank + 1


def _tensor(data: Array, dtype: Any) -> Any:
    shape = list(data.shape[1:])
    return tl.tensor(stock.TensorHandle(data, dtype), tl.block_type(dtype, shape) if shape else dtype)

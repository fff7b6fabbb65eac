"""Notes the predicates of a kernel on data: operations on loaded values whose result can be the same for all of them.

A kernel that treats certain inputs differently asks in some operation whether it has met them: in a comparison, a
minimum, a rounding to integers, a sum of which one term is too small to matter. For all other inputs the result of this
operation is always the same. So each such operation is noted by its place in the kernel, with its one result or as
having had several. A later call can be told to give another result there, which shows if an answer depends on it.

Lanes that were masked off where they were loaded do not count. Kernels also guard themselves against what their module
never leads to, and inputs of these kinds are tried wherever a module accepts them. So these are not noted:

    random numbers            what they decide
    single elements           as they were given: numbers that kernels name or meet are planted in inputs
    places                    of the largest or smallest element
    not finite                if a value near memory, or the largest of a row, is NaN or infinite
    nothing at all            if a sum of exponentials is zero
    limits                    a number replaced by a constant where it compares so with a constant: `where(x < 0, 0, x)`
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import triton.runtime.interpreter as stock

from triton_agent.tools.emulate.arithmetic import Handle, handle_of, numbers
from triton_agent.tools.emulate.faults import LIBRARIES
from triton_agent.tools.emulate.floats import Array
from triton_agent.tools.noting.origins import (
    COMPARISONS,
    DATA,
    EXTREMA,
    Data,
    active_lanes,
    data_in,
    data_of,
    is_guard,
    new_origin,
    origin_of,
)
from triton_agent.tools.processes.protocol import OPERANDS, PredicateKind

OPEN = "open comparison"
"""Attribute of a handle: a comparison that is noted once it is known what it is for."""
LOADS = frozenset({"create_masked_load", "create_descriptor_gather", "create_atomic_rmw", "create_atomic_cas"})
LOADS_BY_THESE = frozenset({"create_load", "create_tensor_pointer_load", "create_descriptor_load"})
SUMS = frozenset({"create_fadd", "create_fsub"})
SCALING = SUMS | {"create_fmul", "create_fdiv", "create_precise_divf"}
COLLAPSING = (
    EXTREMA
    | SCALING
    | frozenset(
        {
            "create_and",
            "create_or",
            "create_xor",
            "create_shl",
            "create_lshr",
            "create_ashr",
            "create_sdiv",
            "create_udiv",
        }
        | {"create_srem", "create_urem", "create_umulhi", "create_fp_to_si", "create_fp_to_ui", "create_int_cast"}
        | {"create_floor", "create_ceil", "create_exp", "create_exp2", "create_erf", "create_cos"}
        | {"create_frem", "create_clampf", "create_extern_elementwise"}
    )
)
"""Operations, besides comparisons, that can map many values to one."""
ABSORBED_BY_ZERO = frozenset({"create_fmul", "create_and"})
STORES_APART = 256
"""Maximum number of stores of which it is known what they stored."""
RANDOM, SORTING = "/triton/language/random.py", "sorting"
SORTS = frozenset({"sort", "sort_impl", "topk", "bitonic_merge"})
"""Functions of Triton that put elements in order."""


@dataclasses.dataclass(slots=True)
class Seen:
    """The results of one operation: the one that it always had, or none if there were several."""

    line: int
    kind: PredicateKind
    only: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Open:
    """A comparison of a value with a constant. If it only limits the value to constants, it is not noted."""

    value: Handle
    site: str
    seen: Seen
    results: Array
    active: Array | None


class Predicates:
    """The operations on data of the kernels that ran, by place."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        """Files of the functions that run as kernels."""
        self.forced = ""
        """Place at which operations give another result."""
        self.clear()

    def clear(self) -> None:
        self.seen: dict[str, Seen] = {}
        self._stored: list[tuple[int, int, Data]] = []

    def computed(self, start: int, end: int) -> None:
        """Note that the memory between these addresses holds what was computed, and not given."""
        self._stored.append((start, end, Data()))

    def noted(self, name: str, create: Callable[..., Any], args: Sequence[Any], result: Any) -> Any:
        """Note one operation of the builder with its arguments; return its result, or the one that is forced here."""
        if name in LOADS_BY_THESE:
            return result
        handles = list(_handles(args))
        if name != "create_select" or not _is_limit(handles):
            for handle in handles:
                self._close(handle)
        if name == "create_masked_store":
            self._note_store(args[0], args[1], args[2])
            return result
        if name in LOADS:
            result.attr[DATA] = self._loaded(name, args, result)
            return result
        sources = data_in(handles)
        if not sources or result is None:
            return result
        place, within = self._place()
        if within == RANDOM:
            return result
        if within == SORTING:  # elements change their places, by sums of two of which one is then taken away
            is_element = any(source.attr[DATA].is_element for source in sources)
            for made in _handles([result]):
                made.attr[DATA] = Data(is_element=is_element)
            return result
        for made in _handles([result]):
            made.attr[DATA] = data_of(name, create, args, handles, made)
        if isinstance(result, stock.TensorHandle) and _may_decide(name, args, handles, sources):
            return self._decided(name, place, handles, sources, result)
        return result

    def _loaded(self, name: str, args: Sequence[Any], result: Handle) -> Data:
        """Return what is known of loaded values."""
        active, lanes, pointers = None, None, args[0].data if isinstance(args[0], stock.TensorHandle) else None
        if name.startswith("create_atomic"):
            return Data()
        if name == "create_masked_load" and args[1] is not None:
            mask = args[1]
            lanes = active = np.asarray(getattr(mask, "data", mask))
            if isinstance(mask, stock.TensorHandle) and DATA in mask.attr:  # data do not tell where data end
                active = mask.attr[DATA].active
            active = None if active is None else np.broadcast_to(active, result.data.shape)
        met = self._stored_at(pointers, lanes) if pointers is not None else []
        if met:
            return Data(
                active,
                origin=new_origin() if all(it.origin for it in met) else 0,
                is_element=all(it.is_element for it in met),
                is_tame=all(it.is_tame for it in met),
                is_mass=all(it.is_mass for it in met),
            )
        return Data(active, origin=new_origin(), is_element=True, is_tame=True)

    def _stored_at(self, pointers: Array, lanes: Array | None) -> list[Data]:
        """Return what is known of what was stored at these addresses."""
        span = _span(pointers, lanes)
        return [data for start, end, data in self._stored if span[0] < end and start <= span[1]] if span else []

    def _note_store(self, pointers: Handle, value: Handle, mask: Any) -> None:
        span = _span(pointers.data, None if mask is None else np.asarray(getattr(mask, "data", mask)))
        if span is None or DATA not in value.attr:
            return
        data = dataclasses.replace(value.attr[DATA], active=None)
        if len(self._stored) < STORES_APART:
            self._stored.append((span[0], span[1] + 1, data))
        else:
            start, end, _ = self._stored[-1]
            self._stored[-1] = min(start, span[0]), max(end, span[1] + 1), Data()

    def _decided(
        self, name: str, place: tuple[str, int], handles: Sequence[Handle], sources: Sequence[Handle], result: Handle
    ) -> Handle:
        """Note the result of an operation, and return it or the forced one."""
        site, line = place
        values, active = numbers(result), result.attr[DATA].active
        chosen, apart = values, f"{site} of two"
        if len(sources) == 2 and name in EXTREMA | SUMS:
            one, other = np.broadcast_arrays(numbers(handles[0]), numbers(handles[1]))
            other = -other if name == "create_fsub" else other
            chosen = np.where(values == one, 1.0, np.where(values == other, -1.0, 0.0))
            differ = (one != other) & ((one != 0) & (other != 0) if name in SUMS else True)
            self._note(apart, Seen(line, PredicateKind.EXTREMUM), chosen, differ if active is None else active & differ)
        if name.startswith(COMPARISONS):
            seen = Seen(line, PredicateKind.COMPARISON)
            if len(sources) == 1:
                result.attr[OPEN] = _Open(sources[0], site, seen, values, active)
            else:
                self._note(site, seen, values, active)
        elif name in ("create_and", "create_or") and values.dtype == np.bool_:
            self._note(site, Seen(line, PredicateKind.JOINT), values, active)
            for ending, operand in zip(OPERANDS, handles):
                self._note(site + ending, Seen(line, PredicateKind.OPERAND), numbers(operand), active_lanes(operand))
        elif name not in EXTREMA or len(sources) == 1:
            self._note(site, Seen(line, PredicateKind.OPERATION), values, active)
        if self.forced == apart:
            forced = np.where(chosen > 0, other, one)
        elif self.forced == site:
            forced = ~values if values.dtype == np.bool_ else np.where(values == 0, 1, 0).astype(values.dtype)
        else:
            return result
        changed = handle_of(forced, result.dtype.scalar)
        changed.attr.update(result.attr)
        return changed

    def _close(self, handle: Handle) -> None:
        """Note a comparison whose result is used, and not to limit a value."""
        found = handle.attr.pop(OPEN, None)
        if found is not None:
            self._note(found.site, found.seen, found.results, found.active)

    def _note(self, site: str, new: Seen, values: Array, active: Any) -> None:
        if active is not None:
            values = values[np.broadcast_to(active, values.shape)]
        if not values.size:
            return
        low, high = values.min(), values.max()  # NaN if there is one
        is_one = low == high or bool(np.isnan(values).all())
        is_one = is_one and (new.kind is not PredicateKind.EXTREMUM or low != 0)  # zero: neither of the two
        if site not in self.seen:
            new.only = float(low) if is_one else None
        seen = self.seen.setdefault(site, new)
        same = seen.only is not None and (seen.only == low or (math.isnan(seen.only) and np.isnan(low)))
        if not is_one or not same:
            seen.only = None

    def _place(self) -> tuple[tuple[str, int], str]:
        """Return the place of the operation that is under way with its line, and a part of Triton that it lies in."""
        frame, steps, line, within = sys._getframe(2), [], 0, ""
        while frame is not None:
            code = frame.f_code
            if code.co_filename in self.files:
                if code.co_filename.endswith(RANDOM):
                    within = RANDOM
                elif code.co_filename.startswith(LIBRARIES) and code.co_name in SORTS:
                    within = SORTING
                steps.append(f"{code.co_name}+{frame.f_lasti}")
                line = line or (0 if code.co_filename.startswith(LIBRARIES) else frame.f_lineno)
            frame = frame.f_back  # type: ignore[assignment]
        return ("/".join(steps), line), within


def _span(pointers: Array, lanes: Array | None) -> tuple[int, int] | None:
    """Return the lowest and the highest address of the active lanes."""
    if lanes is not None:
        pointers, lanes = np.broadcast_arrays(pointers, lanes)
        pointers = pointers[lanes]
    return (int(pointers.min()), int(pointers.max())) if pointers.size else None


def _is_limit(handles: Sequence[Handle]) -> bool:
    """Return True for a selection between a value and a constant by a comparison of this value with a constant."""
    if len(handles) != 3 or OPEN not in handles[0].attr:
        return False
    value, one, other = handles[0].attr[OPEN].value, *handles[1:]
    return (one is value and DATA not in other.attr) or (other is value and DATA not in one.attr)


def _may_decide(name: str, args: Sequence[Any], handles: Sequence[Handle], sources: Sequence[Handle]) -> bool:
    """Return True if the operation can be a predicate that is to be noted."""
    if not name.startswith(COMPARISONS) and name not in COLLAPSING:
        return False
    if origin_of(sources) or any(it.attr[DATA].is_guard for it in sources):
        return False
    if len(sources) == 1 and sources[0].attr[DATA].is_element:
        return False
    constants = [handle for handle in handles if DATA not in handle.attr]
    if name in ABSORBED_BY_ZERO and any(not it.data.any() for it in constants):
        return False
    return not is_guard(name, args, handles, sources)


def _handles(values: Any) -> Iterator[Handle]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _handles(value)
        elif isinstance(value, stock.TensorHandle) and isinstance(value.data, np.ndarray):
            yield value

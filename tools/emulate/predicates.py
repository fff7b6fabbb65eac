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
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as stock

from triton_agent.tools.emulate.arithmetic import Handle, handle_of, numbers
from triton_agent.tools.emulate.faults import LIBRARIES
from triton_agent.tools.emulate.floats import Array
from triton_agent.tools.processes.protocol import OPERANDS, PredicateKind

DATA, OPEN = "data", "open comparison"
"""Attributes of a handle: what is known of values that were computed from loaded ones, and a comparison that is noted
once it is known what it is for."""
LOADS = frozenset({"create_masked_load", "create_descriptor_gather", "create_atomic_rmw", "create_atomic_cas"})
LOADS_BY_THESE = frozenset({"create_load", "create_tensor_pointer_load", "create_descriptor_load"})
SHAPING = frozenset(
    {"create_broadcast", "create_expand_dims", "create_reshape", "create_trans", "create_splat", "create_unsplat"}
)
CASTS = frozenset(
    {"create_fp_ext", "create_fp_trunc", "create_fp_to_fp", "create_int_cast", "create_si_to_fp", "create_ui_to_fp"}
    | {"create_fabs", "create_iabs"}
)
"""Operations that leave NaN and infinities what they are."""
SUMS = frozenset({"create_fadd", "create_fsub"})
SCALING = SUMS | {"create_fmul", "create_fdiv", "create_precise_divf"}
PEAKS = frozenset({"create_maximumf", "create_maxnumf", "create_maxsi"})
EXTREMA = PEAKS | frozenset({"create_minimumf", "create_minnumf", "create_minsi", "create_minui", "create_maxui"})
COMPARISONS = ("create_icmp", "create_fcmp")
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
FLAGGING = CASTS | {"create_and", "create_or", "create_xor", "create_select"}
"""Operations, besides comparisons, that make flags of flags."""
CHOICES = CASTS | EXTREMA | {"create_select", "create_bitcast"}
"""Operations that choose among elements, or change nothing but their type."""
TAME = CHOICES | {"create_fadd", "create_fsub", "create_fmul"}
LARGE = 1e6
MASSES = CASTS | {"create_fadd", "create_fmul", "create_select"}
"""Operations that make sums of exponentials of such sums."""
WITHOUT_LANES = frozenset({"create_gather", "create_histogram", "create_cat", "create_join", "create_split"})
STORES_APART = 256
"""Maximum number of stores of which it is known what they stored."""
CHOOSING = (
    tl.standard._elementwise_max,
    tl.standard._elementwise_min,
    tl.standard._argmax_combine_tie_break_left,
    tl.standard._argmin_combine_tie_break_left,
)
"""Triton's functions that combine elements by choosing one of them."""
RANDOM, SORTING = "/triton/language/random.py", "sorting"
SORTS = frozenset({"sort", "sort_impl", "topk", "bitonic_merge"})
"""Functions of Triton that put elements in order."""


_NUMBERS = itertools.count(1)


@dataclasses.dataclass(frozen=True, slots=True)
class _Data:
    """What is known of values that were computed from loaded ones."""

    active: Array | None = None
    """Lanes that were not masked off; None if all are active."""
    origin: int = 0
    """What these values come from, if each comes from one element that no kernel wrote, or from one place that a
    reduction found, and from constants; 0 for others. Values of one origin lie alike in their blocks."""
    is_element: bool = False
    """True if each value comes from one element, or place, that was chosen by data, such as the largest one."""
    is_tame: bool = False
    """True for sums and products of loaded values, and for choices among them: finite if what was loaded is ordinary.
    """
    is_extremum: bool = False
    """True for the larger or the smaller one of two values."""
    is_mass: bool = False
    """True for exponentials and their sums."""
    is_guard: bool = False
    """True for flags that tell of NaN, an infinity or nothing at all."""


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
        self._stored: list[tuple[int, int, _Data]] = []

    def computed(self, start: int, end: int) -> None:
        """Note that the memory between these addresses holds what was computed, and not given."""
        self._stored.append((start, end, _Data()))

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
        sources = [handle for handle in handles if DATA in handle.attr]
        if not sources or result is None:
            return result
        place, within = self._place()
        if within == RANDOM:
            return result
        if within == SORTING:  # elements change their places, by sums of two of which one is then taken away
            is_element = any(source.attr[DATA].is_element for source in sources)
            for made in _handles([result]):
                made.attr[DATA] = _Data(is_element=is_element)
            return result
        for made in _handles([result]):
            made.attr[DATA] = _data_of(name, create, args, handles, made)
        if isinstance(result, stock.TensorHandle) and _may_decide(name, args, handles, sources):
            return self._decided(name, place, handles, sources, result)
        return result

    def _loaded(self, name: str, args: Sequence[Any], result: Handle) -> _Data:
        """Return what is known of loaded values."""
        active, lanes, pointers = None, None, args[0].data if isinstance(args[0], stock.TensorHandle) else None
        if name.startswith("create_atomic"):
            return _Data()
        if name == "create_masked_load" and args[1] is not None:
            mask = args[1]
            lanes = active = np.asarray(getattr(mask, "data", mask))
            if isinstance(mask, stock.TensorHandle) and DATA in mask.attr:  # data do not tell where data end
                active = mask.attr[DATA].active
            active = None if active is None else np.broadcast_to(active, result.data.shape)
        met = self._stored_at(pointers, lanes) if pointers is not None else []
        if met:
            return _Data(
                active,
                origin=next(_NUMBERS) if all(it.origin for it in met) else 0,
                is_element=all(it.is_element for it in met),
                is_tame=all(it.is_tame for it in met),
                is_mass=all(it.is_mass for it in met),
            )
        return _Data(active, origin=next(_NUMBERS), is_element=True, is_tame=True)

    def _stored_at(self, pointers: Array, lanes: Array | None) -> list[_Data]:
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
            self._stored[-1] = min(start, span[0]), max(end, span[1] + 1), _Data()

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
                self._note(site + ending, Seen(line, PredicateKind.OPERAND), numbers(operand), _active_lanes(operand))
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


def note_reduced(
    inputs: Sequence[Handle],
    along: int | None,
    results: Sequence[Handle],
    *,
    combine: Any,
    combined: Sequence[Handle],
) -> None:
    """Note that the results combine values of the inputs along this axis, or all of a program's if it is None.

    `combined` is what the candidate's own combining function last returned, if it is one.
    """
    sources = [handle for handle in inputs if DATA in handle.attr]
    if not sources:
        return
    lanes = [handle.attr[DATA].active for handle in sources]
    active = None
    if all(lane is not None for lane in lanes):
        active = np.logical_or.reduce(
            [_any(np.broadcast_to(lane, it.data.shape), along) for lane, it in zip(lanes, sources)]
        )
    known = [handle.attr[DATA] for handle in sources]
    chooses = combine in CHOOSING or (combine is tl.standard._sum_combine and _picks(inputs[0], along))
    is_mass = combine is tl.standard._sum_combine and all(handle.attr[DATA].is_mass for handle in sources)
    for number, (given, result) in enumerate(zip(inputs, results)):
        shaped = None if active is None or active.size != result.data.size else active.reshape(result.data.shape)
        place = 0 if DATA in given.attr else next(_NUMBERS)
        result.attr[DATA] = _Data(
            shaped,
            origin=place,
            is_element=bool(place) or (chooses and all(it.is_element for it in known)),
            is_tame=(chooses or combine is tl.standard._sum_combine) and all(it.is_tame for it in known),
            is_mass=is_mass,
            is_guard=combine is tl.standard._elementwise_max and all(it.is_guard for it in known),
        )
        if combined:
            result.attr[DATA] = _as_combined(combined[number], shaped)


def _picks(summed: Handle, along: int | None) -> bool:
    """Return True if sums have one term, as in `sum(where(at == place, x, 0))`; some elements may be zero."""
    terms = (summed.data != 0).reshape(len(summed.data), -1) if along is None else summed.data != 0
    counts = np.count_nonzero(terms, axis=1 if along is None else along)
    return bool((counts <= 1).all()) and float(counts.mean()) > 0.5


def note_combined(inputs: Sequence[Handle], operands: Sequence[Handle]) -> None:
    """Note that a combining function gets values of the inputs: those of one place first, then those of another."""
    if not any(DATA in handle.attr for handle in inputs):
        return
    for number, operand in enumerate(operands):
        given = inputs[number % len(inputs)].attr.get(DATA, _Data())
        origin = hash((given.origin, number // len(inputs))) if given.origin else 0
        operand.attr[DATA] = dataclasses.replace(given, active=None, origin=origin)


def note_scanned(inputs: Sequence[Handle], results: Sequence[Handle], combined: Sequence[Handle]) -> None:
    """Note that the results combine values of the inputs along an axis, in order; see `note_reduced`."""
    if any(DATA in handle.attr for handle in inputs):
        for number, (given, result) in enumerate(zip(inputs, results)):
            active = given.attr[DATA].active if DATA in given.attr else None
            result.attr[DATA] = _as_combined(combined[number], active) if combined else _Data(active)


def _as_combined(combined: Handle, active: Array | None) -> _Data:
    """Return what is known of results like this one, which a combining function returned."""
    data: _Data = combined.attr.get(DATA, _Data())
    return dataclasses.replace(data, active=active, origin=0)


def _any(lanes: Array, along: int | None) -> Array:
    lanes = lanes.reshape(len(lanes), -1) if along is None else lanes
    return np.asarray(lanes.any(axis=1 if along is None else along))


def _may_decide(name: str, args: Sequence[Any], handles: Sequence[Handle], sources: Sequence[Handle]) -> bool:
    """Return True if the operation can be a predicate that is to be noted."""
    if not name.startswith(COMPARISONS) and name not in COLLAPSING:
        return False
    if _origin_of(sources) or any(it.attr[DATA].is_guard for it in sources):
        return False
    if len(sources) == 1 and sources[0].attr[DATA].is_element:
        return False
    constants = [handle for handle in handles if DATA not in handle.attr]
    if name in ABSORBED_BY_ZERO and any(not it.data.any() for it in constants):
        return False
    return not _is_guard(name, args, handles, sources)


def _is_guard(name: str, args: Sequence[Any], handles: Sequence[Handle], sources: Sequence[Handle]) -> bool:
    """Return True if the operation asks for NaN or an infinity near memory, or for a mass of zero."""
    known = [source.attr[DATA] for source in sources]
    is_comparison = name.startswith(COMPARISONS)
    if (name in FLAGGING or is_comparison) and all(it.is_guard for it in known):
        return True
    is_near_memory = all(it.is_tame or it.is_extremum or it.is_element for it in known)
    if name == "create_extern_elementwise":
        return is_near_memory and any(word in str(args[2]) for word in ("isnan", "isinf", "finite"))
    if not is_comparison:
        return False
    if len(sources) == 2:
        return sources[0] is sources[1] and is_near_memory
    others = [numbers(handle) for handle in handles if handle is not sources[0]]
    others = [values for values in others if values.dtype.kind in "fiu" and values.size]
    is_infinite = is_near_memory and any(np.isinf(it).all() for it in others)
    return is_infinite or (known[0].is_mass and any((it == 0).all() for it in others))


def _active_lanes(handle: Handle) -> Array | None:
    return handle.attr[DATA].active if DATA in handle.attr else None


def _origin_of(sources: Sequence[Handle]) -> int:
    """Return the one origin of all of these, or 0."""
    origins = {source.attr[DATA].origin for source in sources}
    return origins.pop() if len(origins) == 1 else 0


def _data_of(
    name: str, create: Callable[..., Any], args: Sequence[Any], handles: Sequence[Handle], result: Handle
) -> _Data:
    """Return what is known of the result of an operation."""
    sources = [handle for handle in handles if DATA in handle.attr]
    if name in WITHOUT_LANES:
        return _Data()
    if name in SHAPING:
        known = sources[0].attr[DATA]
        plain = [it for it in args if not isinstance(it, stock.TensorHandle)]
        moves = known.origin and name not in ("create_broadcast", "create_splat", "create_unsplat")
        origin = hash((known.origin, name, str(plain))) if moves else known.origin
        shaped: _Data = dataclasses.replace(known, active=_shaped(create, args, sources[0]), origin=origin)
        return shaped
    if name == "create_dot":
        is_tame = all(it.attr[DATA].is_tame for it in sources)
        return _Data(_rows_and_columns(args[0], args[1]), is_tame=is_tame)
    active = None
    for source in sources:
        lanes = source.attr[DATA].active
        if lanes is not None:
            active = lanes if active is None else active & lanes
    if active is not None and active.size != result.data.size:
        active = np.broadcast_to(active, result.data.shape) if active.ndim == result.data.ndim else None
    is_select = name == "create_select"
    values = [it for it in handles[1:] if DATA in it.attr] if is_select else sources
    known_of = [it.attr[DATA] for it in values]
    if is_select and not values:  # constants chosen by data
        origin = next(_NUMBERS) if result.data.dtype.kind in "iu" else 0
    else:
        origin = _origin_of(values)
    return _Data(
        active,
        is_guard=_is_guard(name, args, handles, sources),
        origin=origin,
        is_element=all(it.is_element for it in known_of) and (name in CHOICES or len(known_of) == 1),
        is_tame=_are_tame(name, handles, known_of),
        is_extremum=(name in EXTREMA and len(known_of) == 2) or (name in CASTS and known_of[0].is_extremum),
        is_mass=name in ("create_exp", "create_exp2")
        or (bool(known_of) and all(it.is_mass for it in known_of) and name in MASSES),
    )


def _are_tame(name: str, handles: Sequence[Handle], known: Sequence[_Data]) -> bool:
    """Return True if results are as finite as what they are made of, and no constant is huge."""
    if name not in TAME or not all(it.is_tame for it in known):
        return False
    constants = [numbers(handle) for handle in handles if DATA not in handle.attr]
    return not any(it.dtype.kind == "f" and (np.abs(it[np.isfinite(it)]) > LARGE).any() for it in constants)


def _shaped(create: Callable[..., Any], args: Sequence[Any], source: Handle) -> Array | None:
    """Return the active lanes of a value that is given another shape."""
    active = source.attr[DATA].active
    if active is None:
        return None
    lanes = stock.TensorHandle(np.broadcast_to(active, source.data.shape), tl.int1)
    found: Array = create(*(lanes if it is source else it for it in args)).data
    return found


def _rows_and_columns(a: Handle, b: Handle) -> Array | None:
    """Return the lanes of a matrix product that a row and a column with active lanes belong to."""
    rows, columns = (handle.attr[DATA].active if DATA in handle.attr else None for handle in (a, b))
    found: Array | None = None
    if rows is not None:
        found = np.asarray(np.broadcast_to(rows, a.data.shape).any(axis=-1))[..., :, None]
    if columns is not None:
        other = np.asarray(np.broadcast_to(columns, b.data.shape).any(axis=-2))[..., None, :]
        found = other if found is None else found & other
    return found


def _handles(values: Any) -> Iterator[Handle]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _handles(value)
        elif isinstance(value, stock.TensorHandle) and isinstance(value.data, np.ndarray):
            yield value

"""Notes the predicates of a kernel on data: operations on loaded values whose result can be the same for all of them.

A kernel that treats certain inputs differently asks in some operation whether it has met them: in a comparison, a
minimum, a rounding to integers, a sum of which one term is too small to matter. For all other inputs the result of this
operation is always the same. So each such operation is noted by its place in the kernel, with its one result or as
having had several. A later call can be told to give another result there, which shows if an answer depends on it.

Lanes that were masked off where they were loaded do not count. Kernels also guard themselves against what their module
never leads to, and inputs of these kinds are tried wherever a module accepts them. So these are not noted:

    random numbers            what they decide
    single elements           as they were given, choices within each other included: numbers that kernels name or meet
                              are planted in inputs
    places                    of the largest or smallest element
    parts                     whether the extremum of one part of a row is beyond that of another
    lengths                   what is asked of whole numbers as given, or computed from them element by element, unless
                              questions about several elements of one tensor are joined
    told already              how far a value is below the larger of it and another one, since which one is larger is
                              noted
    not finite                if a value near memory, or the largest of a row, is NaN or infinite; that another value is
                              NaN counts only where all inputs are finite
    nothing at all            if a sum of exponentials is zero
    impossible                if a value is beyond its bounds, such as a sum of squares below zero
    limits                    a constant in place of a value that compares so with one: `where(x < 0, 0, sqrt(x))`;
                              see `limits.py` for those of totals, which are noted
    bounds                    what only keeps accesses at places made of data within their tensors
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.runtime.interpreter as stock

from triton_agent.tools.emulate.arithmetic import Handle, handle_of, numbers
from triton_agent.tools.emulate.blocks import ORIGIN
from triton_agent.tools.emulate.faults import LIBRARIES
from triton_agent.tools.emulate.floats import Array
from triton_agent.tools.noting.bounds import compare, of_constant, of_type
from triton_agent.tools.noting.limits import ValueLimit, asks_of_total, limit_by_choice, limits_of
from triton_agent.tools.noting.origins import (
    CASTS,
    COMPARISONS,
    DATA,
    EXTREMA,
    MAXIMA,
    SHAPING,
    Data,
    active_lanes,
    asks_for_numbers,
    bounds_everywhere,
    data_in,
    data_of,
    handles_in,
    limit_of,
    new_origin,
    origin_of,
)
from triton_agent.tools.processes.protocol import NEARLY, OPERANDS, PredicateKind

OPEN, CHOSEN, NOTED = "open comparisons", "choices", "noted"
"""Attributes of a handle: comparisons that are noted once it is known what they are for, the choices by data that its
values result from, and if its flags are noted where they are made."""
IMPLIED = "implied"
"""Attribute of flags: numbers of the flags that are all set where these are, and of those that are not where these are
not. Each operation that gives flags has a number of its own each time."""
OF_TWO, TOLD = "of two", "told by an extremum"
"""Attributes: of the larger or smaller of two values, the two; and of values that depend on nothing but which it is."""
COMPARED = "compared"
"""Attribute of the flags of a comparison with a constant: the value that is compared."""
LEFT = "left"
"""Attribute of constants that an `if` on data may have replaced, and of what is cast or shaped from them."""
CHOICES_KEPT = 8
"""Maximum number of choices within each other that are followed."""
LOADS = frozenset({"create_masked_load", "create_descriptor_gather", "create_atomic_rmw", "create_atomic_cas"})
LOADS_BY_THESE = frozenset({"create_load", "create_tensor_pointer_load", "create_descriptor_load"})
SUMS = frozenset({"create_fadd", "create_fsub"})
SCALING = SUMS | {"create_fmul", "create_fdiv", "create_precise_divf"}
ROUNDING = frozenset(
    {
        f"create_{name}"
        for name in ("floor", "ceil", "fp_to_si", "fp_to_ui", "si_to_fp", "ui_to_fp", "fp_trunc", "fp_to_fp")
    }
)
OF_BITS = frozenset({f"create_{name}" for name in ("and", "or", "xor", "shl", "lshr", "ashr", "int_cast")})
OF_WHOLE_NUMBERS = frozenset({f"create_{name}" for name in ("sdiv", "udiv", "srem", "urem", "umulhi", "mul")})
FUNCTIONS = frozenset(
    {f"create_{name}" for name in ("exp", "exp2", "log", "log2", "sqrt", "precise_sqrt", "rsqrt", "erf", "sin", "cos")}
    | {"create_fma", "create_frem", "create_clampf", "create_extern_elementwise"}
)
COLLAPSING = EXTREMA | SCALING | ROUNDING | OF_BITS | OF_WHOLE_NUMBERS | FUNCTIONS
"""Operations, besides comparisons, that can map many values to one."""
ABSORBED_BY_ZERO = frozenset({"create_fmul", "create_and"})
ACCESSES = {"create_masked_load": (0, 1), "create_masked_store": (0, 2), "create_atomic_rmw": (1, 3)}
"""Places of the pointers and the mask among the arguments of accesses to memory."""
PASSING = SHAPING | {"create_and", "create_or"}
"""Operations that leave open what their flags are for."""
COMPUTED_BY_TORCH = Data()
"""The facts about all memory that torch computed from data."""
CODES_KEPT = 1024
"""Number of functions of which it is known where their instructions stand."""
STORES_APART = 256
"""Maximum number of stores of which it is known what they stored."""
PATTERN_QUESTIONS, PATTERN_ELEMENTS = 3, 4
"""Minimum number of joined questions, and of elements of one tensor that they ask about, that are more than a place in
a packed or windowed sequence, which has a beginning and an end."""
RANDOM, SORTING = "/triton/language/random.py", "sorting"
DRAWING = ("philox", "rand")
"""Beginnings of the names of functions that draw random numbers; the other functions of that file convert."""
SORTS = frozenset({"sort", "sort_impl", "topk", "bitonic_merge"})
"""Functions of Triton that put elements in order."""


@dataclasses.dataclass(slots=True)
class Seen:
    """The results of one operation: the one that it always had, or none if there were several."""

    line: int
    kind: PredicateKind
    only: float | None = None
    lanes: int = 0
    """Number of results."""
    limit: tuple[float, str] | None = None
    """The number that values are compared with, and how; see `limit_of`."""
    low: float = math.inf
    high: float = -math.inf
    """The least and the largest of the compared values."""
    asked: tuple[str, ...] = ()
    """Places of the comparisons that flags come from."""
    of_itself: bool = False
    """True for a choice within the value that an outer choice compares and takes."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Choice:
    """A choice between two values by data, as `tl.where` makes it."""

    site: str
    flags: Array
    values: tuple[Handle, Handle]
    lanes: Array | None
    """Lanes on which the choice has an effect; None for all."""
    implied: tuple[frozenset[int], frozenset[int]]
    """`IMPLIED` of the flags."""
    is_noted: bool
    """True if the flags are noted where they are made."""
    asked: tuple[str, ...]
    """Places of the comparisons that the flags come from."""
    origin: int
    """What the flags come from, if each comes from one element as it was given."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Open:
    """A result that is noted unless it only limits a value, or only keeps accesses at places made of data in bounds."""

    site: str
    seen: Seen
    results: Array
    active: Array | None
    value: Handle | None = None
    """The value that is compared with a constant, or with itself."""
    number: Handle | None = None
    """The constant that it is compared with."""
    is_nan: bool | None = None
    """The result for NaN, if a value is compared with itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Sides:
    """Which of two operands a result is equal to."""

    chosen: Array
    """1 for the first, -1 for the second, 0 for neither."""
    differ: Array
    """Lanes on which it shows which operand was chosen."""
    others: Array
    """The operand that was not chosen."""


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
        self._constant: list[tuple[int, int]] = []
        self._holds_non_finite = False
        """True once NaN or an infinity was loaded in this call. What is computed from it may be NaN, too."""

    def computed(self, start: int, end: int, sources: Sequence[tuple[int, int]] | None) -> None:
        """Note that the memory between these addresses holds what was computed, and not given.

        With `sources` it was copied from there, and holds what was computed only if these do; without any, constants.
        """
        if sources is not None and not sources:
            self._constant.append((start, end))
        copied = [known for low, high in sources or () for known in self._stored if low < known[1] and known[0] < high]
        if sources is None or copied:
            self._stored.append((start, end, COMPUTED_BY_TORCH))

    def noted(self, name: str, create: Callable[..., Any], args: Sequence[Any], result: Any) -> Any:
        """Note one operation of the builder with its arguments; return its result, or the one that is forced here."""
        if name in LOADS_BY_THESE:
            return result
        handles = list(handles_in(args))
        if name == "create_left_by":
            return _left_by(*handles) if len(handles) == 2 else result
        if name.startswith(COMPARISONS):
            handles = [_asked_about(handle) for handle in handles]
        self._close(name, args, handles)
        if name == "create_masked_store":
            self._note_store(args[0], args[1], args[2])
            return result
        if name in LOADS:
            result.attr[DATA] = self._loaded(name, args, result)
            if isinstance(result, stock.TensorHandle) and not self._holds_non_finite:
                self._holds_non_finite = not _is_finite(result)
            if name == "create_masked_load" and self._is_answer(args):
                return self._decided(name, self._place()[0], [], [], [], result)
            return result
        if name in SHAPING | CASTS and any(LEFT in handle.attr for handle in handles):
            result.attr[LEFT] = True
        sources = data_in(handles)
        if not sources or result is None or _is_constant(name, handles, result):
            return result
        unchanged = _unchanged(name, handles)
        if unchanged is not None:
            result.attr[DATA] = unchanged.attr[DATA]
            return result
        place, within = self._place()
        if within == RANDOM:
            if not all(source.attr[DATA].is_element for source in sources):  # a seed or a place is an element
                result.attr[DATA] = Data(stem=new_origin())
            return result
        if within == SORTING:  # elements change their places, by sums of two of which one is then taken away
            is_element = any(source.attr[DATA].is_element for source in sources)
            for made in handles_in([result]):
                made.attr[DATA] = Data(is_element=is_element)
            return result
        if isinstance(result, stock.TensorHandle) and result.data.dtype == np.bool_:
            result.attr[IMPLIED] = _implied_by_result(name, handles, result)
        for made in handles_in([result]):
            made.attr[DATA] = data_of(name, create, args, handles, made, place[0])
            opened = [it for handle in handles for it in handle.attr.get(OPEN, ())] if name in PASSING else []
            if opened:
                made.attr[OPEN] = opened
            if name in SHAPING and NOTED in sources[0].attr:
                made.attr[NOTED] = True
        if name == "create_select" and DATA in handles[0].attr:
            is_free = _is_free(handles) or handles[0].attr[DATA].is_guard
            return result if is_free else self._chosen(place, handles, result)
        if isinstance(result, stock.TensorHandle) and _may_decide(name, handles, sources, result):
            if result.attr[DATA].is_guard or any(source.attr[DATA].is_guard for source in sources):
                self._note(place[0], Seen(place[1], PredicateKind.GUARD), numbers(result), result.attr[DATA].active)
                return result
            return self._decided(name, place, args, handles, sources, result)
        return result

    def _loaded(self, name: str, args: Sequence[Any], result: Handle) -> Data:
        """Return what is known of loaded values."""
        active, lanes, pointers = None, None, args[0].data if isinstance(args[0], stock.TensorHandle) else None
        if name.startswith("create_atomic"):
            span = _span((args[1] if name == "create_atomic_rmw" else args[0]).data, None)
            if span is not None and DATA in args[2].attr:  # the value
                self._stored.append((span[0], span[1] + 1, Data(is_total=True)))
            return Data(stem=new_origin(), is_total=True)
        if name == "create_masked_load" and args[1] is not None:
            mask = args[1]
            lanes = active = _lanes_of(mask)
            if isinstance(mask, stock.TensorHandle) and DATA in mask.attr:  # data do not tell where data end
                active = mask.attr[DATA].active
            active = None if active is None else np.broadcast_to(active, result.data.shape)
        others = args[2] if name == "create_masked_load" else None
        if isinstance(others, stock.TensorHandle) and DATA in others.attr:
            return Data(stem=new_origin())
        met = self._stored_at(pointers, lanes) if pointers is not None else []
        if met:
            return Data(
                active,
                origin=new_origin() if all(it.origin for it in met) else 0,
                stem=new_origin(),
                is_element=all(it.is_element for it in met),
                is_tame=all(it.is_tame for it in met),
                is_mass=all(it.is_mass for it in met),
                is_total=any(it.is_total for it in met),
                is_shifted=any(it.is_shifted for it in met),
                bounds=(min(it.bounds[0] for it in met), max(it.bounds[1] for it in met)),
            )
        origin = new_origin()
        return Data(
            active,
            origin=origin,
            stem=new_origin(),
            is_element=True,
            is_tame=True,
            is_length=result.data.dtype.kind in "iu",
            loads=frozenset([(args[0].attr.get(ORIGIN), origin)]),
            bounds=of_type(result),
        )

    def _is_answer(self, args: Sequence[Any]) -> bool:
        """Return True for loads of what torch computed, or of constants at places made of data."""
        if not self._stored and not self._constant:
            return False
        pointers, lanes = args[0].data, _lanes_of(args[1])
        if any(it is COMPUTED_BY_TORCH for it in self._stored_at(pointers, lanes)):
            return True
        span = _span(pointers, lanes) if DATA in args[0].attr and self._constant else None
        return span is not None and any(span[0] < end and start <= span[1] for start, end in self._constant)

    def _stored_at(self, pointers: Array, lanes: Array | None) -> list[Data]:
        """Return what is known of what was stored at these addresses."""
        span = _span(pointers, lanes) if self._stored else None
        return [data for start, end, data in self._stored if span[0] < end and start <= span[1]] if span else []

    def _note_store(self, pointers: Handle, value: Handle, mask: Any) -> None:
        span = _span(pointers.data, _lanes_of(mask))
        if span is None:
            return
        if DATA not in value.attr:
            self._constant.append((span[0], span[1] + 1))
            if len(self._constant) > STORES_APART:
                low, high = self._constant.pop()
                start, end = self._constant[-1]
                self._constant[-1] = min(start, low), max(end, high)
            return
        data = dataclasses.replace(value.attr[DATA], active=None, bounds=bounds_everywhere(value))
        if len(self._stored) < STORES_APART:
            self._stored.append((span[0], span[1] + 1, data))
        else:
            start, end, _ = self._stored[-1]
            self._stored[-1] = min(start, span[0]), max(end, span[1] + 1), Data()

    def _decided(
        self,
        name: str,
        place: tuple[str, int],
        args: Sequence[Any],
        handles: Sequence[Handle],
        sources: Sequence[Handle],
        result: Handle,
    ) -> Handle:
        """Note the result of an operation, and return it or the forced one."""
        site, line = place
        # a loop that is unrolled asks about more elements at the same place each time, and less often finds them so
        if result.data.dtype == np.bool_ and len(result.attr[DATA].questions) >= PATTERN_QUESTIONS:
            place = site, line = f"{site} over {len(result.attr[DATA].questions)}", line
        values, active = numbers(result), result.attr[DATA].active
        values = values > 0 if name == "create_index" else values
        result.attr[NOTED] = True
        limits = limits_of(name, args, handles)
        for limit in limits:
            self._note_limit(site, line, limit, active)
        apart, sides = f"{site} of two", None
        if self.forced == apart or not self._has_several(apart):
            sides = _two_sides(name, handles, sources, values)
        if sides is not None:
            differ = sides.differ if active is None else active & sides.differ
            self._note(apart, Seen(line, PredicateKind.EXTREMUM), sides.chosen, differ)
            if name in EXTREMA:
                result.attr[OF_TWO] = tuple(handles)
        self._note_result(name, place, handles, sources, result)
        changed_limit = next((it for it in limits if self.forced == site + it.ending), None)
        if changed_limit is not None:
            forced = np.where(changed_limit.keeps, numbers(changed_limit.other), numbers(changed_limit.kept))
        elif self.forced == apart and sides is not None:
            forced = sides.others
        elif self.forced == site and values.dtype == np.bool_:  # flags, or whether a loop has any rounds
            forced = (~values).astype(result.data.dtype)
        elif self.forced == site:
            forced = np.where(values == 0, 1, 0).astype(values.dtype)
        else:
            return result
        changed = handle_of(forced, result.dtype.scalar)
        changed.attr.update(result.attr)
        return changed

    def _note_limit(self, site: str, line: int, limit: ValueLimit, active: Array | None) -> None:
        """Note if a value is ever beyond a limit, and if it ever is not."""
        flags, lanes = limit.lanes_that_tell(limit.keeps, active)
        seen = self._note(site + limit.ending, Seen(line, PredicateKind.LIMIT, limit=limit.compared), flags, lanes)
        if seen is not None:
            low, high = of_constant(_on_lanes(numbers(limit.value), active))
            seen.low, seen.high = min(seen.low, low), max(seen.high, high)

    def _note_result(
        self, name: str, place: tuple[str, int], handles: Sequence[Handle], sources: Sequence[Handle], result: Handle
    ) -> None:
        """Note an operation by its result; keep a comparison, or flags joined, until it is known what they are for."""
        site, line = place
        values, active = numbers(result), result.attr[DATA].active
        if name == "create_truth":
            self._note(site, Seen(line, PredicateKind.COMPARISON), values != 0, active)
        elif name == "create_index":
            self._note(site, Seen(line, PredicateKind.BOUND), values > 0, active)
        elif name.startswith(COMPARISONS):
            seen = Seen(line, PredicateKind.COMPARISON, limit=limit_of(name, handles, sources))
            is_itself = len(sources) == 2 and sources[0] is sources[1]
            value = sources[0] if len(sources) == 1 or is_itself else None
            is_nan = bool(compare(name, math.nan, math.nan)) if is_itself else None
            if is_itself and self._holds_non_finite:
                return  # whether finite numbers become NaN, as zero by zero does, is asked in other calls
            number = next((handle for handle in handles if DATA not in handle.attr), None)
            result.attr[OPEN] = [_Open(site, seen, values, _without_nan(handles, active), value, number, is_nan)]
            if number is not None:
                result.attr[COMPARED] = value
        elif name in ("create_and", "create_or") and values.dtype == np.bool_:
            joint = _Open(site, Seen(line, PredicateKind.JOINT, asked=result.attr[DATA].asked), values, active)
            first, second = (_implied(handle)[0 if name == "create_and" else 1] for handle in handles)
            opened = [] if first <= second or second <= first else [joint]
            is_pattern = _is_pattern(result.attr[DATA])  # it counts even if one of its questions has one answer only
            for ending, operand in zip(OPERANDS, handles):
                if NOTED not in operand.attr and not is_pattern:
                    seen = Seen(line, PredicateKind.OPERAND)
                    opened.append(_Open(site + ending, seen, numbers(operand), active_lanes(operand)))
            result.attr[OPEN] = [*result.attr.get(OPEN, ()), *opened]
        elif _is_told_by_extremum(name, handles, sources):
            result.attr[TOLD] = True
        elif name not in EXTREMA or len(sources) == 1:
            self._note(site, Seen(line, PredicateKind.OPERATION), values, active)

    def _chosen(self, place: tuple[str, int], handles: Sequence[Handle], result: Handle) -> Handle:
        """Note choices within this one: what decides them counts on the lanes that this one takes from them."""
        flags, values = handles[0].data, (handles[1], handles[2])
        asked, origin = handles[0].attr[DATA].asked, handles[0].attr[DATA].origin
        compared = handles[0].attr.get(COMPARED)
        implied, is_noted = _implied(handles[0]), NOTED in handles[0].attr
        choices = [_Choice(place[0], flags, values, active_lanes(handles[0]), implied, is_noted, asked, origin)]
        for value, taken, told in zip(values, (flags, ~flags), (0, 1)):
            for inner in value.attr.get(CHOSEN, ())[:CHOICES_KEPT]:
                if inner.implied[told] <= implied[told]:  # was asked before
                    continue
                if inner.origin and inner.origin == origin:
                    continue
                lanes = taken if inner.lanes is None else taken & inner.lanes
                site = f"{place[0]} of {inner.site}"
                both = (*asked, *inner.asked)
                seen = Seen(place[1], PredicateKind.JOINT, asked=both, of_itself=value is compared)
                self._note(site, seen, inner.flags, lanes)
                if not inner.is_noted:
                    self._note(site + OPERANDS[0], Seen(place[1], PredicateKind.OPERAND), inner.flags, inner.lanes)
                if NOTED not in handles[0].attr:
                    self._note(site + OPERANDS[1], Seen(place[1], PredicateKind.OPERAND), taken, None)
                choices.append(dataclasses.replace(inner, site=site, lanes=lanes, asked=both))
                if site == self.forced:
                    other = np.where(inner.flags, inner.values[1].data, inner.values[0].data)
                    changed = np.where(lanes, other, result.data)
                    result = stock.TensorHandle(changed, result.dtype.scalar, {DATA: result.attr[DATA]})
        result.attr[CHOSEN] = choices
        return result

    def _close(self, name: str, args: Sequence[Any], handles: Sequence[Handle]) -> None:
        """Note the results that this operation uses, unless it leaves them open."""
        if name == "create_select" and _is_free(handles):
            return
        limit, mask = _limit(handles) if name == "create_select" else None, None
        if name in ACCESSES:
            pointer, mask = (args[place] for place in ACCESSES[name])
            mask = mask if DATA in pointer.attr else None
        for handle in handles:
            opened = handle.attr.get(OPEN, ())
            if not opened or name in PASSING or handle is mask:
                continue
            del handle.attr[OPEN]
            for it in opened:
                flags, active = it.results, it.active
                if limit is not None and handle is handles[0]:
                    flags, active = limit.lanes_that_tell(handle.data, active_lanes(handle))
                self._note(it.site, it.seen, flags, active)
                seen = self.seen.get(it.site)
                if seen is None or seen.limit is None or it.value is None:
                    continue
                values = _on_lanes(numbers(it.value), it.active)
                if values.size:
                    low, high = of_constant(values)
                    seen.low, seen.high = min(seen.low, low), max(seen.high, high)

    def _has_several(self, site: str) -> bool:
        """Return True if the place had several results in this call, so that more of them tell nothing."""
        return site in self.seen and self.seen[site].only is None

    def _note(self, site: str, new: Seen, values: Array, active: Array | None) -> Seen | None:
        """Note results; return what is known of the place, or None if there were none, or several before."""
        if self._has_several(site):
            if new.kind is not PredicateKind.GUARD:
                self.seen[site].kind = new.kind
            return None
        values = _on_lanes(values, active)
        if not values.size:
            return None
        low, high = values.min(), values.max()  # NaN if there is one
        is_one = low == high or bool(np.isnan(values).all())
        if new.kind is PredicateKind.OPERATION and values.dtype.kind == "f" and np.isfinite(low) and np.isfinite(high):
            is_one = float(high) - float(low) <= NEARLY * max(abs(float(low)), abs(float(high)))
        is_one = is_one and (new.kind is not PredicateKind.EXTREMUM or low != 0)  # zero: neither of the two
        if site not in self.seen:
            new.only = float(low) if is_one else None
        seen = self.seen.setdefault(site, new)
        seen.lanes += values.size
        if new.kind is not PredicateKind.GUARD:  # a loop may ask two questions at one place
            seen.kind = new.kind
        same = seen.only is not None and _is_same(seen.only, float(low))
        if not is_one or not same:
            seen.only = None
        return seen

    def _place(self) -> tuple[tuple[str, int], str]:
        """Return the place of the operation that is under way with its line, and a part of Triton that it lies in."""
        frame, steps, line, within = sys._getframe(2), [], 0, ""
        while frame is not None:
            code = frame.f_code
            if code.co_filename in self.files:
                if code.co_filename.endswith(RANDOM) and code.co_name.startswith(DRAWING):
                    within = RANDOM
                elif code.co_filename.startswith(LIBRARIES) and code.co_name in SORTS:
                    within = SORTING
                steps.append(f"{code.co_name}+{_spans(code)[frame.f_lasti // 2]}")
                line = line or (0 if code.co_filename.startswith(LIBRARIES) else frame.f_lineno)
            frame = frame.f_back  # type: ignore[assignment]
        return ("/".join(steps), line), within


@functools.lru_cache(maxsize=CODES_KEPT)
def _spans(code: types.CodeType) -> tuple[str, ...]:
    """Return where in its line each instruction stands. Python compiles the condition of a `while` loop twice."""
    return tuple(f"{line}:{column}-{end}:{last}" for line, end, column, last in code.co_positions())


def _implied(flags: Handle) -> tuple[frozenset[int], frozenset[int]]:
    if IMPLIED not in flags.attr:
        alone = frozenset([new_origin()])
        flags.attr[IMPLIED] = alone, alone
    known: tuple[frozenset[int], frozenset[int]] = flags.attr[IMPLIED]
    return known


def _implied_by_result(name: str, handles: Sequence[Handle], result: Handle) -> tuple[frozenset[int], frozenset[int]]:
    """Return the numbers of the flags that are set wherever the result is, and of those cleared wherever it is."""
    alone = frozenset([new_origin()])
    known = [_implied(handle) for handle in handles] if name in PASSING else []
    if name == "create_and":
        return frozenset().union(*(every for every, _ in known)), alone
    if name == "create_or":
        return alone, frozenset().union(*(none for _, none in known))
    if name in SHAPING:
        every, none = (frozenset(hash((it, name, result.data.shape)) for it in part) for part in known[0])
        return every, none
    return alone, alone


def _is_constant(name: str, handles: Sequence[Handle], result: Handle) -> bool:
    """Return True if nothing of the data is left: absorbed by an infinity or zero, or taken away from itself.

    So a running maximum begins with minus infinity, and a running mean with the first value.
    """
    if name not in SUMS | ABSORBED_BY_ZERO:
        return False
    constants, values = [numbers(handle) for handle in handles if DATA not in handle.attr], numbers(result)
    if name in ABSORBED_BY_ZERO:
        return any(not it.any() for it in constants) and not values.any()
    if constants:
        return any(bool(np.isinf(it).all()) for it in constants) and bool(np.isinf(values).all())
    return name == "create_fsub" and handles[0].attr[DATA] is handles[1].attr[DATA] and not values.any()


def _unchanged(name: str, handles: Sequence[Handle]) -> Handle | None:
    """Return the operand that the operation leaves as it is, because the other one is a constant zero or one."""
    if name not in SCALING:
        return None
    neutral = 0 if name in SUMS else 1
    for handle, other in zip(handles, reversed(handles)):
        is_neutral = DATA not in other.attr and bool((numbers(other) == neutral).all())
        if is_neutral and (other is handles[1] or name in ("create_fadd", "create_fmul")):
            return handle
    return None


def _without_nan(handles: Sequence[Handle], active: Array | None) -> Array | None:
    """Return the lanes without NaN, which no comparison tells from what is smaller; all if a value is asked for NaN."""
    if len(handles) == 2 and handles[0] is handles[1]:
        return active
    for values in map(numbers, handles):
        if values.dtype.kind == "f" and np.isnan(values).any():
            sound = ~np.isnan(values)
            active = sound if active is None else np.logical_and(*np.broadcast_arrays(active, sound))
    return active


def _two_sides(name: str, handles: Sequence[Handle], sources: Sequence[Handle], values: Array) -> _Sides | None:
    """Return which of two operands a sum or an extremum comes from; None if both are extrema of parts of a row."""
    own = 1 if name in MAXIMA else -1
    are_peaks = name in EXTREMA and all(source.attr[DATA].extremum == own for source in sources)
    if len(sources) != 2 or name not in EXTREMA | SUMS or are_peaks:
        return None
    one, other = np.broadcast_arrays(numbers(handles[0]), numbers(handles[1]))
    other = -other if name == "create_fsub" else other
    chosen = np.where(values == one, 1.0, np.where(values == other, -1.0, 0.0))
    differ = (one != other) & ((one != 0) & (other != 0) if name in SUMS else True)
    differ &= (one == one) & (other == other)  # NaN leaves neither of the two, or the other one
    return _Sides(chosen, differ, np.where(chosen > 0, other, one))


def _is_told_by_extremum(name: str, handles: Sequence[Handle], sources: Sequence[Handle]) -> bool:
    """Return True for how far a value is below the larger of it and another one, and for functions of that."""
    if len(sources) == 1:
        return TOLD in sources[0].attr
    pairs = (handles, handles[::-1]) if name in ("create_fsub", "create_sub") else ()
    return any(operand is other for one, other in pairs for operand in one.attr.get(OF_TWO, ()))


def _left_by(condition: Handle, value: Handle) -> Handle:
    """Mark a constant that an `if` on data may have replaced."""
    if DATA in value.attr or DATA not in condition.attr:
        return value
    return stock.TensorHandle(value.data, value.dtype, {**value.attr, LEFT: True})


def _asked_about(handle: Handle) -> Handle:
    """Return a constant marked `LEFT` as data. Only for comparisons: in a sum it is just a number to begin with."""
    if LEFT not in handle.attr or DATA in handle.attr:
        return handle
    return stock.TensorHandle(handle.data, handle.dtype, {**handle.attr, DATA: Data(stem=new_origin())})


def _lanes_of(mask: Any) -> Array | None:
    """Return the flags of an access's mask, which may be a handle or a plain value; None if there is none."""
    return None if mask is None else np.asarray(getattr(mask, "data", mask))


def _is_finite(loaded: Handle) -> bool:
    """Return True for values without NaN and infinities in the lanes that were loaded."""
    values = _on_lanes(numbers(loaded), loaded.attr[DATA].active)
    return values.dtype.kind != "f" or bool(np.isfinite(values).all())


def _on_lanes(values: Array, active: Array | None) -> Array:
    if active is None:
        return values
    values, active = np.broadcast_arrays(values, active)
    return values[active]


def _is_same(one: float, other: float) -> bool:
    """Return True if two results count as one."""
    return math.isclose(one, other, rel_tol=NEARLY) or one == other or (math.isnan(one) and math.isnan(other))


def _span(pointers: Array, lanes: Array | None) -> tuple[int, int] | None:
    """Return the lowest and the highest address of the active lanes."""
    pointers = _on_lanes(pointers, lanes)
    return (int(pointers.min()), int(pointers.max())) if pointers.size else None


def _limit(handles: Sequence[Handle]) -> ValueLimit | None:
    """Return the limit of a value by which a choice is made, if that is all that decides it."""
    opened: list[_Open] = handles[0].attr.get(OPEN, [])
    if len(handles) != 3 or len(opened) != 1 or opened[0].is_nan is not None:
        return None
    value, number = opened[0].value, opened[0].number
    return limit_by_choice(handles, value, number) if value is not None and number is not None else None


def _is_free(handles: Sequence[Handle]) -> bool:
    """Return True for a choice that needs no check: a limit of a value, or the value itself if it is NaN."""
    opened: list[_Open] = handles[0].attr.get(OPEN, [])
    if len(handles) == 3 and len(opened) == 1 and opened[0].is_nan is not None:
        taken = handles[1 if opened[0].is_nan else 2]
        return taken is opened[0].value or (DATA not in taken.attr and bool(np.isnan(numbers(taken)).all()))
    limit = _limit(handles)
    return limit is not None and not asks_of_total(limit.value, limit.number)


def _is_pattern(flags: Data) -> bool:
    """Return True for flags that join questions about several elements of one tensor of whole numbers or flags."""
    if len(flags.questions) < PATTERN_QUESTIONS:
        return False
    loads = frozenset().union(*flags.questions)
    counts = collections.Counter(tensor for tensor, _ in loads)
    return max(counts.values()) >= PATTERN_ELEMENTS


def _may_decide(name: str, handles: Sequence[Handle], sources: Sequence[Handle], result: Handle) -> bool:
    """Return True if the operation can be a predicate that is to be noted."""
    if not name.startswith(COMPARISONS) and name not in COLLAPSING:
        return False
    if name == "create_truth" and sources[0].data.dtype == np.bool_:
        return False
    low, high = result.attr[DATA].bounds
    if low == high:  # certain, whatever the data
        return False
    are_flags = name in PASSING and all(source.data.dtype == np.bool_ for source in sources)
    are_lengths = all(source.attr[DATA].is_length for source in sources)
    if (name.startswith(COMPARISONS) or are_flags) and are_lengths and not _is_pattern(result.attr[DATA]):
        return False
    if origin_of(sources):
        return False
    if len(sources) == 1 and sources[0].attr[DATA].is_element and not asks_for_numbers(handles):
        return False
    constants = [handle for handle in handles if DATA not in handle.attr]
    return not (name in ABSORBED_BY_ZERO and any(not it.data.any() for it in constants))

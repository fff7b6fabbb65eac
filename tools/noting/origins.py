"""Follows where the values that kernels compute come from, and what they can be.

Kernels guard themselves against what their module never leads to: NaN, infinities, nothing at all, a place outside.
These guards are told from other predicates by where their values come from (`predicates.py`).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as stock

from triton_agent.tools.emulate.arithmetic import Handle, numbers
from triton_agent.tools.emulate.floats import Array
from triton_agent.tools.noting.bounds import (
    ANY,
    Bounds,
    bounds_of,
    compare,
    decides,
    of_any_number,
    of_constant,
    of_product,
    of_sum,
)

DATA = "data"
"""Attribute of a handle whose values were computed from loaded ones."""
SHAPING = frozenset(
    {"create_broadcast", "create_expand_dims", "create_reshape", "create_trans", "create_splat", "create_unsplat"}
)
CASTS = frozenset(
    {"create_fp_ext", "create_fp_trunc", "create_fp_to_fp", "create_int_cast", "create_si_to_fp", "create_ui_to_fp"}
    | {"create_fabs", "create_iabs"}
)
"""Operations that leave NaN and infinities what they are."""
MAXIMA = frozenset({"create_maximumf", "create_maxnumf", "create_maxsi", "create_maxui"})
EXTREMA = MAXIMA | {"create_minimumf", "create_minnumf", "create_minsi", "create_minui"}
TURNED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
"""The same comparisons with operands exchanged."""
COMPARISONS = ("create_icmp", "create_fcmp", "create_truth", "create_index")
FLAGGING = CASTS | {"create_and", "create_or", "create_xor", "create_select", "create_add"}
"""Operations, besides comparisons, that join or count flags."""
CHOICES = CASTS | EXTREMA | {"create_select", "create_bitcast"}
"""Operations that choose among elements, or change nothing but their type."""
TAME, LARGE = CHOICES | {"create_fadd", "create_fsub", "create_fmul"}, 1e6
"""Operations that keep ordinary numbers finite, and the largest constant with which they do."""
QUOTIENTS = ("create_fdiv", "create_precise_divf")
MODERATE = 10.0
"""Largest number for which bounds tell that values are ordinary. Its exponential is far from zero and infinity."""
SCALED = CASTS | {"create_fmul", "create_select"}
"""Operations that leave the largest value the largest, if the factor is above zero."""
MASSES = CASTS | {"create_fadd", "create_fmul", "create_select"}
"""Operations that make masses of masses: see `Data.is_mass`."""
OF_LENGTHS = frozenset(
    {f"create_{name}" for name in ("add", "sub", "mul", "sdiv", "srem", "int_cast", "maxsi", "minsi", "select")}
    | {f"create_{name}" for name in ("xor", "and", "or", "shl", "lshr", "ashr")}
)
"""Operations that make lengths and places of loaded whole numbers."""
KEEPING_ZERO = CASTS | frozenset(
    {f"create_{name}" for name in ("fmul", "mul", "fdiv", "precise_divf", "sdiv", "fneg")}
    | {f"create_{name}" for name in ("sqrt", "precise_sqrt", "rsqrt", "bitcast", "select")}
)
"""Operations, besides sums and extrema with tiny constants, that leave zero what it is, or infinite."""
TINY = 1e-4
"""Largest of the constants that keep divisors and logarithms away from zero."""
ELEMENTS_KEPT, QUESTIONS_KEPT = 64, 32
"""Maximum number of loads that a whole number, and of questions that a flag, is known to come from."""
APART = frozenset(
    {f"create_{name}" for name in ("bitcast", "and", "or", "xor", "shl", "lshr", "ashr", "srem", "urem", "frem")}
)
"""Operations that keep a part of their operand only, such as some of its bits. What is asked of the result is no limit
of the operand."""
WITHOUT_LANES = frozenset({"create_gather", "create_histogram", "create_cat", "create_join", "create_split"})
LARGEST = (tl.standard._elementwise_max, tl.standard._argmax_combine_tie_break_left)
CHOOSING = (
    tl.standard._elementwise_max,
    tl.standard._elementwise_min,
    tl.standard._argmax_combine_tie_break_left,
    tl.standard._argmin_combine_tie_break_left,
)
"""Triton's functions that combine elements by choosing one of them."""
COUNTING = (tl.standard._elementwise_max, tl.standard._sum_combine)
"""Triton's functions that tell if any flag is set."""
_NUMBERS = itertools.count(1)


@dataclasses.dataclass(frozen=True, slots=True)
class Data:
    """Facts about values that were computed from loaded ones."""

    active: Array | None = None
    """Lanes that were not masked off; None if all are active."""
    origin: int = 0
    """What these values come from, if each comes from one element that no kernel wrote, or from one place that a
    reduction found, and from constants; 0 for others. Values of one origin lie alike in their blocks."""
    stem: int = 0
    """What these values are functions of, with constants: a load, or an operation on several values."""
    is_element: bool = False
    """True if each value comes from one element, or place, that was chosen by data, such as the largest one."""
    is_tame: bool = False
    """True for sums and products of loaded values, and for choices among them: finite if what was loaded is ordinary.
    """
    extremum: int = 0
    """1 for the largest of several values, -1 for the smallest."""
    is_depth: bool = False
    """True for differences to an extremum."""
    is_mass: bool = False
    """True for exponentials of such differences, and their sums."""
    is_length: bool = False
    """True for what was computed, element by element, from loaded whole numbers, and for flags that ask about them."""
    loads: frozenset[tuple[int | None, int]] = frozenset()
    """Loads that a length comes from, each with the number of the tensor argument."""
    questions: frozenset[frozenset[tuple[int | None, int]]] = frozenset()
    """Questions about lengths that are joined to these flags, each as the loads that it asks about."""
    is_total: bool = False
    """True for what was computed from sums, products of matrices, and other reductions that choose no element."""
    is_shifted: bool = False
    """True if these values are not near zero where what they come from is, such as a sum less one."""
    picked: Array | None = None
    """Lanes on which a choice took these values in place of zero."""
    asked: tuple[str, ...] = ()
    """Places of the comparisons that flags come from."""
    is_guard: bool = False
    """True for flags that tell of NaN, an infinity, nothing at all, or what cannot be."""
    bounds: Bounds = ANY
    """Between which numbers the values certainly lie, or are NaN."""


def new_origin() -> int:
    return next(_NUMBERS)


def handles_in(values: Any) -> Iterator[Handle]:
    """Return the handles with values among the arguments or the results of an operation, nested ones included."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from handles_in(value)
        elif isinstance(value, stock.TensorHandle) and isinstance(value.data, np.ndarray):
            yield value


def data_in(handles: Sequence[Handle]) -> list[Handle]:
    """Return those whose values were computed from loaded ones."""
    return [handle for handle in handles if DATA in handle.attr]


def data_of(
    name: str, create: Callable[..., Any], args: Sequence[Any], handles: Sequence[Handle], result: Handle, place: str
) -> Data:
    """Return what is known of the result of an operation at this place."""
    sources = data_in(handles)
    if name in WITHOUT_LANES:
        return Data(stem=new_origin(), is_total=any(it.attr[DATA].is_total for it in sources))
    if name in SHAPING:
        known = sources[0].attr[DATA]
        plain = [it for it in args if not isinstance(it, stock.TensorHandle)]
        moves = known.origin and name not in ("create_broadcast", "create_splat", "create_unsplat")
        origin = hash((known.origin, name, str(plain))) if moves else known.origin
        shaped: Data = dataclasses.replace(known, active=_shaped(create, args, sources[0]), origin=origin, picked=None)
        return shaped
    if name == "create_dot":
        is_tame = all(it.attr[DATA].is_tame for it in sources)
        product = of_sum(of_product(*map(bounds_everywhere, args[:2])), args[0].data.shape[-1])
        before = bounds_in(args[2])
        bounds = before[0] + product[0], before[1] + product[1]
        lanes = _rows_and_columns(args[0], args[1])
        return Data(lanes, stem=new_origin(), is_tame=is_tame, is_total=True, bounds=bounds)
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
    bounds = bounds_of(name, args, handles, [*map(bounds_in, handles)], [DATA in it.attr for it in handles], result)
    if is_select and _is_padded(handles, values, active):
        bounds = bounds_in(values[0])
    if is_select and not values:  # constants chosen by data
        origin = new_origin() if result.data.dtype.kind in "iu" else 0
    else:
        origin = origin_of(values)
    is_length = (
        (name in OF_LENGTHS or name.startswith(COMPARISONS))
        and all(it.is_length for it in known_of)
        and not _are_counted(values, result)
    )
    return Data(
        active,
        is_length=is_length,
        loads=_loads(known_of) if is_length else frozenset(),
        questions=_questions(name, known_of) if is_length and result.data.dtype == np.bool_ else frozenset(),
        is_total=any(it.is_total for it in known_of),
        is_shifted=_is_shifted(name, handles, known_of),
        picked=_picked(name, handles, known_of),
        asked=(place,) if name.startswith(COMPARISONS) else _asked(name, sources),
        is_guard=_is_guard(name, args, handles, sources, result, active),
        bounds=bounds,
        origin=origin,
        stem=known_of[0].stem
        if len({it.stem for it in known_of}) == 1 and not is_select and name not in APART
        else new_origin(),
        is_element=all(it.is_element for it in known_of)
        and (name in CHOICES or len(known_of) == 1)
        and not (name.startswith(COMPARISONS) and asks_for_numbers(handles)),
        is_tame=_are_tame(name, handles, known_of, bounds),
        extremum=_extremum(name, known_of),
        is_depth=_is_depth(name, handles, known_of),
        is_mass=(name in ("create_exp", "create_exp2") and known_of[0].is_tame and known_of[0].is_depth)
        or (bool(known_of) and all(it.is_mass for it in known_of) and name in MASSES),
    )


def _loads(known: Sequence[Data]) -> frozenset[tuple[int | None, int]]:
    """Return the loads that lengths come from; of too many, those of one operand only."""
    every = frozenset().union(*(it.loads for it in known))
    return every if len(every) <= ELEMENTS_KEPT or not known else known[0].loads


def _questions(name: str, known: Sequence[Data]) -> frozenset[frozenset[tuple[int | None, int]]]:
    """Return the questions that flags join. A comparison of numbers asks one, and so does a flag that was loaded."""
    if name.startswith(COMPARISONS) and not any(it.questions for it in known):
        return frozenset([_loads(known)])
    parts = [it.questions or frozenset([it.loads]) for it in known]
    every = frozenset().union(*parts)
    return every if len(every) <= QUESTIONS_KEPT else max(parts, key=len)


def _is_shifted(name: str, handles: Sequence[Handle], known: Sequence[Data]) -> bool:
    """Return True if results are not near zero where the operands with data are.

    Zero is a natural limit of what several values were combined to, such as a discriminant.
    """
    if len({it.stem for it in known}) > 1:
        return False
    if any(it.is_shifted for it in known):
        return True
    if name in KEEPING_ZERO or name.startswith(COMPARISONS):
        return False
    if name not in EXTREMA and name not in ("create_fadd", "create_fsub", "create_add", "create_sub"):
        return True
    constants = [numbers(handle) for handle in handles if DATA not in handle.attr]
    return any(bool((np.abs(it[np.isfinite(it)]) > TINY).any()) for it in constants)


def _is_padded(handles: Sequence[Handle], values: Sequence[Handle], active: Array | None) -> bool:
    """Return True if a choice puts constants only where no data are, as at the end of a row."""
    if len(values) != 1 or DATA in handles[0].attr:
        return False
    taken = handles[0].data if values[0] is handles[1] else ~handles[0].data
    return bool((taken if active is None else taken | ~active).all())


def _are_counted(values: Sequence[Handle], result: Handle) -> bool:
    """Return True if flags become numbers, which a kernel may add up."""
    return result.data.dtype != np.bool_ and any(it.data.dtype == np.bool_ for it in values)


def asks_for_numbers(handles: Sequence[Handle]) -> bool:
    """Return True if constants are floats other than zero, with which a kernel may ask for a range of numbers."""
    constants = [numbers(handle) for handle in handles if DATA not in handle.attr]
    return any(it.dtype.kind == "f" and bool((np.isfinite(it) & (it != 0)).any()) for it in constants)


def _extremum(name: str, known: Sequence[Data]) -> int:
    """Return 1 if results are the largest of several values, and -1 if they are the smallest."""
    if name in EXTREMA and (len(known) == 2 or known[0].extremum):
        return 1 if name in MAXIMA else -1
    return known[0].extremum if len(known) == 1 and name in SCALED else 0


def _is_depth(name: str, handles: Sequence[Handle], known: Sequence[Data]) -> bool:
    """Return True if results are differences to an extremum, or made of such by a factor."""
    if name == "create_fsub":
        return bool(DATA in handles[1].attr and handles[1].attr[DATA].extremum)
    return bool(known) and name in SCALED and all(it.is_depth for it in known)


def _picked(name: str, handles: Sequence[Handle], known: Sequence[Data]) -> Array | None:
    """Return the lanes on which a choice between zero and other values took these."""
    if name in CASTS:
        return known[0].picked
    if name != "create_select" or len(known) != 1:
        return None
    flags: Array = handles[0].data
    taken, other = (flags, handles[2]) if DATA in handles[1].attr else (~flags, handles[1])
    if other.data.any():
        return None
    return taken if known[0].picked is None else np.logical_and(taken, known[0].picked)


def _asked(name: str, sources: Sequence[Handle]) -> tuple[str, ...]:
    """Return the places of the comparisons that the flags which an operation joins or counts come from."""
    joined = [place for source in sources for place in source.attr[DATA].asked] if name in FLAGGING else []
    return tuple(dict.fromkeys(joined))


def limit_of(name: str, handles: Sequence[Handle], sources: Sequence[Handle]) -> tuple[float, str] | None:
    """Return the number that a comparison compares values with, and how: `LT`, for example, if they are below it."""
    if len(handles) != 2 or len(sources) != 1:
        return None
    is_first = sources[0] is handles[0]
    low, high = bounds_in(handles[1 if is_first else 0])
    return (low, name[-2:] if is_first else TURNED.get(name[-2:], name[-2:])) if low == high else None


def bounds_everywhere(handle: Handle) -> Bounds:
    """Return bounds of the values of a handle that also hold where there are no data."""
    (low, high), active = bounds_in(handle), active_lanes(handle)
    idle = numbers(handle)[~np.broadcast_to(active, handle.data.shape)] if active is not None else np.empty(0)
    if not idle.size:
        return low, high
    least, most = of_constant(idle)
    return min(low, least), max(high, most)


def bounds_in(handle: Handle) -> Bounds:
    """Return bounds of the values of a handle, where these are data."""
    known: Bounds = handle.attr[DATA].bounds if DATA in handle.attr else of_constant(numbers(handle))
    return known


def _are_tame(name: str, handles: Sequence[Handle], known: Sequence[Data], bounds: Bounds) -> bool:
    """Return True if results are as finite as what they are made of, and no constant is huge."""
    if not all(it.is_tame for it in known):
        return False
    if max(map(abs, bounds)) <= MODERATE:
        return True
    constants = [numbers(handle) for handle in handles if DATA not in handle.attr]
    constants = [np.abs(it[np.isfinite(it)]) for it in constants if it.dtype.kind == "f"]
    if name in QUOTIENTS:
        return DATA not in handles[1].attr and all((it >= 1 / LARGE).all() for it in constants)
    return name in TAME and all((it <= LARGE).all() for it in constants)


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


def _is_guard(
    name: str,
    args: Sequence[Any],
    handles: Sequence[Handle],
    sources: Sequence[Handle],
    result: Handle,
    active: Array | None,
) -> bool:
    """Return True if the operation asks for NaN or an infinity near memory, a mass of zero, or what cannot be.

    Only if it found nothing of the kind, though: a kernel may ask whether values are numbers, and treat these wrongly.
    """
    known = [source.attr[DATA] for source in sources]
    is_comparison = name.startswith(COMPARISONS)
    if (name in FLAGGING or is_comparison) and all(it.is_guard for it in known):
        return True
    is_near_memory = all(it.is_tame or it.extremum or it.is_element for it in known)
    if name == "create_extern_elementwise":
        asked = next((word for word in ("isnan", "isinf", "finite") if word in str(args[2])), None)
        return is_near_memory and asked is not None and _are_all(result, asked == "finite", active)
    if not is_comparison or len(handles) != 2:
        return False
    if sources[0] is sources[-1] and len(sources) == 2:
        return is_near_memory and _are_all(result, compare(name, 1.0, 1.0), active)
    if decides(name, *map(bounds_in, handles)):
        are_whole = not any(it.dtype.scalar.is_floating() for it in sources)
        return is_near_memory or are_whole or _are_all(result, compare(name, 1.0, np.nan), active)
    if len(sources) == 2:
        return False
    values = [np.ones(1) if handle is sources[0] else numbers(handle) for handle in handles]
    constant = values[1 if handles[0] is sources[0] else 0]
    may_be_empty = known[0].extremum and (constant == -np.inf * known[0].extremum).all()
    asks_if_finite = np.isinf(constant).all() and (known[0].is_tame or known[0].is_element or may_be_empty)
    asks_for_mass = known[0].is_mass and not constant.any()
    if not constant.size or not (asks_if_finite or asks_for_mass):
        return False
    return _are_all(result, compare(name, *values), active)


def _are_all(result: Handle, expected: Any, active: Array | None) -> bool:
    """Return True if the active lanes have these flags."""
    are = result.data == expected
    return bool((are | ~active).all() if active is not None else are.all())


def origin_of(sources: Sequence[Handle]) -> int:
    """Return the one origin of all of these, or 0."""
    origins = {source.attr[DATA].origin for source in sources}
    return origins.pop() if len(origins) == 1 else 0


def active_lanes(handle: Handle) -> Array | None:
    return handle.attr[DATA].active if DATA in handle.attr else None


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
    sources = data_in(inputs)
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
        are_elements = chooses and all(it.is_element for it in known)
        if combined:
            _mark_as_combined(result, combined[number], shaped, given)
            continue
        result.attr[DATA] = Data(
            shaped,
            origin=new_origin() if are_elements and DATA not in given.attr else 0,
            stem=new_origin(),
            is_element=are_elements,
            is_tame=(chooses or combine is tl.standard._sum_combine) and all(it.is_tame for it in known),
            extremum=1 if combine in LARGEST else -1 if combine in CHOOSING else 0,
            bounds=_of_reduced(given, result, combine),
            is_mass=is_mass,
            is_guard=combine in COUNTING and all(it.is_guard for it in known),
            is_total=not are_elements,
        )


def _of_reduced(given: Handle, result: Handle, combine: Any) -> Bounds:
    """Return bounds of what one of Triton's functions makes of many values."""
    if combine is tl.standard._sum_combine:
        return of_sum(bounds_everywhere(given), given.data.size // max(result.data.size, 1))
    if combine not in CHOOSING:
        return ANY
    (low, high), (least, most) = bounds_in(given), bounds_everywhere(given)
    return (low, most) if combine in LARGEST else (least, high)


def _picks(summed: Handle, along: int | None) -> bool:
    """Return True if sums have one term, as in `sum(where(at == place, x, 0))` or `sum(x * (at == place))`."""
    picked = summed.attr[DATA].picked if DATA in summed.attr else None
    taken = np.broadcast_to(summed.data != 0 if picked is None else picked, summed.data.shape)
    terms = taken.reshape(len(taken), -1) if along is None else taken
    counts = np.count_nonzero(terms, axis=1 if along is None else along)
    return bool((counts <= 1).all()) and float(counts.mean()) > 0.5  # some terms may be zero


def note_combined(inputs: Sequence[Handle], operands: Sequence[Handle]) -> None:
    """Note that a combining function gets values of the inputs: those of one place first, then those of another."""
    if not any(DATA in handle.attr for handle in inputs):
        return
    for number, operand in enumerate(operands):
        if DATA not in inputs[number % len(inputs)].attr:
            continue
        given = inputs[number % len(inputs)].attr[DATA]
        origin = hash((given.origin, number // len(inputs))) if given.origin else 0
        bounds = of_any_number(
            bounds_everywhere(inputs[number % len(inputs)])
        )  # it may also combine what it returned before
        operand.attr[DATA] = dataclasses.replace(given, active=None, origin=origin, bounds=bounds)


def note_scanned(inputs: Sequence[Handle], results: Sequence[Handle], combined: Sequence[Handle]) -> None:
    """Note that the results combine values of the inputs along an axis, in order; see `note_reduced`."""
    if any(DATA in handle.attr for handle in inputs):
        for number, (given, result) in enumerate(zip(inputs, results)):
            active = given.attr[DATA].active if DATA in given.attr else None
            if combined:
                _mark_as_combined(result, combined[number], active, given)
            else:
                result.attr[DATA] = Data(active, stem=new_origin(), is_total=True)


def _mark_as_combined(result: Handle, combined: Handle, active: Array | None, given: Handle) -> None:
    """Note that the result is like what a combining function returned, which need not depend on data."""
    if DATA in combined.attr:
        known, sign = combined.attr[DATA], of_any_number(bounds_everywhere(given))
        bounds = sign if sign[0] <= known.bounds[0] and known.bounds[1] <= sign[1] else ANY
        result.attr[DATA] = dataclasses.replace(
            known, active=active, origin=0, stem=new_origin(), is_total=not known.is_element, bounds=bounds
        )


def _any(lanes: Array, along: int | None) -> Array:
    lanes = lanes.reshape(len(lanes), -1) if along is None else lanes
    return np.asarray(lanes.any(axis=1 if along is None else along))

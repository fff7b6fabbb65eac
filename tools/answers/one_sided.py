"""Refuses kernels whose answer depends on a predicate on data that has the same result in all calls.

Inputs are drawn, and changed in many ways, but not in every way that a kernel could ask for: rows in order, a sum of
exactly one, a mark in the last bits of a state. A kernel that treats certain inputs differently has an operation whose
result tells them from others. If this operation never gave more than one result, however inputs were changed, and an
answer becomes wrong when it gives another one, then what the kernel does in that case was never checked.

An author may know that the other result cannot occur; then the question should be left out of the kernel. Not covered:
what is decided by arithmetic that comes near its other result everywhere, such as a high power; kernels that prepare
parameters; what is decided at the full size only.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
import time
from collections.abc import Callable, Iterable, Sequence

from triton_agent.tools.answers import checks
from triton_agent.tools.cases.plan import Case
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.graph.own_limits import BOTH, Limit, told
from triton_agent.tools.processes.payloads import Payload
from triton_agent.tools.processes.protocol import NEARLY, OPERANDS, Called, Predicate, PredicateKind
from triton_agent.tools.results import Finding

TRIED_AT_MOST = 64
"""Maximum number of predicates that are given another result; of more, each is taken to matter."""
SAME = 1e-3
"""Numbers of a kernel and of the reference that differ by less are the same: their sums may be rounded differently."""
SEARCH_S = 60.0
"""Time after which no more calls are made to find the other result."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call that can be made again: its case, and its parameters and buffers."""

    case: Case
    state: Payload


class SearchEnded(Exception):
    """Calls cannot be noted any more; nothing is known of the candidate then."""


Ask = Callable[[Asked, str], tuple[checks.Answer, Called]]
"""Makes a call in the interpreter with another result at this place, or, if it is empty, with predicates noted."""


@dataclasses.dataclass(slots=True)
class Known:
    """One predicate with its only result so far, if it had no other one, and the call that it decides most of."""

    predicate: Predicate
    only: float | None
    asked: Asked


class KnownPredicates:
    """The predicates of one program over several calls."""

    def __init__(self, *, has_single_rows: bool = False) -> None:
        """With `has_single_rows`, a dimension is one in these calls, but not at the main sizes.

        A row of one element holds only its largest. So a difference that is always zero is no predicate then, nor an
        exponential that is always one.
        """
        self._known: dict[str, Known] = {}
        self._has_single_rows = has_single_rows

    def add(self, asked: Asked, found: Iterable[Predicate]) -> None:
        for it in found:
            known = self._known.setdefault(it.place, Known(predicate=it, only=it.only, asked=asked))
            was_guard = known.predicate.kind is PredicateKind.GUARD
            if not was_guard and (it.kind is PredicateKind.GUARD or it.lanes > known.predicate.lanes):
                known.predicate, known.asked = it, asked
            if it.only is None or known.only is None or not math.isclose(known.only, it.only, rel_tol=NEARLY):
                known.only = None

    def one_sided(self) -> list[tuple[str, Known]]:
        """Return the predicates that had one result so far.

        Flags that are joined always give one result if one of them never changes. Such flags count only if each that is
        no predicate itself had several results.
        """

        def varies(place: str) -> bool:
            return place not in self._known or self._known[place].only is None

        return [
            (place, known)
            for place, known in self._known.items()
            if known.only is not None
            and known.predicate.kind not in (PredicateKind.OPERAND, PredicateKind.GUARD)
            and not (self._has_single_rows and known.predicate.kind is PredicateKind.OPERATION and known.only in (0, 1))
            and (known.predicate.kind is not PredicateKind.JOINT or all(varies(place + ending) for ending in OPERANDS))
        ]

    def is_of_reference(self, known: Known, own_limits: Callable[[Case], frozenset[Limit]]) -> bool:
        """Return True if the reference compares the same values with the same number in this call."""
        if known.predicate.kind is PredicateKind.JOINT:
            parts = [self._known.get(place) for place in known.predicate.asked]
            own = [part is not None and self._is_compared(part, own_limits) for part in parts]
            one_sided = [part is not None and part.only is not None for part in parts]
            return any(map(operator.and_, own, one_sided)) or (known.predicate.of_itself and all(own))
        return known.only is not None and self._is_compared(known, own_limits)

    def _is_compared(self, known: Known, own_limits: Callable[[Case], frozenset[Limit]]) -> bool:
        """Return True if the reference compares the same values with the same number, and with the same results."""
        if known.predicate.limit is None:
            return False
        number, relation = known.predicate.limit
        side = BOTH if known.predicate.only is None else told(relation.lower(), bool(known.predicate.only))[0]
        low, high = known.predicate.between
        return any(
            side == it.side and _are_same(number, it.number) and _are_same(low, it.low) and _are_same(high, it.high)
            for it in own_limits(known.asked.case)
        )


def one_sided_of(
    predicates: KnownPredicates,
    more: Iterable[Sequence[Asked]],
    ask: Ask,
    own_limits: Callable[[Case], frozenset[Limit]] = lambda case: frozenset(),
) -> Known | None:
    """Return a predicate that has one result in all calls, and on which an answer depends; None if there is none.

    `more` are calls to make until each predicate that matters had several results, in groups made when asked for.
    `own_limits` finds the numbers that the reference compares values with in a case.
    """
    began, left, own_limits = time.monotonic(), itertools.chain.from_iterable(more), functools.cache(own_limits)
    matters: dict[str, bool] = {}
    while True:
        open_ = predicates.one_sided()
        for place, known in open_:
            if place not in matters:
                matters[place] = len(matters) >= TRIED_AT_MOST or _matters(place, known, ask)
        suspects = [known for place, known in open_ if matters[place]]
        suspect = next((known for known in suspects if not predicates.is_of_reference(known, own_limits)), None)
        if suspect is None:
            return None
        asked = next(left, None) if time.monotonic() < began + SEARCH_S else None
        if asked is None:
            return suspect
        predicates.add(asked, ask(asked, "")[1].predicates)


def _matters(place: str, known: Known, ask: Ask) -> bool:
    """Return True if the answer is wrong with another result at this place."""
    case = known.asked.case
    try:
        answer, _ = ask(known.asked, place)
        checks.check_structure(case, answer)
        checks.check_form(case, answer)
        return checks.measure(case, answer)[1] is not None
    except Failed:
        return True


def _are_same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME, abs_tol=1e-6)


def refusal(known: Known, code: str) -> Failed:
    """Return the failure of a candidate for this predicate, which stands in a line with this code."""
    return Failed(
        Finding.ONE_SIDED,
        f"line {known.predicate.line}, `{code}`: {_spoken(known)} in every call that was checked, and otherwise the "
        "outputs are wrong, so what the kernel does then was never checked; leave that case out, or compute it like "
        "all others",
    )


def _spoken(known: Known) -> str:
    if known.predicate.kind is PredicateKind.COMPARISON:
        return f"a comparison of values computed from the data is {'true' if known.only else 'false'}"
    if known.predicate.kind is PredicateKind.EXTREMUM:
        return f"the {'first' if known.only == 1 else 'second'} of two values computed from the data is taken"
    if known.predicate.kind is PredicateKind.LIMIT:
        return f"a limit of a value computed from the data is {'never' if known.only else 'always'} passed"
    if known.predicate.kind is PredicateKind.BOUND:
        return f"a bound of the loop, computed from the data, is {'above zero' if known.only else 'zero or less'}"
    if known.predicate.kind is PredicateKind.JOINT:
        return "two conditions on the data taken together have the same result"
    return f"an operation on the data gives {known.only:g}"

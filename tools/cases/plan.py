"""The plan of a problem: the cases a candidate has to pass, by variant, distribution, parameters and mode.

The main variant runs every distribution, multiplies inputs by powers of two (`magnitudes.py`), and changes the
parameters: all of them, one element of each, one alone. Other variants get the inputs as given and the distribution
`extremes`. `case_maker.py` makes the cases, once per problem.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch

from triton_agent.tools.answers.authorship import OriginalWork
from triton_agent.tools.cases.distributions import DISTRIBUTIONS
from triton_agent.tools.cases.named_numbers import Numbers
from triton_agent.tools.graph.own_limits import Limit
from triton_agent.tools.processes.payloads import Payload
from triton_agent.tools.processes.protocol import MetNumbers
from triton_agent.tools.truth.expectation import Expectation

Verify = Callable[[Payload, Any], bool]
"""Returns True if the problem accepts these outputs for these packed inputs."""

AS_GIVEN = DISTRIBUTIONS[0]
SHUFFLED = "shuffled"
ONE_CHANGED = "one element changed"
"""The inputs as given with one element of each changed, which a cache that samples the contents misses."""

ALONE_BYTES_AT_MOST = 64 << 20
"""Limit for all parameters and buffers together, since each version of them is kept and sent."""
LARGE_BYTES = 1 << 30
"""Size of the inputs and outputs of a call from which a case is large."""


Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def once_for_each(answer: Callable[[Asked], Answer]) -> Callable[[Asked], Answer]:
    """Keep the function's answers about cases or trials as long as these exist; some are made for one candidate."""
    known: weakref.WeakKeyDictionary[Asked, Answer] = weakref.WeakKeyDictionary()

    @functools.wraps(answer)
    def kept(asked: Asked) -> Answer:
        if asked not in known:
            known[asked] = answer(asked)
        return known[asked]

    return kept


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Case:
    """One call of a candidate and the expected result. Cases compare by identity."""

    name: str
    variant: str
    distribution: str
    expectation: Expectation
    train: bool = False
    version: int = 0
    """Index of the version of the parameters, in the trial's `states`."""
    stale: Callable[[], Expectation | None] | None = None
    """The expectation for the previous version of the parameters, to recognise outputs that still use it."""
    put_in_order: frozenset[int] = frozenset()
    """Outputs for which the reference changes the order of elements in memory."""
    verify: Verify | None = None
    """The problem's own verifier, if it has one; the expectation then holds the inputs only."""
    change: Callable[[list[Any], torch.Generator], None] | None = None
    """Changes other inputs of the reference, also of another size, as those of this case were changed."""

    @property
    def is_large(self) -> bool:
        """True if a card has room for only a few copies of inputs and outputs."""
        return self.expectation.answer_bytes >= LARGE_BYTES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Calls of a module that keeps a state, each of which begins with the state that the one before left."""

    cases: tuple[Case, ...]
    """A case for each call. The last one also expects what all of them leave, and may be in the other mode."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """A call that gets what the call before returned or left."""

    case: Case
    state: Payload
    """Parameters and buffers with which the call begins."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Trial:
    """One variant: how to build the module, the versions of its parameters, and its cases in order.

    Trials compare by identity.
    """

    variant: str
    packed_init: Payload
    build_seed: int
    states: tuple[Payload, ...]
    by_keyword: tuple[str, ...] = ()
    """Names of the last arguments of a call, which forward takes by keyword only."""
    cases: tuple[Case, ...]
    modes: tuple[str, ...] = ()
    """Modes in which the reference answers alike in two calls: `eval`, `train`; empty for a verifier."""
    other_mode: tuple[Case, ...] = ()
    """The cases in the mode that is not the first, if the reference does the same in both. They are checked if a
candidate's tape is another one in that mode."""
    looks: tuple[Case, ...] = ()
    """Cases that are only checked during timing."""
    free_order: bool = False
    """True if the reference is known to accept inputs with shuffled elements."""
    holding: Callable[[Numbers, bool], Iterable[tuple[Case, Payload | None]]] | None = None
    """Makes cases whose inputs hold the numbers that a candidate's kernels name, in training mode if the flag is set.
Each comes with its own parameters and buffers, or None."""

    meeting: Callable[[Case, Sequence[MetNumbers]], Case | None] | None = None
    """Makes a case with the inputs of another, where some elements (input, index in memory) get other numbers."""

    at_other_branches: Callable[[], Sequence[Case]] = tuple
    """Makes cases of the kinds that otherwise only the main variant has in its first mode, for candidates whose kernels
take another branch than there: at this size or, in the main variant, in the second mode."""

    with_other_parameters: Callable[[], Sequence[tuple[Case, Payload]]] = tuple
    """Makes calls with changed parameters and buffers for a variant that has one version of them. Each call comes with
    those that it needs."""

    chain: Callable[[Case, Case | None, int], Chain | None] | None = None
    """Makes a chain of so many calls in the mode of a case that changes buffers, the last one in that of the second
    case if there is one; None if the reference refuses it."""

    following: Callable[[Case, Mapping[int, torch.Tensor], Mapping[str, torch.Tensor]], Following | None] | None = None
    """Makes a call that gets these inputs, by number, and begins with these buffers; all else is as in the case."""

    own_limits: Callable[[Case], frozenset[Limit]] = lambda case: frozenset()
    """Finds the numbers that the reference compares values with in a case, with one result for all of them."""

    def begins_mode(self, case: Case) -> bool:
        """Return True for the first case in training mode and the first one in evaluation mode."""
        return case is next(other for other in self.cases if other.train == case.train)

    @property
    def order_is_free(self) -> bool:
        return self.free_order or any(case.distribution == SHUFFLED for case in self.cases)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything asked of a candidate for this problem."""

    trials: tuple[Trial, ...]
    """The variants, the cheapest first."""
    main: int
    """Index of the trial at the given (or scaled-down) sizes."""
    work: tuple[OriginalWork, ...]
    """Work of the reference in each trial."""
    timing_sets: tuple[Payload, ...]
    """Packed inputs of the main trial that timed calls rotate through; empty if nothing is timed."""
    facts: dict[str, Any]
    """Facts about the problem for people and authors; plain data."""
    spots: Any = None
    """Larger sizes at which some programs are checked (`spots.Spots`); None without a reference."""

    def payloads(self) -> Iterator[Payload]:
        """Yield every payload that is sent to a candidate's processes."""
        yield from self.timing_sets
        for trial in self.trials:
            yield trial.packed_init
            yield from trial.states
            yield from (case.expectation.packed_inputs for case in (*trial.cases, *trial.looks))


def as_given(plan: Plan) -> Plan:
    """Return the plan with only the main trial."""
    main = plan.main
    return dataclasses.replace(plan, trials=(plan.trials[main],), main=0, work=(plan.work[main],))

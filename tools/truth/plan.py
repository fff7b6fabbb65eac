"""The plan of a problem: which cases a candidate has to pass, by variant, distribution, parameters and mode.

The main variant runs every distribution and changes the parameters: all of them, one element of each, one alone. Other
variants get the inputs as given and planted extremes. `cases.py` makes the cases, once per problem, from the reference.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from triton_agent.tools.answers.authorship import OriginalWork
from triton_agent.tools.processes.payloads import Payload
from triton_agent.tools.truth.distributions import DISTRIBUTIONS
from triton_agent.tools.truth.expectation import Expectation
from triton_agent.tools.truth.named_numbers import Numbers

Verify = Callable[[Payload, Any], bool]
"""Packed inputs and outputs -> whether the problem accepts them."""

AS_GIVEN = DISTRIBUTIONS[0]
EXTREMES = "extremes"
SHUFFLED = "shuffled"
ONE_CHANGED = "one element changed"
"""The inputs as given, but for one element of each, which a cache that compares samples of the content misses."""

LARGE_BYTES = 1 << 30
"""Of inputs and outputs of a call."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """One call of a candidate and the expected result. No case is equal to another."""

    name: str
    variant: str
    distribution: str
    expectation: Expectation
    train: bool = False
    version: int = 0
    """Index into the trial's versions of the parameters."""
    stale: Callable[[], Expectation | None] | None = None
    """The expectation for the previous version of the parameters, to recognise outputs that still use it."""
    verify: Verify | None = None
    """The problem's own verifier, if it has one; the expectation then holds the inputs only."""

    @property
    def is_large(self) -> bool:
        """Return whether a card has room for a few copies of inputs and outputs only."""
        return self.expectation.answer_bytes >= LARGE_BYTES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One variant: how to build the module, its parameters' versions, its cases in order."""

    variant: str
    packed_init: Payload
    build_seed: int
    states: tuple[Payload, ...]
    by_keyword: tuple[str, ...] = ()
    """Names under which forward gets the last arguments of a call."""
    cases: tuple[Case, ...]
    looks: tuple[Case, ...] = ()
    """Cases that are only run while the clock runs."""
    free_order: bool = False
    """Known from elsewhere: the reference runs on inputs whose elements are shuffled."""
    holding: Callable[[Numbers], Sequence[tuple[Case, Payload | None]]] | None = None
    """Makes cases whose inputs hold the numbers that a candidate's kernels name, each with its state if it has one."""

    @property
    def order_is_free(self) -> bool:
        return self.free_order or any(case.distribution == SHUFFLED for case in self.cases)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything asked of a candidate for this problem."""

    trials: tuple[Trial, ...]
    """The cheapest first."""
    main: int
    """Index of the trial closest to the problem as given."""
    work: tuple[OriginalWork, ...]
    """For each trial."""
    timing_sets: tuple[Payload, ...]
    """Packed inputs of the main trial that the clock rotates through; empty if nothing is timed."""
    facts: dict[str, Any]
    """Facts about the problem for people and authors; plain data."""
    spots: Any = None
    """Sizes beyond these at which some programs are looked at (`spot_checks.Spots`); None without a reference."""

    def payloads(self) -> Iterator[Payload]:
        """Yield everything that is sent to a candidate's processes."""
        yield from self.timing_sets
        for trial in self.trials:
            yield trial.packed_init
            yield from trial.states
            yield from (case.expectation.packed_inputs for case in (*trial.cases, *trial.looks))


def as_given(plan: Plan) -> Plan:
    """Return the plan with the main trial alone."""
    main = plan.main
    return dataclasses.replace(plan, trials=(plan.trials[main],), main=0, work=(plan.work[main],))


def secret_seed() -> int:
    return int.from_bytes(os.urandom(6), "big")

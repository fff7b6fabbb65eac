"""Which cases a candidate has to pass: variants of the problem x distributions x parameter versions x modes.

The first trial runs every distribution and changes the parameters: all of them, one element of each, one alone. Other
variants get the inputs as given and planted extremes. The cases are made in `cases.py`, once per problem, from the
reference alone.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from triton_agent.tools.isolate.conditions import DEFAULT, Conditions
from triton_agent.tools.isolate.payloads import Payload
from triton_agent.tools.verify.authorship import OriginalWork
from triton_agent.tools.verify.distributions import DISTRIBUTIONS
from triton_agent.tools.verify.expectation import Expectation
from triton_agent.tools.verify.named_numbers import Numbers

Verify = Callable[[Payload, Any], bool]
"""Packed inputs and outputs -> whether the problem accepts them."""

AS_GIVEN = DISTRIBUTIONS[0]
EXTREMES = "extremes"
SHUFFLED = "shuffled"
ONE_CHANGED = "one element changed"
"""The inputs as given but for one element of each: too little for a cache that looks at samples of the content."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """One call a candidate makes, and what must come of it. No case is equal to another."""

    name: str
    variant: str
    distribution: str
    train: bool
    version: int
    """Which version of the parameters holds."""
    expectation: Expectation
    stale: Callable[[], Expectation | None] | None = None
    """The same inputs under the parameters before they were changed, to recognise an answer to those."""
    verify: Verify | None = None
    """For problems that judge by themselves; the expectation then holds the inputs only."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One variant: how to build the module, its parameters' versions, its cases in order."""

    variant: str
    packed_init: Payload
    build_seed: int
    states: tuple[Payload, ...]
    cases: tuple[Case, ...]
    looks: tuple[Case, ...] = ()
    """Calls that are only made while the clock runs."""
    holding: Callable[[Numbers], Sequence[tuple[Case, Payload | None]]] | None = None
    """Makes cases whose inputs hold the numbers that a candidate's kernels name, each with its state if it has one."""

    @property
    def order_is_free(self) -> bool:
        """Whether the original also serves inputs whose elements have changed places."""
        return any(case.distribution == SHUFFLED for case in self.cases)


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
    """Packed inputs of the main trial for the clock to rotate through; empty where nothing is timed."""
    facts: dict[str, Any]
    """What people want to know of the problem; plain data."""
    spots: Any = None
    """Sizes beyond these at which some programs are looked at (`spot_checks.Spots`); None without a reference."""

    def payloads(self) -> Iterator[Payload]:
        """All that is sent to candidates."""
        yield from self.timing_sets
        for trial in self.trials:
            yield trial.packed_init
            yield from trial.states
            yield from (case.expectation.packed_inputs for case in (*trial.cases, *trial.looks))


def as_given(plan: Plan) -> Plan:
    """The same at the problem's own sizes alone."""
    main = plan.main
    return dataclasses.replace(plan, trials=(plan.trials[main],), main=0, work=(plan.work[main],))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """What is asked of candidates beyond the inputs as given."""

    modes: tuple[str, ...] = ("eval", "train")
    """Both are checked where they differ; a drop-in must serve both."""
    remedies: bool = True
    """Distributions beyond the one given, randomised parameters. Off only to see what a problem is worth by itself."""
    family: bool = True
    """Variants of the problem's sizes."""
    device: str = "cpu"
    """Where the original runs: `cpu` or `cuda`."""
    conditions: Conditions = DEFAULT


def secret_seed() -> int:
    return int.from_bytes(os.urandom(6), "big")

"""What a problem is worth as a judge, as frozen values: which wrong answers it was tried with, and which passed.

`tools/verify/worth.py` makes the attempts; this file says what they add up to. A problem that lets an answer through
which never looked at the question teaches nothing and rewards anything, however fast the "kernel" was. Nothing here
needs torch. Not covered: whether the original itself computes what its author meant.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from triton_agent.tools.results import to_json

MUTANT_BAR = 0.8
"""The least share of mutants that the judge must refuse, remedies included. Of some 70 problems tried (this project's
test problems, and models from a transformer block to a GRU), those with nothing wrong came out between 0.92 and 1.0,
one with a ReLU after an absolute value, which no test can miss, at 0.83; those whose answer is constant or mostly
undecided by the inputs at 0.3 to 0.7."""

FEW_SURVIVORS = 1
"""So many survivors are never held against a problem: among a handful of mutants one equivalent is a fifth of them."""


class Family(enum.StrEnum):
    """Ways of being wrong."""

    IMPOSTOR = "impostor"
    """Does not do the work at all, or damages the right answer from outside."""
    PARTIAL = "partial"
    """Part of the answer is an impostor's."""
    DROPPED = "dropped"
    """A step, an operand, a weight or a bias is left out."""
    AXIS = "axis"
    """Reduced or normalised over another dimension."""
    SWAPPED = "swapped"
    """Another operator in place of one: max for min, plus for minus, a transposed operand."""
    CONSTANT = "constant"
    """A number in the formula is another: scale, slope, eps, count."""
    OFF_BY_ONE = "off by one"
    """An index, a diagonal or a boundary is off."""
    TRUNCATED = "truncated"
    """The last element of a reduction is left out."""
    PRECISION = "precision"
    """Computed in fewer bits."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One wrong answer, and how far it came."""

    family: Family
    what: str
    """As the start of a sentence: `dropping relu`, `all zeros`."""
    survives_as_given: bool
    """Passes with the inputs, parameters and sizes as given."""
    survives: bool
    """Passes with every remedy: further distributions, randomised parameters, other sizes."""
    killed_by: str = ""
    """The first case with remedies that refused it."""
    inert: bool = False
    """It never changed a value in any case, so it may be no mistake at all."""
    meaning: str = ""
    """What it says of the problem if this passes; may be empty."""

    def __post_init__(self) -> None:
        if self.survives != (self.killed_by == ""):
            raise ValueError("exactly what was refused was refused by something")

    @property
    def sentence(self) -> str:
        """For people."""
        if self.survives:
            why = "it changes no value here, so the inputs never exercise that step, or it is no mistake"
            meaning = self.meaning or (why if self.inert else "")
            return f"{self.what} passes" + (f": {meaning}" if meaning else "")
        if self.survives_as_given:
            return f"{self.what} passes as given; refused with {self.killed_by}"
        return f"{self.what} is refused"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """The verdict on a problem."""

    sound: bool
    reasons: tuple[str, ...]
    """Why it was flagged; empty where it is sound."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorthReport:
    """Everything that was tried on one problem."""

    name: str
    digest: str
    attempts: tuple[Attempt, ...]
    cases_as_given: int
    cases: int
    """With remedies."""
    discarded: int = 0
    """Mutants that raised, had another shape or dtype, or changed nothing by construction."""
    left_out: int = 0
    """Attempts that the time did not suffice for."""
    refuses_original: str = ""
    """A case in which the original itself did not pass a second time; empty where it always does."""
    scaled: str = ""
    notes: tuple[str, ...] = ()

    @property
    def impostors(self) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self.attempts if attempt.family is Family.IMPOSTOR)

    @property
    def mutants(self) -> tuple[Attempt, ...]:
        return tuple(a for a in self.attempts if a.family not in (Family.IMPOSTOR, Family.PARTIAL))

    @property
    def blind_spots(self) -> tuple[Attempt, ...]:
        """What passes, that which passes in spite of remedies first."""
        passing = [attempt for attempt in self.attempts if attempt.survives or attempt.survives_as_given]
        return tuple(sorted(passing, key=lambda a: (not a.survives, a.family is not Family.IMPOSTOR, a.inert)))

    @property
    def sound(self) -> bool:
        return worth_of(self).sound

    def by_family(self) -> dict[Family, tuple[Attempt, ...]]:
        """In the order of `Family`, those without attempts left out."""
        found = {family: tuple(a for a in self.attempts if a.family is family) for family in Family}
        return {family: attempts for family, attempts in found.items() if attempts}

    def to_json(self) -> dict[str, Any]:
        return {field.name: to_json(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WorthReport:
        attempts = tuple(Attempt(**{**item, "family": Family(item["family"])}) for item in data["attempts"])
        return cls(**{**data, "attempts": attempts, "notes": tuple(data["notes"])})


def kill_rate(attempts: tuple[Attempt, ...], *, as_given: bool = False) -> float | None:
    """The share that was refused; None where nothing was tried."""
    if not attempts:
        return None
    return sum(not (a.survives_as_given if as_given else a.survives) for a in attempts) / len(attempts)


def worth_of(report: WorthReport) -> Worth:
    """Sound or flagged. Only what passes in spite of the remedies counts, since no candidate is judged without them."""
    reasons = [attempt.sentence for attempt in report.impostors if attempt.survives]
    rate = kill_rate(report.mutants)
    survivors = sum(attempt.survives for attempt in report.mutants)
    if rate is not None and rate < MUTANT_BAR and survivors > FEW_SURVIVORS:
        reasons.append(
            f"{survivors} of {len(report.mutants)} mutants of the original pass; "
            f"at least {MUTANT_BAR:.0%} must be refused"
        )
    if report.refuses_original:
        reasons.append(f"the original itself is refused in case {report.refuses_original}")
    if not report.attempts:
        reasons.append("no wrong answer could be made, so nothing is known of it")
    return Worth(sound=not reasons, reasons=tuple(reasons))

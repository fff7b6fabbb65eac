"""Report of a problem's audit: which wrong answers were tried on it, and which of them passed.

`audit/audit.py` tries the answers; this module sums them up. A problem that accepts an answer made without its inputs
teaches nothing and rewards anything. Nothing here needs torch. Not covered: whether the reference computes what its
author meant.
"""

from __future__ import annotations

import dataclasses
import enum

MUTANT_BAR = 0.8
"""Least share of mutants that must be refused, remedies included. It was calibrated on some 70 problems (this project's
test problems, and models from a transformer block to a GRU): sound ones reached 0.92 to 1.0; one with a ReLU after an
absolute value, a step that no test can detect, 0.83; those with a constant answer, or one mostly independent of the
inputs, 0.3 to 0.7."""

FEW_SURVIVORS = 1
"""Up to this many survivors never count against a problem: with few mutants, one equivalent mutant is a large share."""


class Family(enum.StrEnum):
    """Kinds of wrong answers."""

    FAKE = "fake"
    """Made without the work, or correct and damaged afterwards."""
    PARTIAL = "partial"
    """Part of the answer is fake."""
    DROPPED = "dropped"
    """A step, an operand, a weight or a bias is left out."""
    AXIS = "axis"
    """Reduced or normalised over another dimension."""
    SWAPPED = "swapped"
    """An operator replaced by another: max for min, plus for minus, a transposed operand."""
    CONSTANT = "constant"
    """Another number in the formula: scale, slope, eps, count."""
    OFF_BY_ONE = "off by one"
    """An index, a diagonal or a boundary is off."""
    TRUNCATED = "truncated"
    """The last element of a reduction is left out."""
    PRECISION = "precision"
    """Computed in fewer bits."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrongAnswer:
    """One wrong answer and its result."""

    family: Family
    what: str
    """The start of a sentence about it: `dropping relu`, `all zeros`."""
    survives_as_given: bool
    """True if it passes with the inputs, parameters and sizes as given."""
    survives: bool
    """True if it passes with every remedy: other distributions, randomised parameters, other sizes."""
    killed_by: str = ""
    """The first case with remedies that refused it; empty if none did."""
    inert: bool = False
    """True if it never changed a value in any case, so it may not be a mistake."""
    meaning: str = ""
    """What it means for the problem if this answer passes; may be empty."""

    def __post_init__(self) -> None:
        if self.survives != (self.killed_by == ""):
            raise ValueError("a refused answer needs the case that refused it, and a surviving one has none")

    @property
    def sentence(self) -> str:
        if self.survives:
            why = "it changes no value here, so the inputs never exercise that step, or it is no mistake"
            meaning = self.meaning or (why if self.inert else "")
            return f"{self.what} passes" + (f": {meaning}" if meaning else "")
        if self.survives_as_given:
            return f"{self.what} passes as given; refused with {self.killed_by}"
        return f"{self.what} is refused"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The results of all answers tried on one problem."""

    name: str
    digest: str
    answers: tuple[WrongAnswer, ...]
    cases_as_given: int
    cases: int
    """Number of cases with remedies."""
    discarded: int = 0
    """Mutants that raised, had another shape or dtype, or changed nothing by construction."""
    left_out: int = 0
    """Number of answers skipped for lack of time."""
    refuses_reference: str = ""
    """A case in which the reference itself did not pass a second time; empty if it always passed."""
    scaled: str = ""
    """How the problem's sizes were scaled down; empty if they were not."""
    notes: tuple[str, ...] = ()

    @property
    def fakes(self) -> tuple[WrongAnswer, ...]:
        return tuple(answer for answer in self.answers if answer.family is Family.FAKE)

    @property
    def mutants(self) -> tuple[WrongAnswer, ...]:
        return tuple(answer for answer in self.answers if answer.family not in (Family.FAKE, Family.PARTIAL))

    @property
    def blind_spots(self) -> tuple[WrongAnswer, ...]:
        """Answers that pass, those that pass even with remedies first."""
        passing = [answer for answer in self.answers if answer.survives or answer.survives_as_given]
        return tuple(sorted(passing, key=lambda a: (not a.survives, a.family is not Family.FAKE, a.inert)))

    @property
    def flaws(self) -> tuple[str, ...]:
        """Why the problem is flagged; empty if it is sound.

        Only answers that pass even with remedies count, since every candidate meets the remedies.
        """
        flaws = [answer.sentence for answer in self.fakes if answer.survives]
        rate, survivors = kill_rate(self.mutants), sum(answer.survives for answer in self.mutants)
        if rate is not None and rate < MUTANT_BAR and survivors > FEW_SURVIVORS:
            flaws.append(
                f"{survivors} of {len(self.mutants)} mutants of the reference pass; "
                f"at least {MUTANT_BAR:.0%} must be refused"
            )
        if self.refuses_reference:
            flaws.append(f"the reference itself is refused in case {self.refuses_reference}")
        if not self.answers:
            flaws.append("no wrong answer could be made, so nothing is known of the problem")
        return tuple(flaws)

    @property
    def sound(self) -> bool:
        return not self.flaws

    def by_family(self) -> dict[Family, tuple[WrongAnswer, ...]]:
        """Group the answers by family, in the order of `Family`; empty groups are left out."""
        found = {family: tuple(a for a in self.answers if a.family is family) for family in Family}
        return {family: answers for family, answers in found.items() if answers}


def kill_rate(answers: tuple[WrongAnswer, ...], *, as_given: bool = False) -> float | None:
    """Return the share of answers that was refused, or None if there are none."""
    if not answers:
        return None
    return sum(not (a.survives_as_given if as_given else a.survives) for a in answers) / len(answers)

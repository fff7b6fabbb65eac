"""Report of a problem's audit: which wrong answers were tried on it, and which of them passed.

`audit/audit.py` tries the answers; here stands what they add up to. A problem that accepts an answer made without
looking at its inputs teaches nothing and rewards anything. Nothing here needs torch. Not covered: whether the
reference itself computes what its author meant.
"""

from __future__ import annotations

import dataclasses
import enum

MUTANT_BAR = 0.8
"""Least share of mutants that must be refused, remedies included. Of some 70 problems tried (this project's
test problems, and models from a transformer block to a GRU), those with nothing wrong came out between 0.92 and 1.0,
one with a ReLU after an absolute value, which no test can miss, at 0.83; those whose answer is constant or mostly
undecided by the inputs at 0.3 to 0.7."""

FEW_SURVIVORS = 1
"""This many survivors never count against a problem: among a handful of mutants one equivalent one is a fifth."""


class Family(enum.StrEnum):
    """Kinds of wrong answers."""

    FAKE = "fake"
    """Made without the work, or right and damaged afterwards."""
    PARTIAL = "partial"
    """Part of the answer is fake."""
    DROPPED = "dropped"
    """A step, an operand, a weight or a bias is left out."""
    AXIS = "axis"
    """Reduced or normalised over another dimension."""
    SWAPPED = "swapped"
    """Another operator in place of one: max for min, plus for minus, a transposed operand."""
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
    """One wrong answer and what became of it."""

    family: Family
    what: str
    """How a sentence about it begins: `dropping relu`, `all zeros`."""
    survives_as_given: bool
    """Passes with the inputs, parameters and sizes as given."""
    survives: bool
    """Passes with every remedy: further distributions, randomised parameters, other sizes."""
    killed_by: str = ""
    """The first case with remedies that refused it."""
    inert: bool = False
    """True if it never changed a value in any case, so that it may be no mistake at all."""
    meaning: str = ""
    """What it says of the problem if this passes; may be empty."""

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
    """Everything that was tried on one problem."""

    name: str
    digest: str
    answers: tuple[WrongAnswer, ...]
    cases_as_given: int
    cases: int
    """With remedies."""
    discarded: int = 0
    """Mutants that raised, had another shape or dtype, or changed nothing by construction."""
    left_out: int = 0
    """Answers for which there was no time."""
    refuses_reference: str = ""
    """A case in which the reference itself did not pass a second time; empty where it always does."""
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
        """Answers that pass, those that pass in spite of the remedies first."""
        passing = [answer for answer in self.answers if answer.survives or answer.survives_as_given]
        return tuple(sorted(passing, key=lambda a: (not a.survives, a.family is not Family.FAKE, a.inert)))

    @property
    def flaws(self) -> tuple[str, ...]:
        """Why the problem is flagged; empty if it is sound.

        Only answers that pass in spite of the remedies count, since every candidate meets the remedies.
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

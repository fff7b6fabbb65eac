"""Two benchmark records side by side, problem by problem: what changed, by how much, and whether that could be noise.

    compare(before, after) -> Comparison

Problems are paired by label and digest. Each statement has its own test, so that a change by chance is not taken for a
real one: McNemar's exact test for gained against lost problems; sign flips of the paired log-ratios for speed-ups as a
whole. The speed-up of one problem counts as changed only beyond what a rerun of one kernel moves by (`MARGIN`) and
beyond both sides' intervals, corrected for the number of problems: of twenty comparisons of equal kernels at most one
names any problem.

Not covered: a clock that differs by more than that margin on another day, and a policy that would write other kernels
next time. `differences.py` finds what makes figures incomparable; the caller has to report it.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterator, Sequence

from triton_agent.runs.bench.compare.differences import Difference, differences
from triton_agent.runs.bench.figures import with_unsolved
from triton_agent.runs.bench.rows import Against, Kind, ProblemRow, Record
from triton_agent.runs.bench.standing import is_solved, speed_of
from triton_agent.tools.estimates import even_odds, geometric_mean, holm, resampled, sign_flips
from triton_agent.tools.race.intervals import MARGIN
from triton_agent.tools.results import Interval

LEVEL = 0.05
"""Probability of calling equal things changed, at most: for each test, and for the list of problems as a whole."""
REACH = statistics.NormalDist().inv_cdf(0.975)
"""Standard errors from an estimate to the end of its 95% interval."""
FEW = 7
"""Degrees of freedom assumed for an interval. Kernels that are not ahead are timed in eight pairs only, and intervals
of so few pairs are sometimes far too narrow; with more pairs this assumption costs little.
"""

Rows = tuple[ProblemRow, ProblemRow]
"""The rows of one problem, before and after."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One problem in both records."""

    label: str
    group: str
    solved_before: bool | None
    solved_after: bool | None
    speedup_before: Interval | None
    speedup_after: Interval | None
    ratio: Interval | None
    """Speed-up after over before; above 1 the kernel became faster. None unless it was timed on both sides."""
    changed: bool
    """True if the change is beyond noise, with all problems taken together."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Change of one kind of figure over many problems."""

    ratio: Interval
    """Geometric mean of after over before, with its bootstrap interval over problems."""
    of: int
    higher: int
    lower: int
    chance: float
    """Probability of a change as large by noise alone, by sign flips of the log-ratios."""
    chance_by_sign: float
    """The same probability by the numbers of higher and lower problems only, which ignores sizes and outliers."""

    @property
    def changed(self) -> bool:
        return self.chance <= LEVEL


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpeedShift:
    """Change of speed against one baseline in one kind of time."""

    against: Against
    kind: Kind
    solved: Shift | None
    """Over problems solved and timed on both sides."""
    everything: Shift | None
    """Geometric mean over all problems in both records; an unsolved problem counts as 1."""
    baseline: Shift | None
    """The baseline's time before divided by its time after; a value far from 1 means that the machine changed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of two records."""

    before: str
    after: str
    differences: tuple[Difference, ...]
    only_before: tuple[str, ...]
    """Problems with a row in this record only, or with other contents in the other."""
    only_after: tuple[str, ...]
    pairs: tuple[Pair, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    both_solved: int
    neither_solved: int
    unknown: int
    """Pairs for which at least one record does not tell whether the problem is solved."""
    chance_solved: float
    """Probability of a split at least as uneven, if gains and losses were equally likely."""
    against: Against
    kind: Kind
    """Kind of time of the speed-ups in `pairs`."""
    speeds: tuple[SpeedShift, ...]

    @property
    def faster(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.pairs if pair.changed and pair.ratio and pair.ratio.median > 1)

    @property
    def slower(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.pairs if pair.changed and pair.ratio and pair.ratio.median < 1)

    @property
    def speed(self) -> SpeedShift | None:
        """Change in the kind of time of `pairs`. Only this one is tested: of six tables one would often differ by
        chance.
        """
        return next((item for item in self.speeds if (item.against, item.kind) == (self.against, self.kind)), None)

    @property
    def timed(self) -> int:
        return sum(pair.ratio is not None for pair in self.pairs)

    @property
    def deciding(self) -> tuple[Difference, ...]:
        return tuple(item for item in self.differences if item.deciding)


def compare(
    before: Record,
    after: Record,
    *,
    names: tuple[str, str] = ("before", "after"),
    against: Against = Against.EAGER,
    kind: Kind = Kind.DEVICE,
) -> Comparison:
    """Compare everything, even if figures are not comparable: check `deciding` before using the result."""
    old, new = ({row.label: row for row in record.rows} for record in (before, after))
    rows = [(row, new[label]) for label, row in old.items() if label in new and new[label].digest == row.digest]
    paired = {row.label for row, _ in rows}
    known = [(row, other) for row, other in rows if None not in (is_solved(row), is_solved(other))]
    gained = tuple(row.label for row, other in known if other.solved and not row.solved)
    lost = tuple(row.label for row, other in known if row.solved and not other.solved)
    both = sum(row.solved and other.solved for row, other in known)
    return Comparison(
        before=names[0],
        after=names[1],
        differences=differences(before, after),
        only_before=tuple(label for label in old if label not in paired),
        only_after=tuple(label for label in new if label not in paired),
        pairs=_pairs(rows, against, kind),
        gained=gained,
        lost=lost,
        both_solved=both,
        neither_solved=len(known) - both - len(gained) - len(lost),
        unknown=len(rows) - len(known),
        chance_solved=even_odds(len(gained), len(lost)),
        against=against,
        kind=kind,
        speeds=tuple(_speed_shifts(known)),
    )


# -- one problem -------------------------------------------------------------------------------------------------------


def _pairs(rows: Sequence[Rows], against: Against, kind: Kind) -> tuple[Pair, ...]:
    speedups = [tuple(_speedup(row, against, kind) for row in pair) for pair in rows]
    timed = [(old, new) for old, new in speedups if old is not None and new is not None]
    judged = iter(holm([chance_of_change(old, new) for old, new in timed], LEVEL))
    return tuple(
        Pair(
            label=row.label,
            group=row.group,
            solved_before=is_solved(row),
            solved_after=is_solved(other),
            speedup_before=old,
            speedup_after=new,
            ratio=ratio(old, new) if old and new else None,
            changed=next(judged) if old and new else False,
        )
        for (row, other), (old, new) in zip(rows, speedups)
    )


def _speedup(row: ProblemRow, against: Against, kind: Kind) -> Interval | None:
    found = speed_of(row, against, kind) if row.solved else None
    return found.speedup if found else None


def ratio(before: Interval, after: Interval) -> Interval:
    """Return after over before; the errors of the two measurements add up as squares, separately for each side."""
    middle = math.log(after.median / before.median)
    down = math.hypot(math.log(after.median / after.low), math.log(before.high / before.median))
    up = math.hypot(math.log(after.high / after.median), math.log(before.median / before.low))
    return Interval(median=math.exp(middle), low=math.exp(middle - down), high=math.exp(middle + up))


def chance_of_change(before: Interval, after: Interval) -> float:
    """Return the probability of intervals as far apart, if the kernels differ by no more than reruns do."""
    found = ratio(before, after)
    toward_one = found.median / found.low if found.median > 1 else found.high / found.median
    beyond, error = abs(math.log(found.median)) - math.log1p(MARGIN), math.log(toward_one) / REACH
    if beyond <= 0:
        return 1.0
    return beyond_by_chance(beyond / error) if error > 0 else 0.0


def beyond_by_chance(errors: float) -> float:
    """Return the probability that Student's t with `FEW` degrees of freedom is as far from zero, on either side."""
    angle = math.atan(errors / math.sqrt(FEW))
    term, inside = math.cos(angle), 0.0
    for odd in range(3, FEW + 1, 2):
        inside += term
        term *= math.cos(angle) ** 2 * (odd - 1) / odd
    return max(0.0, 1 - 2 / math.pi * (angle + math.sin(angle) * inside))


# -- all of them -------------------------------------------------------------------------------------------------------


def _speed_shifts(rows: Sequence[Rows]) -> Iterator[SpeedShift]:
    """Yield the change for each kind of time that some problem has in both records."""
    for kind in Kind:
        for against in Against:
            speeds = [tuple(speed_of(row, against, kind) if row.solved else None for row in pair) for pair in rows]
            timed = [(old, new) for old, new in speeds if old and new]
            if not timed:
                continue
            # A solved problem without this kind of time does not count as unsolved; it is left out.
            told = [
                with_unsolved(speed.speedup.median if speed else None for speed in found)
                for pair, found in zip(rows, speeds)
                if all(speed is not None or not row.solved for row, speed in zip(pair, found))
            ]
            yield SpeedShift(
                against=against,
                kind=kind,
                solved=shift([new.speedup.median / old.speedup.median for old, new in timed]),
                everything=shift([new / old for old, new in told]),
                baseline=shift([old.baseline_ms.median / new.baseline_ms.median for old, new in timed]),
            )


def shift(ratios: Sequence[float]) -> Shift | None:
    """Return the change of figures, given each one's ratio of after to before; None without any."""
    if not ratios:
        return None
    higher, lower = sum(value > 1 for value in ratios), sum(value < 1 for value in ratios)
    return Shift(
        ratio=resampled(ratios, geometric_mean),
        of=len(ratios),
        higher=higher,
        lower=lower,
        chance=sign_flips([math.log(value) for value in ratios]),
        chance_by_sign=even_odds(higher, lower),
    )

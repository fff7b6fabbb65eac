"""Computes the figures of a benchmark from its rows, for all problems and for each group: shares, speed-ups, floor.

  summaries(record) -> a `Summary` of all problems, then one for each group, dominant kind of work, and class of dtype

The unit is the problem: each counts once, whatever its number of samples. Shares have Wilson's intervals with one trial
for each problem, which is too wide if samples of one problem differ and never too narrow. Means and medians have
bootstrap intervals over problems: they tell what other problems of this kind might give, not what the clock of another
day would. A problem that could not be measured, or cannot be used here, is in no denominator and is counted separately;
without a GPU there are no speed-ups. `compare.py` compares two records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from triton_agent.runs.bench.rows import Against, Kind, ProblemRow, Record, Sample
from triton_agent.runs.bench.standing import cheating, dtype_class, is_solved, kernel_counts, speed_of, standing_for
from triton_agent.tools.estimates import geometric_mean, mean, median, pass_at, resampled, share_interval
from triton_agent.tools.results import Interval

FACTORS = (1.0, 1.2, 1.5, 2.0)
"""The p of fast_p. fast_0 is the share of solved problems and needs no clock."""
KS = (1, 5, 10)
"""The k of pass@k that papers report; the number of samples is reported as well."""


# -- of plain sequences ------------------------------------------------------------------------------------------------


def fast_p(speedups: Sequence[float | None], p: float) -> float:
    """Return the share of all problems that are solved and faster than p; None stands for unsolved.

    This is KernelBench's definition: a speed-up equal to p is not faster, the denominator is every problem, and the
    speed-up is the point estimate, whatever its interval.
    """
    return sum(value is not None and value > p for value in speedups) / len(speedups)


def with_unsolved(speedups: Iterable[float | None]) -> list[float]:
    """Replace None by 1, since an unsolved problem keeps the reference; a slower kernel counts as slower."""
    return [1.0 if value is None else value for value in speedups]


# -- of many -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """An estimate with its interval, and the number of problems that it is based on."""

    value: Interval
    of: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpeedFigures:
    """Speed against one baseline in one kind of time."""

    against: Against
    kind: Kind
    timed: int
    """Number of solved problems that have this time."""
    untimed: int
    """Number of solved problems without this time; they are in no denominator."""
    fast: Mapping[str, Figure]
    """fast_p by name: `fast_1`, `fast_1.2`."""
    surely_fast: Mapping[str, Figure]
    """fast_p, counting only kernels whose whole interval is above p."""
    geomean_all: Figure | None
    """Geometric mean over all problems, unsolved ones as 1; None if all are solved and none of them was timed."""
    geomean_solved: Figure | None
    """Geometric mean over timed problems; None without any. It also rises if hard problems
    fail, so it is shown with the count.
    """
    mean_solved: Figure | None
    """Arithmetic mean over timed problems, as TritonBench reports it; a few large speed-ups dominate it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BaselineFigures:
    """Times of one baseline relative to the reference as written, without any kernel."""

    against: Against
    kind: Kind
    geomean: Figure


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Figures of one group of problems, or of all."""

    by: str
    """Property that the group is made by: `group`, `dominant` or `dtype`; empty for all problems."""
    name: str
    asked: int | None
    """Number of problems asked for; None in a group if problems without a row cannot be assigned to groups."""
    rows: int
    """Number of problems with a row."""
    unusable: int
    needs_gpu: int
    """Number of unusable problems that need a GPU."""
    not_measured: int
    no_samples: int
    """Number of problems without samples, for which only baselines were measured."""
    judged: int
    """Number of problems that are known to be solved or not: the denominator of shares."""
    solved: Figure | None
    """fast_0: the share of problems with a kernel that passed, in any sample."""
    called: Figure | None
    """Call accuracy: the share of samples whose kernel was called and returned, averaged over problems."""
    executed: Figure | None
    """Execution accuracy: the share of samples that passed, averaged over problems."""
    pass_at: Mapping[str, Figure]
    """`pass@1`, ...: unbiased, from problems with enough measured samples."""
    hack: Figure | None
    """Share of judged kernels that cheated, averaged over problems."""
    floor: Figure | None
    """Median fraction of the floor over solved problems that have one."""
    copy: Figure | None
    """For memory-bound problems: median of the time of a copy of as many bytes over the kernel's time."""
    memory: Figure | None
    """Median of a call's memory over that of the reference."""
    speeds: tuple[SpeedFigures, ...]
    baselines: tuple[BaselineFigures, ...]
    kernels: Mapping[str, int]
    """Number of all judged kernels, by status."""
    seconds: float
    tokens: int

    @property
    def solved_count(self) -> int:
        return round(self.solved.value.median * self.solved.of) if self.solved else 0

    def speed(self, against: Against = Against.EAGER, kind: Kind = Kind.DEVICE) -> SpeedFigures | None:
        return next((item for item in self.speeds if item.against is against and item.kind is kind), None)


GROUPINGS: Mapping[str, Callable[[ProblemRow], str]] = {
    "group": lambda row: row.group,
    "dominant": lambda row: row.dominant,
    "dtype": lambda row: dtype_class(row.dtype),
}


def summaries(record: Record) -> tuple[Summary, ...]:
    """Return the figures of all problems, then of each group. A grouping with fewer than two groups is left out."""
    timed = _times_taken(record.rows)
    found = [_summary("", "all", len(record.head.labels), record.rows, timed)]
    for by, group_of in GROUPINGS.items():
        groups: dict[str, list[ProblemRow]] = {}
        for row in record.rows:
            groups.setdefault(group_of(row), []).append(row)
        if len(groups) > 1:
            found += [_summary(by, name, _asked(record, by, name), rows, timed) for name, rows in groups.items()]
    return tuple(found)


def _asked(record: Record, by: str, name: str) -> int | None:
    """Return how many problems of a group were asked for; without a row only `group` is known, from the label."""
    if len(record.rows) == len(record.head.labels):
        return sum(GROUPINGS[by](row) == name for row in record.rows)
    return sum(label.startswith(f"{name}/") for label in record.head.labels) if by == "group" else None


def _times_taken(rows: Sequence[ProblemRow]) -> list[tuple[Against, Kind]]:
    """Return the kinds of speed that were measured; no figure is reported for the others."""
    seen = {(speed.against, speed.kind) for row in rows for sample in row.samples for speed in sample.speeds}
    return [(against, kind) for kind in Kind for against in Against if (against, kind) in seen]


def _summary(
    by: str, name: str, asked: int | None, rows: Sequence[ProblemRow], timed: Sequence[tuple[Against, Kind]]
) -> Summary:
    judged = [row for row in rows if is_solved(row) is not None]
    passed = [row for row in judged if row.solved]
    best = [sample for sample in map(standing_for, passed) if sample is not None]
    hacks = [cheated / kernels for cheated, kernels in map(cheating, rows) if kernels]
    return Summary(
        by=by,
        name=name,
        asked=asked,
        rows=len(rows),
        unusable=sum(bool(row.unusable) for row in rows),
        needs_gpu=sum(row.needs_gpu for row in rows if row.unusable),
        not_measured=sum(is_solved(row) is None and bool(row.samples) for row in rows if not row.unusable),
        no_samples=sum(not row.samples for row in rows if not row.unusable),
        judged=len(judged),
        solved=_share([float(row.solved) for row in judged]),
        called=_share(_per_problem(judged, lambda sample: sample.called)),
        executed=_share(_per_problem(judged, lambda sample: sample.executed)),
        pass_at=_pass_at(judged),
        hack=_share(hacks),
        floor=_median([sample.floor_fraction for sample in best]),
        copy=_median([sample.copy_fraction for sample in best]),
        memory=_median([sample.peak_memory_ratio for sample in best]),
        speeds=tuple(_speeds(judged, against, kind) for against, kind in timed) if judged else (),
        baselines=tuple(_baselines(rows)),
        kernels=dict(kernel_counts(rows).most_common()),
        seconds=sum(row.seconds for row in rows),
        tokens=sum(sample.tokens for row in rows for sample in row.samples),
    )


def _share(shares: Sequence[float]) -> Figure | None:
    """Return the mean of shares, one for each problem."""
    if not shares:
        return None
    return Figure(value=share_interval(min(sum(shares), len(shares)), len(shares)), of=len(shares))


def _median(values: Iterable[float | None]) -> Figure | None:
    known = [value for value in values if value is not None]
    return Figure(value=resampled(known, median), of=len(known)) if known else None


def _geomean(values: Sequence[float]) -> Figure | None:
    return Figure(value=resampled(values, geometric_mean), of=len(values)) if values else None


def _mean(values: Sequence[float]) -> Figure | None:
    return Figure(value=resampled(values, mean), of=len(values)) if values else None


def _answers(row: ProblemRow) -> list[Sample]:
    return [sample for sample in row.samples if sample.status is not None]


def _per_problem(rows: Sequence[ProblemRow], holds: Callable[[Sample], bool]) -> list[float]:
    table = [[holds(sample) for sample in _answers(row)] for row in rows]
    return [sum(line) / len(line) for line in table if line]


def _pass_at(rows: Sequence[ProblemRow]) -> dict[str, Figure]:
    table = [[float(sample.executed) for sample in _answers(row)] for row in rows]
    most = max(map(len, table), default=0)
    found = {}
    for k in sorted({*(k for k in KS if k <= most), most} - {0}):
        figure = _share([pass_at(k, line) for line in table if len(line) >= k])
        if figure:
            found[f"pass@{k}"] = figure
    return found


def _speeds(rows: Sequence[ProblemRow], against: Against, kind: Kind) -> SpeedFigures:
    found = {row.label: speed_of(row, against, kind) for row in rows if row.solved}
    timed = [speed.speedup for speed in found.values() if speed is not None]
    medians: list[float | None] = [speedup.median for speedup in timed]
    lows: list[float | None] = [speedup.low for speedup in timed]
    unsolved = [None] * (len(rows) - len(found))
    everything = [*medians, *unsolved]
    return SpeedFigures(
        against=against,
        kind=kind,
        timed=len(timed),
        untimed=len(found) - len(timed),
        fast=_fast(everything),
        surely_fast=_fast([*lows, *unsolved]),
        geomean_all=_geomean(with_unsolved(everything)),
        geomean_solved=_geomean([speedup.median for speedup in timed]),
        mean_solved=_mean([speedup.median for speedup in timed]),
    )


def _fast(speedups: Sequence[float | None]) -> dict[str, Figure]:
    count = len(speedups)
    shares = {f"fast_{p:g}": fast_p(speedups, p) for p in FACTORS} if count else {}
    return {name: Figure(value=share_interval(round(share * count), count), of=count) for name, share in shares.items()}


def _baselines(rows: Sequence[ProblemRow]) -> Iterable[BaselineFigures]:
    for kind in Kind:
        for against in Against:
            known = [
                item.over_eager.median
                for row in rows
                for item in row.baselines
                if item.against is against and item.kind is kind
            ]
            figure = _geomean(known) if against is not Against.EAGER else None
            if figure:
                yield BaselineFigures(against=against, kind=kind, geomean=figure)

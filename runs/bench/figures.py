"""What the rows of a benchmark say, of all problems and of each group: shares, speed-ups, nearness to the floor.

    summaries(record) -> one `Summary` of all, then one for each group, dominant kind of work, and class of dtype

The unit is the problem: each counts once, however many samples it was given. Shares have Wilson's intervals, taken as
if each problem were one throw, which is too wide where samples of one problem differ and never too narrow. Means and
medians have bootstrap intervals over problems: they say what other problems like these might have given, not what
another day's clock would. Nothing is made up: a problem that could not be measured, or has no place here, stands in no
denominator and is counted beside it; without a GPU there are no speed-ups. Two records are compared in `compare.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from triton_agent.runs.bench.rows import Against, Kind, ProblemRow, Record, Sample
from triton_agent.runs.bench.standing import cheating, dtype_class, is_solved, kernel_counts, speed_of, standing_for
from triton_agent.tools.estimates import geometric_mean, mean, median, pass_at, resampled, share_interval
from triton_agent.tools.results import Interval

FACTORS = (1.0, 1.2, 1.5, 2.0)
"""The p of fast_p. fast_0 is the share solved and needs no clock."""
KS = (1, 5, 10)
"""The k of pass@k that papers print; how many samples there were is told as well."""


# -- of plain sequences ------------------------------------------------------------------------------------------------


def fast_p(speedups: Sequence[float | None], p: float) -> float:
    """The share of all problems that were solved and faster than p; None stands for unsolved.

    As KernelBench defines and computes it: the factor itself is not faster, the denominator is every problem, the
    speed-up is the point estimate, however sure it is.
    """
    return sum(value is not None and value > p for value in speedups) / len(speedups)


def with_unsolved(speedups: Iterable[float | None]) -> list[float]:
    """A problem without a kernel keeps the reference, a speed-up of 1; a slower kernel counts as slower."""
    return [1.0 if value is None else value for value in speedups]


# -- of many -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """An estimate with its interval, and how many problems it is of."""

    value: Interval
    of: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpeedFigures:
    """Speed against one baseline in one kind of time."""

    against: Against
    kind: Kind
    timed: int
    """Solved problems that have this time."""
    untimed: int
    """Solved problems that have not: they stand in no denominator."""
    fast: Mapping[str, Figure]
    """By name: `fast_1`, `fast_1.2`."""
    surely_fast: Mapping[str, Figure]
    """The same, counting only what is faster over its whole interval."""
    geomean_all: Figure | None
    """Over all problems, unsolved ones as 1; None where every one is solved and none of them timed."""
    geomean_solved: Figure | None
    """Over the timed ones; None where there is none. It rises when hard problems are lost: read the count."""
    mean_solved: Figure | None
    """The plain mean over the timed ones, as TritonBench prints it: a few large speed-ups make it up."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BaselineFigures:
    """How one baseline fares against the reference as written, with no kernel in sight."""

    against: Against
    kind: Kind
    geomean: Figure


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One group of problems, or all."""

    by: str
    """What it is a group by: `` for all, `group`, `dominant`, `dtype`."""
    name: str
    asked: int | None
    """Problems asked for; None where that is not known of those without a row."""
    rows: int
    """Problems with a row."""
    unusable: int
    needs_gpu: int
    """Of the unusable: for want of a GPU."""
    not_measured: int
    no_samples: int
    """No kernel was asked for: baselines alone."""
    judged: int
    """The denominator: those of which it is known whether they are solved."""
    solved: Figure | None
    """The share with a kernel that passed, in any sample: fast_0."""
    called: Figure | None
    """Call accuracy: the share of samples whose kernel was called and returned, averaged over problems."""
    executed: Figure | None
    """Execution accuracy: the share of samples that passed, averaged over problems."""
    pass_at: Mapping[str, Figure]
    """`pass@1`, ...: without bias, from problems with as many measured samples."""
    hack: Figure | None
    """The share of kernels judged that cheated, averaged over problems."""
    floor: Figure | None
    """Median fraction of the floor over solved problems that have one."""
    copy: Figure | None
    """Where memory binds: the median of what a copy of as many bytes takes over the kernel's time."""
    memory: Figure | None
    """Median of a call's memory over the reference's."""
    speeds: tuple[SpeedFigures, ...]
    baselines: tuple[BaselineFigures, ...]
    kernels: Mapping[str, int]
    """Every kernel judged on the way, by status."""
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
    """All problems, then each group of them. A grouping that puts all in one group, or none, is left out."""
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
    """Of problems without a row only the group is known: their label begins with it."""
    if len(record.rows) == len(record.head.labels):
        return sum(GROUPINGS[by](row) == name for row in record.rows)
    return sum(label.startswith(f"{name}/") for label in record.head.labels) if by == "group" else None


def _times_taken(rows: Sequence[ProblemRow]) -> list[tuple[Against, Kind]]:
    """Which speeds were measured at all: where none was, none is reported, not even that nothing was faster."""
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
    """The mean of shares, one a problem."""
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

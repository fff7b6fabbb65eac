"""The evidence for a verdict: the reasons in words, then times, profile and errors as charts with folded tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_agent.runs.report import bars
from triton_agent.runs.report.markup import Html, facts, folded, long, pictures, table, tag
from triton_agent.runs.report.words import baseline_said, bytes_said, finding_said, interval, ms_said, traffic_said
from triton_agent.tools.results import KINDS_OF_TIME, CaseAccuracy, Determinism, Evaluation, Timing

CASES_AT_MOST = 200
"""Most rows in a table of accuracy; the cases closest to their limits come first."""
CASES_DRAWN = 6
TIMES, PROFILE = "Times, with their intervals", "Device time of a call, by kernel and operator"
ERRORS = "Errors closest to their limits"


def reasons(evaluation: Evaluation) -> Iterator[object]:
    """Yield the reasons for the verdict, in words."""
    if evaluation.finding is not None:
        yield tag("p", f"Because {finding_said(evaluation.finding)}.", class_="because")
    if evaluation.message:
        yield tag("p", evaluation.message, class_="said")
    for seen in evaluation.evidence:
        yield tag("p", f"{finding_said(seen.finding)}: {seen.detail}", class_="said")
    for note in evaluation.notes:
        yield tag("p", note, class_="soft")


def times(evaluation: Evaluation) -> Html:
    """Return times as a picture, each clock with its baselines and the kernels."""
    groups: dict[str, list[bars.Bar]] = {}
    for kind, name in KINDS_OF_TIME.items():
        pairs = [item for item in evaluation.timings if item.kind == kind and not item.input_set]
        drawn = [bars.Bar(label=baseline_said(item.baseline), value=item.baseline_ms, own=False) for item in pairs]
        if pairs:
            groups[name] = [*drawn, bars.Bar(label="kernels", value=pairs[0].candidate_ms, own=True)]
    return bars.times(groups) if groups else Html("")


def method(evaluation: Evaluation) -> Iterator[object]:
    """Yield timings as tables: by set of inputs, and how they were measured."""
    if evaluation.timings:
        yield by_set(evaluation)
        whole = [item for item in evaluation.timings if not item.input_set]
        yield folded("How it was measured", _pairs(whole), _method(evaluation.timings[0]))


def _pairs(timings: Sequence[Timing]) -> Html:
    rows = [
        (
            KINDS_OF_TIME.get(item.kind, item.kind),
            item.baseline,
            ms_said(item.baseline_ms.median),
            ms_said(item.candidate_ms.median),
            interval(item.speedup),
            item.pairs or "",
        )
        for item in timings
    ]
    headings = ("time", "against", "its ms", "kernels ms", "speed-up", "pairs")
    return table(headings, rows, right=(2, 3, 4, 5), caption="Each baseline was timed in turns with the kernels")


def by_set(evaluation: Evaluation) -> Html:
    """Return a table of timings by set of inputs; empty if there is only one."""
    rows = [
        (
            item.input_set,
            f"{item.weight:g}",
            baseline_said(item.baseline),
            KINDS_OF_TIME[item.kind],
            ms_said(item.baseline_ms.median),
            ms_said(item.candidate_ms.median),
            interval(item.speedup),
            f"{item.pairs}" if item.pairs else item.method,
        )
        for item in evaluation.timings
        if item.input_set
    ]
    headings = ("inputs", "weight", "against", "time", "its ms", "kernels ms", "speed-up", "pairs")
    shown = table(headings, rows, right=(1, 4, 5, 6), caption="By set of inputs; the picture shows their weighted mean")
    return long(shown, len(rows), f"By set of inputs, {len(rows)} rows")


def _method(measured: Timing) -> Html:
    clocks = f"{min(measured.clocks_mhz)} to {max(measured.clocks_mhz)} MHz" if measured.clocks_mhz else ""
    return facts(
        [
            ("L2 cache", "cold" if measured.cold_l2 else "warm"),
            ("clocks", clocks),
            ("method", measured.method),
        ]
    )


def profile(evaluation: Evaluation) -> Html:
    """Return where the device time goes, as a picture."""
    found = evaluation.diagnosis.profile if evaluation.diagnosis else None
    if found is None or not found.kernels:
        return Html("")
    parts = [bars.Share(label=item.kernel, value=item.device_ms, own=item.own) for item in found.kernels]
    return bars.shares(parts, "ms", "Device time of one call, by kernel and operator")


def bottlenecks(evaluation: Evaluation) -> Iterator[object]:
    """Yield the profile in figures, and what could be saved."""
    found = evaluation.diagnosis.profile if evaluation.diagnosis else None
    if found is None:
        return
    limits = [(item.name, f"{item.lost_ms:.3g}", item.words) for item in found.bottlenecks]
    yield table(("bottleneck", "costs up to, ms", "because"), limits, right=(1,), caption="Bottlenecks")
    rows = [
        (
            item.kernel,
            "own" if item.own else "torch",
            f"{item.launches:g}",
            ms_said(item.device_ms),
            f"{item.share:.0%}",
        )
        for item in found.kernels
    ]
    headings = ("kernel", "whose", "launches", "ms", "share")
    shown = table(headings, rows, right=(2, 3, 4), caption="Device time of one call, by kernel and operator")
    yield folded("The profile in figures", shown) if shown else None


def errors(evaluation: Evaluation) -> Html:
    """Return the errors closest to their limits as a picture."""
    drawn = [
        bars.Margin(
            label=f"{case.variant} / {case.distribution}",
            used=min(_share(case), 1e6),
            reference=case.original_error / case.limit if case.limit else 0.0,
            ok=case.ok,
        )
        for case in _closest_first(evaluation)[:CASES_DRAWN]
    ]
    return bars.margins(drawn) if drawn else Html("")


def accuracy(evaluation: Evaluation) -> Iterator[object]:
    """Yield all errors as a folded table."""
    ordered = _closest_first(evaluation)
    if not ordered:
        return
    rows = [
        (
            case.variant,
            case.distribution,
            case.output,
            case.metric,
            f"{case.error:.3g}",
            f"{case.original_error:.3g}",
            f"{case.limit:.3g}",
            "yes" if case.ok else "NO",
        )
        for case in ordered[:CASES_AT_MOST]
    ]
    more = f"; {len(ordered) - CASES_AT_MOST} more are not shown" if len(ordered) > CASES_AT_MOST else ""
    headings = ("sizes", "inputs", "output", "measure", "error", "reference's own", "allowed", "within")
    caption = f"Error against float64, the closest to the limit first{more}"
    yield folded(f"All {len(ordered)} errors", table(headings, rows, right=(4, 5, 6), caption=caption))


def _closest_first(evaluation: Evaluation) -> list[CaseAccuracy]:
    return sorted(evaluation.accuracy, key=_share, reverse=True)


def _share(case: CaseAccuracy) -> float:
    return case.error / case.limit if case.limit else float(case.error > 0) * 1e300


def kernels(evaluation: Evaluation) -> Iterator[object]:
    """Yield what is known about the kernels without timing: compiler's report, launches, memory, notes."""
    diagnosis = evaluation.diagnosis
    rows = [
        (
            kernel.kernel,
            kernel.constants,
            kernel.target,
            kernel.num_warps,
            "?" if kernel.registers is None else kernel.registers,
            "?" if kernel.spill_bytes is None else kernel.spill_bytes,
            f"{kernel.shared_bytes:,}",
        )
        for kernel in evaluation.resources
    ]
    headings = ("kernel", "constants", "target", "warps", "registers", "spilled bytes", "shared bytes")
    compiled = table(headings, rows, right=(3, 4, 5, 6), caption="What the compiler reports", stacks=range(2, 7))
    yield long(compiled, len(rows), f"What the compiler reports, {len(rows)} kernels")
    launched = [
        (
            item.kernel,
            item.launches,
            f"{item.programs:,}",
            bytes_said(item.bytes_loaded),
            bytes_said(item.bytes_stored),
        )
        for item in (diagnosis.launches if diagnosis else ())
    ]
    least = ""
    if diagnosis is not None and diagnosis.traffic_ratio is not None:
        least = f", at the size where bytes are counted; fewest: {bytes_said(diagnosis.floor_bytes)}"
    called = table(
        ("kernel", "launches", "programs", "loaded", "stored"),
        launched,
        right=(1, 2, 3, 4),
        caption=f"Launches in one call{least}",
        stacks=range(1, 5),
    )
    yield long(called, len(launched), f"Launches in one call, {len(launched)} kernels")
    known = evaluation.determinism is not Determinism.NOT_MEASURED
    told: list[tuple[str, object]] = [("same bits every time", evaluation.determinism if known else "")]
    if diagnosis is not None:
        told += [
            ("bytes moved over the fewest", traffic_said(diagnosis)),
            ("memory of a call", bytes_said(diagnosis.peak_bytes)),
            ("the reference's", bytes_said(diagnosis.original_peak_bytes)),
            ("bound by", diagnosis.roofline.bound if diagnosis.roofline else ""),
            ("arithmetic left to torch", ", ".join(diagnosis.torch_operators)),
        ]
    yield facts(told)
    if diagnosis and diagnosis.notes:
        yield tag("ul", *(tag("li", note) for note in diagnosis.notes))


def stages(evaluation: Evaluation) -> Html:
    """Return how the time of the evaluation itself divides into stages."""
    if not evaluation.stages:
        return Html("")
    parts = [bars.Share(label=item.stage, value=item.wall_ms) for item in evaluation.stages if item.wall_ms > 0]
    total_s = sum(item.wall_ms for item in evaluation.stages) / 1e3
    return (
        folded(f"Judged in {total_s:.2f} s", bars.shares(parts, "ms", "Time of the evaluation")) if parts else Html("")
    )


def evidence(evaluation: Evaluation, *more: tuple[str, object]) -> Iterator[object]:
    """Yield all evidence except the reasons: first the charts, including `more`, then the folded tables."""
    yield pictures(
        [
            (TIMES, times(evaluation)),
            *more,
            (PROFILE, profile(evaluation)),
            (ERRORS, errors(evaluation)),
        ]
    )
    yield from method(evaluation)
    yield from bottlenecks(evaluation)
    yield from accuracy(evaluation)
    yield from kernels(evaluation)

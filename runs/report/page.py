"""Lays out a run as one self-contained HTML page: no script, no font, no image from elsewhere.

    render_report(RunView(history=...)) -> HTML

From the summary to every attempt, for light and dark screens and for paper. Nothing is measured here: missing figures
are shown as not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from triton_agent import __version__
from triton_agent.runs.history.records import StoredAttempt
from triton_agent.runs.report import attempts, charts
from triton_agent.runs.report.code import highlighted
from triton_agent.runs.report.document import document
from triton_agent.runs.report.markup import Html, facts, folded, join, table, tag
from triton_agent.runs.report.view import RunView, anchor, main_timing, timing
from triton_agent.tools.problem.input_spec import InputSet
from triton_agent.tools.problem.size_range import SizeRange
from triton_agent.tools.ranking import standing
from triton_agent.tools.results import KINDS_OF_TIME, Evaluation, Interval, Timing, asked_as


def render_report(run: RunView) -> str:
    """Return the page."""
    sections = [
        ("summary", "Summary", _summary(run)),
        ("speed", "Speed", _speed(run)),
        ("accuracy", "Accuracy", _accuracy(run)),
        ("attempts", "Attempts", _attempts(run)),
        ("problem", "Problem", _problem(run)),
        ("environment", "Environment", _environment(run)),
    ]
    title = f"{run.run.problem.name}: run {run.run.id}"
    return document(title, run.run.problem.name, _subtitle(run), sections)


def _subtitle(run: RunView) -> str:
    return f"Run {run.run.id}, {run.run.started_at:%Y-%m-%d %H:%M} {run.run.started_at:%Z}, triton-agent {__version__}"


# -- summary -----------------------------------------------------------------------------------------------------------


def _summary(run: RunView) -> list[object]:
    counts = ", ".join(f"{count} {status}" for status, count in run.counts)
    duration = "" if run.duration_s is None else f"{run.duration_s:.0f} s"
    best = attempts.link(run.best) if run.best else "none"
    return [
        tag("p", _verdict(run), class_="lead"),
        facts(
            [
                ("best attempt", best),
                ("ranges of sizes", "; ".join(run.ranges)),
                ("attempts", f"{len(run.attempts)} ({counts})" if counts else "none"),
                ("authors", run.run.policy),
                ("ended by", run.end.stop_reason if run.end else "not ended yet"),
                ("took", duration),
                ("forked from", run.run.forked_from),
            ]
        ),
    ]


def _verdict(run: RunView) -> str:
    """Return the summary's first sentences."""
    if run.best is None:
        return "No correct kernel was found. The reference stays."
    measured = [item for item in (timing(run.verdict, kind) for kind in KINDS_OF_TIME) if item is not None]
    of = "The shipped file is" if run.shipped else "The best kernel is"
    if not measured:
        return f"{of} correct. Its speed was not measured."
    said = ", ".join(f"{attempts.interval(item.speedup)} in {KINDS_OF_TIME[item.kind]}" for item in measured)
    worst = standing(run.verdict).worst
    least = f" The least gain is {attempts.interval(worst.speedup)}, at {worst.name}." if worst else ""
    over = " over all sets of inputs" if worst else ""
    return f"{of} correct. Speed against {measured[0].baseline}{over}: {said}.{least}"


# -- speed -------------------------------------------------------------------------------------------------------------


def _speed(run: RunView) -> list[object]:
    if not any(attempts.is_measured(evaluation) for evaluation in run.evaluations()):
        return [tag("p", f"Not measured: {_why_not(run)}."), _floor(run)]
    marks = _marks(run)
    parts: list[object] = []
    if run.verdict is not None and run.verdict.timings:
        parts += [
            *_over_sizes(run, run.verdict),
            *_by_set(run.verdict),
            _times(run.verdict),
            _method(run.verdict.timings[0]),
        ]
    if any(mark.speedup is not None for mark in marks):
        parts += [tag("h3", "Over the turns"), charts.speed_over_turns(marks)]
    return [*parts, tag("h3", "Roofline"), *_roofline(run), _floor(run)]


def _why_not(run: RunView) -> str:
    modes = {evaluation.environment.mode for evaluation in run.evaluations()}
    if modes == {"interpreter"}:
        return "no GPU was used; kernels ran in Triton's interpreter"
    return "nothing that passed was timed"


def _times(evaluation: Evaluation) -> Html:
    bars = []
    for item in evaluation.timings:
        if item.input_set:
            continue
        what = KINDS_OF_TIME[item.kind]
        bars.append(charts.Bar(label=f"{asked_as(item.baseline)}, {what}", value=item.baseline_ms, own=False))
        bars.append(charts.Bar(label=f"kernels, {what}", value=item.candidate_ms, own=True))
    return charts.times(bars)


def _over_sizes(run: RunView, evaluation: Evaluation) -> list[object]:
    """Return a chart of speed-ups over the length of the one range that the problem has."""
    spec = run.run.problem.spec
    ranges = [SizeRange.from_json(item) for item in spec.get("ranges", ())]
    if len(ranges) != 1:
        return []
    lengths = {item.name: item.lengths for item in map(InputSet.from_json, spec.get("sets", ()))}
    lines: dict[str, list[tuple[int, Interval]]] = {}
    for row in evaluation.timings:
        if row.input_set in lengths and row.baseline_name == "eager":
            spot = lengths[row.input_set][0], row.speedup
            lines.setdefault(KINDS_OF_TIME.get(row.kind, row.kind), []).append(spot)
    return [charts.speed_over_size(ranges[0].name, lines)] if lines else []


def _by_set(evaluation: Evaluation) -> list[object]:
    """Return a table of timings by set of inputs."""
    rows = [
        (
            item.input_set,
            f"{item.weight:g}",
            asked_as(item.baseline),
            KINDS_OF_TIME[item.kind],
            f"{item.baseline_ms.median:.4g}",
            f"{item.candidate_ms.median:.4g}",
            attempts.interval(item.speedup),
            f"{item.pairs}" if item.pairs else item.method,
        )
        for item in evaluation.timings
        if item.input_set
    ]
    if not rows:
        return []
    headings = ("inputs", "weight", "against", "time", "reference ms", "kernels ms", "speed-up", "pairs")
    return [
        table(headings, rows, right=(1, 4, 5, 6), caption="By set of inputs"),
        tag("p", "Below: over all sets, as weighted geometric means.", class_="soft"),
    ]


def _method(measured: Timing) -> Html:
    clocks = f"{min(measured.clocks_mhz)} to {max(measured.clocks_mhz)} MHz" if measured.clocks_mhz else ""
    return facts(
        [
            ("against", measured.baseline),
            ("pairs", measured.pairs),
            ("L2 cache", "cold" if measured.cold_l2 else "warm"),
            ("clocks", clocks),
            ("method", measured.method),
        ]
    )


def _marks(run: RunView) -> list[charts.Mark]:
    names = {item.key: item.name for item in run.attempts}
    return [
        charts.Mark(
            name=item.name,
            href=f"#{anchor(item.attempt)}",
            turn=item.attempt.turn,
            kind=attempts.kind_of(item),
            status=item.status,
            best=item is run.best,
            parents=(names[item.attempt.parent],) if item.attempt.parent in names else (),
            speedup=item.speedup,
        )
        for item in run.attempts
    ]


def _roofline(run: RunView) -> list[object]:
    flops, moved = run.run.problem.floor_flops, run.run.problem.floor_bytes
    timed = [(item, main_timing(item.evaluation, "device")) for item in run.attempts]
    spots = [
        charts.RooflinePoint(
            name=item.name,
            flops_per_byte=flops / moved,
            flops_per_s=flops / (measured.candidate_ms.median * 1e-3),
            best=item is run.best,
        )
        for item, measured in timed
        if measured is not None and flops and moved and measured.candidate_ms.median > 0
    ]
    if not spots:
        return [tag("p", "Not drawn: the problem has no arithmetic to count, or nothing was measured.")]
    bandwidth, roofs = _ceilings(run)
    if bandwidth is None and not roofs:
        return [tag("p", "Not drawn: the ceilings of this GPU were not measured.")]
    return [charts.roofline(spots, bandwidth, roofs)]


def _ceilings(run: RunView) -> tuple[float | None, list[charts.Roof]]:
    """Return the measured roofs; if only the floor is known, the roof that binds."""
    if run.ceilings is not None:
        rates = run.ceilings.flops_per_s.items()
        return run.ceilings.copy_bytes_per_s, [charts.Roof(name=unit, flops_per_s=rate) for unit, rate in rates]
    diagnosis = run.verdict.diagnosis if run.verdict else None
    known = diagnosis.roofline if diagnosis else None
    if diagnosis is None or known is None or known.floor_ms <= 0:
        return None, []
    if known.bound == "memory":
        return diagnosis.floor_bytes / (known.floor_ms * 1e-3), []
    return None, [charts.Roof(name="arithmetic", flops_per_s=diagnosis.floor_flops / (known.floor_ms * 1e-3))]


def _floor(run: RunView) -> Html:
    problem = run.run.problem
    measured = main_timing(run.verdict, "device")
    share = ""
    if problem.floor_ms and measured:
        share = f"{100 * problem.floor_ms / measured.candidate_ms.median:.0f}% of what the GPU allows"
    return facts(
        [
            ("fewest bytes", f"{problem.floor_bytes:,}"),
            ("fewest operations", f"{problem.floor_flops:,}"),
            ("floor", f"{problem.floor_ms:.4g} ms" if problem.floor_ms else "not measured"),
            ("reached", share),
        ]
    )


# -- accuracy ----------------------------------------------------------------------------------------------------------


def _accuracy(run: RunView) -> list[object]:
    if run.verdict is None:
        return [tag("p", "There is no kernel to show.")]
    of = "the shipped file" if run.shipped else f"attempt {run.best.name}" if run.best else "the best"
    lead = f"Of {of}. Truth is float64; a kernel may err as much as the reference does, times a small factor."
    return [tag("p", lead, class_="soft"), *attempts.evidence(run.verdict, fold=False)]


# -- attempts ----------------------------------------------------------------------------------------------------------


def _attempts(run: RunView) -> list[object]:
    if not run.attempts:
        return [tag("p", "None yet.")]
    legend = "A disc passed, a cross did not, a ring could not be measured; the best has a halo."
    return [
        charts.tree(_marks(run)),
        tag("p", legend, class_="soft"),
        attempts.overview(run),
        *(attempts.attempt(run, item) for item in _in_order(run)),
    ]


def _in_order(run: RunView) -> list[StoredAttempt]:
    return sorted(run.attempts, key=lambda item: (item.attempt.turn, item.attempt.index))


# -- problem and environment -------------------------------------------------------------------------------------------


def _problem(run: RunView) -> list[object]:
    problem = run.run.problem
    return [
        facts(
            [
                ("file", problem.spec.get("path")),
                ("class", problem.spec.get("class_name")),
                ("ranges", "; ".join(str(SizeRange.from_json(item)) for item in problem.spec.get("ranges", ()))),
                ("sets of inputs", "; ".join(_sets(problem.spec))),
                ("digest", problem.digest),
                ("sizes", "; ".join(problem.variants)),
                ("notes", "; ".join(problem.notes)),
            ]
        ),
        folded("The reference", highlighted(problem.source)),
    ]


def _sets(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sets of inputs with their weights."""
    for item in map(InputSet.from_json, spec.get("sets", ())):
        yield f"{item}: {item.content}" if item.content != item.name else str(item)


def _environment(run: RunView) -> list[object]:
    settings = [(name, value) for name, value in sorted(run.run.settings.items())]
    parts: list[object] = []
    if run.verdict is not None:
        seen = run.verdict.environment
        machine = run.best.grading.machine if run.best and run.best.grading else None
        parts.append(
            facts(
                [
                    ("device", (machine.gpu if machine else "") or seen.device),
                    ("driver", machine.driver if machine else ""),
                    ("mode", seen.mode),
                    ("compiled for", seen.target),
                    ("torch", seen.torch),
                    ("triton", seen.triton),
                    ("Python", seen.python),
                    ("sandbox", ", ".join(seen.sandbox) or "none"),
                    ("rules", seen.grader),
                    ("commit", run.run.commit),
                ]
            )
        )
    parts.append(folded("Settings of the run", facts(settings)))
    return [join(parts)]

"""Lays out a run as one self-contained HTML page: no script, no font, no image from elsewhere.

    render_report(RunView(history=...)) -> HTML

The headline and the speed-up over the turns come first, then pictures; long tables and code are folded. For light and
dark screens, phones and paper. Nothing is measured here: missing figures are shown as not measured. `runs/serve` shows
runs with the same parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from triton_agent import __version__
from triton_agent.memory.observation import ProblemView
from triton_agent.memory.records import Run
from triton_agent.runs.report import attempts, charts, evidence, lines
from triton_agent.runs.report.code import highlighted
from triton_agent.runs.report.document import document
from triton_agent.runs.report.markup import Html, facts, figures, folded, join, long, tag
from triton_agent.runs.report.view import RunView, anchor, main_timing, timing
from triton_agent.runs.report.words import bytes_said, end_said, interval, plain, settings_said
from triton_agent.tools.problem.input_spec import InputSet
from triton_agent.tools.problem.size_range import SizeRange
from triton_agent.tools.race.ceilings import Ceilings, Rates
from triton_agent.tools.ranking import standing
from triton_agent.tools.results import KINDS_OF_TIME, Evaluation, Interval, Status, Timing

ROWS_OPEN = 12
"""Most rows of a table that is not folded."""


def render_report(run: RunView) -> str:
    """Return the page."""
    sections = [
        ("summary", "Summary", _summary(run)),
        ("speed", "Speed", _speed(run)),
        ("accuracy", "Accuracy", _accuracy(run)),
        ("attempts", "Attempts", _attempts(run)),
        ("problem", "Problem", problem_facts(run.run)),
        ("environment", "Environment", _environment(run)),
    ]
    title = f"{run.run.problem.name}: run {run.run.id}"
    return document(title, run.run.problem.name, _subtitle(run), sections)


def _subtitle(run: RunView) -> str:
    return f"Run {run.run.id}, {run.run.started_at:%Y-%m-%d %H:%M} {run.run.started_at:%Z}, triton-agent {__version__}"


def _address(run: RunView) -> lines.Address:
    known = {item.key: f"#{anchor(item.attempt)}" for item in run.attempts}
    return lambda key: known.get(key, "")


# -- summary -----------------------------------------------------------------------------------------------------------


def _summary(run: RunView) -> list[object]:
    address, best = _address(run), run.best
    counts = ", ".join(f"{count} {plain(status)}" for status, count in run.counts)
    duration = "" if run.duration_s is None else f"{run.duration_s:.0f} s"
    return [
        tag("p", _verdict(run), class_="lead"),
        headline(run.verdict),
        *_over_turns(run),
        facts(
            [
                ("best attempt", lines.link(best.key, best.key, address) if best else "none"),
                ("ranges of sizes", "; ".join(run.ranges)),
                ("attempts", f"{len(run.attempts)} ({counts})" if counts else "none"),
                ("authors", run.run.policy),
                ("ended because", end_said(run.end.stop_reason) if run.end else "not ended yet"),
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
        return f"{'The draft is' if run.shipped else of} correct. Its speed was not measured."
    worst = standing(run.verdict).worst
    least = f" The least gain is {interval(worst.speedup)}, at {worst.name}." if worst else ""
    over = " over all sets of inputs" if worst else ""
    return f"{of} correct. Speed against {measured[0].baseline}{over}:{least}"


def headline(evaluation: Evaluation | None) -> Html:
    """Return the speed-ups over the reference as large figures, and the share of the floor."""
    measured = [item for item in (timing(evaluation, kind) for kind in KINDS_OF_TIME) if item is not None]
    shown = [
        (
            f"{item.speedup.median:.2f}x",
            KINDS_OF_TIME[item.kind],
            f"{item.speedup.low:.2f} to {item.speedup.high:.2f}\n"
            f"{item.baseline_ms.median:.4g} ms before, {item.candidate_ms.median:.4g} ms now",
        )
        for item in measured
    ]
    return figures(shown)


def _over_turns(run: RunView) -> list[object]:
    best = run.best.key if run.best else None
    marks = lines.marks([item.header for item in run.attempts], best, _address(run))
    return [charts.speed_over_turns(marks)] if any(mark.speedup is not None for mark in marks) else []


# -- speed -------------------------------------------------------------------------------------------------------------


def _speed(run: RunView) -> list[object]:
    if not any(item.status is Status.PASSED and item.timings for item in run.evaluations()):
        return [tag("p", f"Not measured: {_why_not(run)}."), floor(run.run.problem, run.verdict)]
    parts: list[object] = []
    if run.verdict is not None and run.verdict.timings:
        parts += [*_over_sizes(run, run.verdict), *evidence.speed(run.verdict), *evidence.profile(run.verdict)]
    return [*parts, tag("h3", "Roofline"), *_roofline(run), floor(run.run.problem, run.verdict)]


def _why_not(run: RunView) -> str:
    modes = {evaluation.environment.mode for evaluation in run.evaluations()}
    if modes == {"interpreter"}:
        return "no GPU was used; kernels ran in Triton's interpreter"
    return "nothing that passed was timed"


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


def _roofline(run: RunView) -> list[object]:
    timed = [(item.name, main_timing(item.evaluation, "device"), item is run.best) for item in run.attempts]
    spots = [(name, measured, best) for name, measured, best in timed if measured is not None]
    return roofline(run.run.problem, spots, run.verdict, run.ceilings)


def roofline(
    problem: ProblemView,
    timed: Sequence[tuple[str, Timing, bool]],
    verdict: Evaluation | None,
    ceilings: Ceilings | Rates | None = None,
) -> list[object]:
    """Return the roofline with timed kernels, given by name, timing, and whether it is the best."""
    flops, moved = problem.floor_flops, problem.floor_bytes
    spots = [
        charts.RooflinePoint(
            name=name,
            flops_per_byte=flops / moved,
            flops_per_s=flops / (measured.candidate_ms.median * 1e-3),
            best=best,
        )
        for name, measured, best in timed
        if flops and moved and measured.candidate_ms.median > 0
    ]
    if not spots:
        return [tag("p", "Not drawn: the problem has no arithmetic to count, or nothing was measured.")]
    bandwidth, roofs = _ceilings(verdict, ceilings or problem.rates)
    if bandwidth is None and not roofs:
        return [tag("p", "Not drawn: the ceilings of this GPU were not measured.")]
    return [charts.roofline(spots, bandwidth, roofs)]


def _ceilings(verdict: Evaluation | None, measured: Ceilings | Rates | None) -> tuple[float | None, list[charts.Roof]]:
    """Return the measured roofs; if only the floor is known, the roof that binds."""
    if measured is not None:
        rates = measured.flops_per_s.items()
        return measured.copy_bytes_per_s, [charts.Roof(name=unit, flops_per_s=rate) for unit, rate in rates]
    diagnosis = verdict.diagnosis if verdict else None
    known = diagnosis.roofline if diagnosis else None
    if diagnosis is None or known is None or known.floor_ms <= 0:
        return None, []
    if known.bound == "memory":
        return diagnosis.floor_bytes / (known.floor_ms * 1e-3), []
    return None, [charts.Roof(name="arithmetic", flops_per_s=diagnosis.floor_flops / (known.floor_ms * 1e-3))]


def floor(problem: ProblemView, verdict: Evaluation | None) -> Html:
    """Return the least work of the problem, and how near a kernel came to its time."""
    measured = main_timing(verdict, "device")
    share = ""
    if problem.floor_ms and measured:
        share = f"{100 * problem.floor_ms / measured.candidate_ms.median:.0f}% of what the GPU allows"
    return facts(
        [
            ("fewest bytes", bytes_said(problem.floor_bytes)),
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
    lead = f"Errors of {of}. Truth is float64; a kernel may err as much as the reference does, times a small factor."
    shown = [*evidence.reasons(run.verdict), *evidence.accuracy(run.verdict), *evidence.kernels(run.verdict)]
    return [tag("p", lead, class_="soft"), *shown]


# -- attempts ----------------------------------------------------------------------------------------------------------

LEGEND = "A disc passed, a cross did not, a ring could not be measured; the best has a halo."


def _attempts(run: RunView) -> list[object]:
    if not run.attempts:
        return [tag("p", "None yet.")]
    address, best = _address(run), run.best
    headers = [item.header for item in run.attempts]
    key = best.key if best else None
    listed = lines.overview(headers, key, address, caption="All attempts; speed-ups in device time, with intervals")
    ordered = sorted(run.attempts, key=lambda item: (item.attempt.turn, item.attempt.index))
    told = (attempts.article(item, run.history.parent_of(item), best=item is best, address=address) for item in ordered)
    return [
        charts.tree(lines.marks(headers, key, address)),
        tag("p", LEGEND, class_="soft"),
        long(listed, len(headers), f"All {len(headers)} attempts", ROWS_OPEN),
        *told,
    ]


# -- problem and environment -------------------------------------------------------------------------------------------


def problem_facts(run: Run) -> list[object]:
    """Return the problem's name, place, sizes and text."""
    problem = run.problem
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
    parts.append(folded("Settings of the run", facts(settings_said(run.run.settings))))
    return [join(parts)]

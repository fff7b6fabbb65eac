"""Lays out a run as one self-contained HTML page: no script, no font, no image from elsewhere.

    render_report(RunView(history=...)) -> HTML

The headline and the speed-up over the turns come first, then charts; long tables and code are folded. The page suits
light and dark screens, phones and paper. It shows recorded figures only; a missing figure is shown as not measured.
`runs/serve` shows runs with the same parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from triton_agent import __version__
from triton_agent.memory.observation import ProblemView
from triton_agent.memory.records import Run
from triton_agent.runs.cli.pace import in_words
from triton_agent.runs.report import attempts, charts, evidence, lines
from triton_agent.runs.report.code import highlighted
from triton_agent.runs.report.document import document
from triton_agent.runs.report.markup import Html, facts, figures, folded, join, long, pictures, tag
from triton_agent.runs.report.view import RunView, anchor, main_timing, timing
from triton_agent.runs.report.words import (
    baseline_said,
    bytes_said,
    cost_said,
    end_said,
    interval,
    ms_said,
    plain,
    settings_said,
)
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
        ("evidence", "Evidence", _evidence(run)),
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
    measured = timing(run.verdict, "device") or timing(run.verdict, "latency")
    draft = run.shipped is not None and not run.shipped.timings
    return [
        tag("p", _verdict(run), class_="lead"),
        headline(run.verdict),
        pictures([("Speed-up over the turns", _over_turns(run)), ("Roofline", _roofline(run))]),
        facts(
            [
                ("compared with", measured.baseline if measured else None),
                ("to measure it", tag("code", f"triton-agent promote {run.run.id}{run.elsewhere}") if draft else None),
                ("best attempt", lines.link(best.key, best.key, address) if best else "none"),
                ("ranges of sizes", "; ".join(run.ranges)),
                ("attempts", f"{len(run.attempts)} ({counts})" if counts else "none"),
                ("authors", run.run.policy),
                ("ended because", end_said(run.end.stop_reason) if run.end else "not ended yet"),
                ("took", "" if run.duration_s is None else in_words(run.duration_s)),
                ("forked from", run.run.forked_from),
            ]
        ),
    ]


def _verdict(run: RunView) -> str:
    """Return the summary's first sentences."""
    if run.best is None:
        return "No correct kernel was found. The reference stays."
    measured = timing(run.verdict, "device") or timing(run.verdict, "latency")
    subject = "The shipped file" if run.shipped else "The best kernel"
    if measured is None:
        subject = "The draft" if run.shipped else subject
        return f"{subject} is correct. Its speed was not measured: {_why_not(run)}."
    worst = standing(run.verdict).worst
    over = ", over all sets of inputs" if worst else ""
    least = f" The least gain is {interval(worst.speedup)}, at {worst.name}." if worst else ""
    kind = KINDS_OF_TIME[measured.kind]
    return f"{subject} is correct and {interval(measured.speedup)} as fast as the reference in {kind}{over}.{least}"


def headline(evaluation: Evaluation | None) -> Html:
    """Return the speed-ups as large figures; where nothing was timed, the traffic, launches and errors."""
    if evaluation is None:
        return Html("")
    if not evaluation.timings:
        return figures(_untimed(evaluation)) if evaluation.status is Status.PASSED else Html("")
    shown: list[tuple[str, str, str]] = []
    for kind, name in KINDS_OF_TIME.items():
        against = [item for item in evaluation.timings if item.kind == kind and not item.input_set]
        main = next((item for item in against if item.baseline_name == "eager"), None)
        if main is None:
            continue
        beneath = [
            f"{main.speedup.low:.2f} to {main.speedup.high:.2f}",
            f"{ms_said(main.baseline_ms.median)} ms before, {ms_said(main.candidate_ms.median)} ms now",
            *(
                f"{item.speedup.median:.2f}x over {baseline_said(item.baseline)}"
                for item in against
                if item is not main
            ),
        ]
        shown.append((f"{main.speedup.median:.2f}x", name, "\n".join(beneath)))
    return figures(shown)


def _untimed(evaluation: Evaluation) -> Iterator[tuple[str, str, str]]:
    """Yield figures of a correct kernel that was not timed: memory traffic, launches, accuracy."""
    diagnosis = evaluation.diagnosis
    if diagnosis is not None and diagnosis.traffic_ratio:
        beneath = "memory traffic; 1.00x is the least"
        if diagnosis.torch_operators:
            beneath = "memory traffic of its own kernels only"
        yield f"{diagnosis.traffic_ratio:.2f}x", "the fewest bytes", beneath
    if diagnosis is not None and diagnosis.launches:
        count = sum(item.launches for item in diagnosis.launches)
        left = len(diagnosis.torch_operators)
        beneath = f"and {left} operator{'s' * (left != 1)} of torch" if left else "no operator of torch is left"
        yield f"{count}", "launch" if count == 1 else "launches", beneath
    if evaluation.accuracy:
        used = [case.error / case.limit for case in evaluation.accuracy if case.limit]
        beneath = f"the largest error is {max(used):.0%} of what is allowed" if used else ""
        yield f"{len(evaluation.accuracy)}", "checks within their limits", beneath


def _over_turns(run: RunView) -> Html:
    best = run.best.key if run.best else None
    marks = lines.marks([item.header for item in run.attempts], best, _address(run))
    return charts.speed_over_turns(marks) if any(mark.speedup is not None for mark in marks) else Html("")


# -- evidence ----------------------------------------------------------------------------------------------------------


def _evidence(run: RunView) -> list[object]:
    if run.verdict is None:
        return [tag("p", "There is no kernel to show.")]
    of = "the shipped file" if run.shipped else f"attempt {run.best.name}" if run.best else "the best"
    lead = f"For {of}. Truth is float64; a kernel may err as much as the reference does, times a small factor."
    sizes = ("Speed-up over the size", _over_sizes(run, run.verdict))
    shown = [*evidence.reasons(run.verdict), *evidence.evidence(run.verdict, sizes)]
    return [tag("p", lead, class_="soft"), *shown, floor(run.run.problem, run.verdict)]


def _why_not(run: RunView) -> str:
    modes = {evaluation.environment.mode for evaluation in run.evaluations()}
    if modes == {"interpreter"}:
        return "no GPU was used; kernels ran in Triton's interpreter"
    return "nothing that passed was timed"


def _over_sizes(run: RunView, evaluation: Evaluation) -> Html:
    """Return a chart of speed-ups over the length of the one range that the problem has."""
    spec = run.run.problem.spec
    ranges = [SizeRange.from_json(item) for item in spec.get("ranges", ())]
    if len(ranges) != 1:
        return Html("")
    lengths = {item.name: item.lengths for item in map(InputSet.from_json, spec.get("sets", ()))}
    lines: dict[str, list[tuple[int, Interval]]] = {}
    for row in evaluation.timings:
        if row.input_set in lengths and row.baseline_name == "eager":
            spot = lengths[row.input_set][0], row.speedup
            lines.setdefault(KINDS_OF_TIME.get(row.kind, row.kind), []).append(spot)
    return charts.speed_over_size(ranges[0].name, lines) if lines else Html("")


def _roofline(run: RunView) -> Html:
    if not any(item.timings for item in run.evaluations()):
        return Html("")
    timed = [(item.name, main_timing(item.evaluation, "device"), item is run.best) for item in run.attempts]
    spots = [(name, measured, best) for name, measured, best in timed if measured is not None]
    return roofline(run.run.problem, spots, run.verdict, run.ceilings)


def roofline(
    problem: ProblemView,
    timed: Sequence[tuple[str, Timing, bool]],
    verdict: Evaluation | None,
    ceilings: Ceilings | Rates | None = None,
) -> Html:
    """Return the roofline chart of timed kernels. Each is given by its name, its timing, and True if it is the best."""
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
        return tag("p", "Not drawn: the problem has no arithmetic to count, or nothing was measured.")
    bandwidth, roofs = _ceilings(verdict, ceilings or problem.rates)
    if bandwidth is None and not roofs:
        return tag("p", "Not drawn: the ceilings of this GPU were not measured.")
    return charts.roofline(spots, bandwidth, roofs)


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


# -- attempts ----------------------------------------------------------------------------------------------------------

LEGEND = "A disc passed, a cross did not, a ring could not be measured; the best has a halo."


def tree(marks: Sequence[charts.Mark]) -> Iterator[Html]:
    """Yield the tree with its legend. Attempts that all were fresh starts make none: the table says as much."""
    if any(mark.parents for mark in marks):
        yield charts.tree(marks)
        yield tag("p", LEGEND, class_="soft")


def _attempts(run: RunView) -> list[object]:
    if not run.attempts:
        return [tag("p", "None yet.")]
    address, best = _address(run), run.best
    headers = [item.header for item in run.attempts]
    key = best.key if best else None
    timed = any(line.speedup for line in headers)
    caption = "All attempts; speed-ups in device time, with intervals" if timed else "All attempts"
    costs = () if timed else [cost_said(item.evaluation) for item in run.attempts]
    listed = lines.overview(headers, key, address, caption=caption, costs=costs)
    ordered = sorted(run.attempts, key=lambda item: (item.attempt.turn, item.attempt.index))
    told = (attempts.article(item, run.history.parent_of(item), best=item is best, address=address) for item in ordered)
    return [
        *tree(lines.marks(headers, key, address)),
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

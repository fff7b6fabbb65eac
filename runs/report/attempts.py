"""The attempts of a run as markup: a table of all, and for each its plan, changes, code and verdict."""

from __future__ import annotations

from collections.abc import Iterator

from triton_agent.memory.records import Grading
from triton_agent.policy.answer import without_notes
from triton_agent.runs.history.records import StoredAttempt
from triton_agent.runs.report.code import changes, count_changes, highlighted
from triton_agent.runs.report.markup import Html, facts, folded, join, table, tag
from triton_agent.runs.report.view import RunView, anchor, timing
from triton_agent.tools.results import CaseAccuracy, Determinism, Evaluation, Interval, Status

CASES_AT_MOST = 200
"""Most rows in an attempt's table of accuracy; the cases closest to their limits come first."""


def kind_of(item: StoredAttempt) -> str:
    """Return how an attempt is drawn: `passed`, `failed` or `unmeasured`."""
    if item.evaluation is None:
        return "unmeasured"
    return "passed" if item.passed else "failed"


def status_mark(item: StoredAttempt) -> Html:
    return tag("span", item.status, class_=f"status {kind_of(item)}")


def link(item: StoredAttempt) -> Html:
    return tag("a", item.name, href=f"#{anchor(item.attempt)}")


def interval(value: Interval | None) -> str:
    return f"{value.median:.2f}x [{value.low:.2f}, {value.high:.2f}]" if value else ""


def overview(view: RunView) -> Html:
    """Return a table with a row for each attempt."""
    rows = [
        (
            link(item),
            _parent_link(view, item),
            join([item.status, " (best)"]) if item is view.best else item.status,
            _finding(item),
            interval(item.speedup),
            _latency(item),
            item.attempt.completion.policy,
        )
        for item in view.attempts
    ]
    headings = ("attempt", "from", "status", "finding", "device time", "call latency", "author")
    return table(headings, rows, right=(4, 5), caption="All attempts; speed-ups over the reference, with intervals")


def _parent_link(view: RunView, item: StoredAttempt) -> object:
    parent = view.history.parent_of(item)
    return link(parent) if parent else (item.attempt.parent or "")


def _finding(item: StoredAttempt) -> str:
    return str(item.evaluation.finding or "") if item.evaluation else ""


def _latency(item: StoredAttempt) -> str:
    measured = timing(item.evaluation, "latency")
    return interval(measured.speedup) if measured else ""


def attempt(view: RunView, item: StoredAttempt) -> Html:
    """Return one attempt in full."""
    best = " (best)" if item is view.best else ""
    parts: list[object] = [tag("h3", f"Attempt {item.name}{best}", status_mark(item))]
    if item.attempt.plan:
        parts.append(tag("p", without_notes(item.attempt.plan), class_="said"))
    parts += _verdict(item)
    parts += _code(view, item)
    parts.append(_cost(item))
    return tag("article", *parts, id=anchor(item.attempt))


def _verdict(item: StoredAttempt) -> Iterator[object]:
    if item.evaluation is not None:
        yield from evidence(item.evaluation, fold=True)
    for grading in item.gradings:
        if grading.failure is not None:
            yield _failure(grading)
    if len(item.gradings) > 1:
        yield _gradings(item)
    if not item.gradings:
        yield tag("p", "Not judged yet.")


def _failure(grading: Grading) -> Html:
    failure = grading.failure
    assert failure is not None
    said = [f"Could not be measured ({failure.kind}): {failure.what}", failure.where, failure.remedy]
    return tag("p", "\n".join(filter(None, said)), class_="said")


def _gradings(item: StoredAttempt) -> Html:
    rows = [
        (
            f"{grading.graded_at:%Y-%m-%d %H:%M:%S}",
            grading.evaluation.status if grading.evaluation else "not measured",
            grading.grader,
            grading.machine.gpu or "no GPU",
        )
        for grading in item.gradings
    ]
    return table(("judged", "status", "rules", "on"), rows, caption="Judged more than once")


def evidence(evaluation: Evaluation, *, fold: bool) -> Iterator[object]:
    """Yield the evidence for a verdict."""
    if evaluation.message:
        yield tag("p", evaluation.message, class_="said")
    for seen in evaluation.evidence:
        yield tag("p", f"{seen.finding}: {seen.detail}", class_="said")
    diagnosis = evaluation.diagnosis
    tables = [accuracy(evaluation), resources(evaluation), launches(evaluation)]
    tables += [profile(evaluation), bottlenecks(evaluation)]
    tables.append(facts(_measured(evaluation)))
    if diagnosis and diagnosis.torch_operators:
        tables.append(tag("p", f"Arithmetic left to torch: {', '.join(diagnosis.torch_operators)}"))
    if diagnosis and diagnosis.notes:
        tables.append(tag("ul", *(tag("li", note) for note in diagnosis.notes)))
    if evaluation.notes:
        tables.append(tag("ul", *(tag("li", note) for note in evaluation.notes)))
    shown = [part for part in tables if part]
    if not shown:
        return
    if fold:
        yield folded("Evidence for the verdict", *shown)
    else:
        yield from shown


def accuracy(evaluation: Evaluation) -> Html:
    """Return a table of checks with the reference's own error beside each."""
    ordered = sorted(evaluation.accuracy, key=_share, reverse=True)
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
    return table(headings, rows, right=(4, 5, 6), caption=caption)


def _share(case: CaseAccuracy) -> float:
    return case.error / case.limit if case.limit else float(case.error > 0) * 1e300


def resources(evaluation: Evaluation) -> Html:
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
    return table(headings, rows, right=(3, 4, 5, 6), caption="What the compiler reports")


def launches(evaluation: Evaluation) -> Html:
    found = evaluation.diagnosis.launches if evaluation.diagnosis else ()
    rows = [
        (item.kernel, item.launches, f"{item.programs:,}", _bytes(item.bytes_loaded), _bytes(item.bytes_stored))
        for item in found
    ]
    headings = ("kernel", "launches", "programs", "bytes loaded", "bytes stored")
    return table(headings, rows, right=(1, 2, 3, 4), caption="Launches in one call")


def profile(evaluation: Evaluation) -> Html:
    found = evaluation.diagnosis.profile if evaluation.diagnosis else None
    rows = [
        (
            item.kernel,
            "own" if item.own else "torch",
            f"{item.launches:g}",
            f"{item.device_ms:.4g}",
            f"{item.share:.0%}",
        )
        for item in (found.kernels if found else ())
    ]
    headings = ("kernel", "whose", "launches", "ms", "share")
    return table(headings, rows, right=(2, 3, 4), caption="Device time of one call, by kernel and operator")


def bottlenecks(evaluation: Evaluation) -> Html:
    found = evaluation.diagnosis.profile if evaluation.diagnosis else None
    rows = [(item.name, f"{item.lost_ms:.3g}", item.words) for item in (found.bottlenecks if found else ())]
    return table(("bottleneck", "costs up to, ms", "because"), rows, right=(1,), caption="Bottlenecks")


def _measured(evaluation: Evaluation) -> list[tuple[str, object]]:
    diagnosis = evaluation.diagnosis
    known = evaluation.determinism is not Determinism.NOT_MEASURED
    pairs: list[tuple[str, object]] = [("same bits every time", evaluation.determinism if known else "")]
    if diagnosis is not None:
        pairs += [
            ("bytes moved over the fewest", f"{diagnosis.traffic_ratio:.2f}" if diagnosis.traffic_ratio else ""),
            ("memory of a call", _bytes(diagnosis.peak_bytes)),
            ("the reference's", _bytes(diagnosis.original_peak_bytes)),
            ("bound by", diagnosis.roofline.bound if diagnosis.roofline else ""),
        ]
    return pairs


def _bytes(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _code(view: RunView, item: StoredAttempt) -> Iterator[object]:
    source, parent = item.attempt.source, view.history.parent_of(item)
    if source is None:
        yield tag("p", "The answer held no code.")
        yield folded("The answer", tag("pre", item.attempt.completion.whole))
        return
    before = parent.attempt.source if parent else None
    difference = changes(before, source) if before is not None else None
    if parent is not None and before is not None and difference is not None:
        summary = join(["Changes to ", parent.name, f" ({count_changes(before, source)} lines)"])
        yield folded(summary, difference, open="open" if item is view.best else None)
    elif parent is not None and before is not None:
        yield tag("p", join(["The same code as ", link(parent), "."]))
    yield folded("Code", highlighted(source), class_="paper" if item is view.best else None)


def _cost(item: StoredAttempt) -> Html:
    completion = item.attempt.completion
    usage = completion.usage
    stages = item.evaluation.stages if item.evaluation else ()
    judged_s = sum(stage.wall_ms for stage in stages) / 1e3
    tokens = f"{usage.prompt_tokens:,} read, {usage.completion_tokens:,} written" if usage.completion_tokens else ""
    return facts(
        [
            ("author", f"{completion.policy} {completion.policy_version}".strip()),
            ("tokens", tokens),
            ("cost", f"{usage.cost:.4g}" if usage.cost else ""),
            ("written in", f"{usage.wall_s:.1f} s" if usage.wall_s else ""),
            ("judged in", f"{judged_s:.2f} s" if judged_s else ""),
        ]
    )


def is_measured(evaluation: Evaluation) -> bool:
    return evaluation.status is Status.PASSED and bool(evaluation.timings)

"""What several sets of inputs say together: one verdict, one figure, one set of facts out of those of each.

The figure over all sets is the weighted geometric mean of their speed-ups: twice as fast here and half as fast there
is no gain. Its interval is the mean of the intervals' ends, which assumes nothing of how their errors hang together: on
one host they may all be off in the same direction. Rows of single sets stay beside it, so that the slowest is named.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from triton_agent.tools.errors import UsageError
from triton_agent.tools.input_spec import InputSet
from triton_agent.tools.results import Determinism, Diagnosis, Evaluation, Interval, StageTime, Status, Timing
from triton_agent.tools.verdict import Sketch

if TYPE_CHECKING:
    from triton_agent.tools.evaluator import ProblemFacts

MEAN = "weighted geometric mean over the sets of inputs"
Item = TypeVar("Item")


def mean_of(parts: Sequence[tuple[float, Interval]]) -> Interval:
    """The geometric mean of figures with their weights; the interval's ends are the means of their ends."""
    total = sum(weight for weight, _ in parts)

    def mean(read: Callable[[Interval], float]) -> float:
        if any(read(item) <= 0 for _, item in parts):  # a bound at zero says nothing, and neither does the mean
            return 0.0
        return math.exp(sum(weight * math.log(read(item)) for weight, item in parts) / total)

    low, median, high = mean(lambda item: item.low), mean(lambda item: item.median), mean(lambda item: item.high)
    return Interval(median=median, low=min(low, median), high=max(high, median))


def over_all(rows: Sequence[Timing], sets: int) -> list[Timing]:
    """The figures over all sets, for each opponent and kind of time that was measured at every one of them."""
    by_race: dict[tuple[str, str], list[Timing]] = {}
    for row in rows:
        by_race.setdefault((row.baseline, row.kind), []).append(row)
    return [_over_all(found) for found in by_race.values() if len(found) == sets]


def _over_all(rows: Sequence[Timing]) -> Timing:
    def mean(read: Callable[[Timing], Interval]) -> Interval:
        return mean_of([(row.weight, read(row)) for row in rows])

    return Timing(
        baseline=rows[0].baseline,
        kind=rows[0].kind,
        candidate_ms=mean(lambda row: row.candidate_ms),
        baseline_ms=mean(lambda row: row.baseline_ms),
        speedup=mean(lambda row: row.speedup),
        pairs=sum(row.pairs for row in rows),
        cold_l2=all(row.cold_l2 for row in rows),
        method=f"{MEAN}; {rows[0].method}",
        clocks_mhz=tuple(clock for row in rows for clock in row.clocks_mhz),
    )


# -- verdicts ----------------------------------------------------------------------------------------------------------


def refused_at(failed: InputSet, evaluation: Evaluation, passed: Sequence[Evaluation], problem: str) -> Evaluation:
    """The verdict where a candidate did not pass at one set; those before it had let it pass."""
    return dataclasses.replace(
        evaluation,
        problem=problem,
        message=f"at {failed.name}: {evaluation.message}",
        stages=_stages([*passed, evaluation]),
    )


def passed_at_all(found: Sequence[tuple[InputSet, Evaluation]], problem: str) -> Evaluation:
    """The verdict where it passed at every set: checks and timings of each, and the figure over all."""
    evaluations = [evaluation for _, evaluation in found]
    rows = [
        dataclasses.replace(row, input_set=item.name, weight=item.weight)
        for item, evaluation in found
        for row in evaluation.timings
    ]
    return dataclasses.replace(
        evaluations[0],
        problem=problem,
        accuracy=tuple(
            dataclasses.replace(case, variant=f"{item.name}: {case.variant}")
            for item, evaluation in found
            for case in evaluation.accuracy
        ),
        resources=_once(kernel for evaluation in evaluations for kernel in evaluation.resources),
        timings=(*over_all(rows, len(found)), *rows),
        diagnosis=_diagnosis(found),
        evidence=_once(seen for evaluation in evaluations for seen in evaluation.evidence),
        determinism=_determinism(evaluations),
        stages=_stages(evaluations),
        notes=_once(note for evaluation in evaluations for note in evaluation.notes),
    )


def _once(items: Iterable[Item]) -> tuple[Item, ...]:
    """Without what is there already; compiled twice is compiled alike, but for the time it took."""
    found: dict[Any, Item] = {}
    for item in items:
        key = dataclasses.replace(item, compile_ms=0.0) if hasattr(item, "compile_ms") else item  # type: ignore[type-var]
        found.setdefault(key, item)
    return tuple(found.values())


def _determinism(evaluations: Sequence[Evaluation]) -> Determinism:
    """What was seen at one set holds; that bits stay the same has to be seen at each."""
    seen = {evaluation.determinism for evaluation in evaluations}
    weakest_first = (Determinism.DIFFERS, Determinism.NOT_MEASURED, Determinism.IDENTICAL)
    return next(kind for kind in weakest_first if kind in seen)


def _stages(evaluations: Sequence[Evaluation]) -> tuple[StageTime, ...]:
    spent: dict[str, float] = {}
    for evaluation in evaluations:
        for stage in evaluation.stages:
            spent[stage.stage] = spent.get(stage.stage, 0.0) + stage.wall_ms
    return tuple(StageTime(stage=name, wall_ms=wall_ms) for name, wall_ms in spent.items())


def _diagnosis(found: Sequence[tuple[InputSet, Evaluation]]) -> Diagnosis | None:
    """The first set's, with the means of what is a ratio, all operators left to torch, and a line about each set."""
    told = [(item, evaluation.diagnosis) for item, evaluation in found if evaluation.diagnosis is not None]
    if not told:
        return None
    first = told[0][1]
    whole = len(told) == len(found)
    memory = max((one for _, one in told), key=_memory_ratio)
    return dataclasses.replace(
        first,
        floor_ms=_mean([(item.weight, one.floor_ms) for item, one in told]) if whole else None,
        traffic_ratio=_mean([(item.weight, one.traffic_ratio) for item, one in told]) if whole else None,
        torch_operators=tuple(dict.fromkeys(name for _, one in told for name in one.torch_operators)),
        notes=(*_lines(found), *_notes(told)),
        peak_bytes=memory.peak_bytes,
        original_peak_bytes=memory.original_peak_bytes,
    )


def _notes(told: Sequence[tuple[InputSet, Diagnosis]]) -> Iterable[str]:
    """What holds at every set once; what does not, with the set at which it does."""
    everywhere = set.intersection(*(set(one.notes) for _, one in told))
    yield from dict.fromkeys(note for _, one in told for note in one.notes if note in everywhere)
    yield from (f"at {item.name}: {note}" for item, one in told for note in one.notes if note not in everywhere)


def _memory_ratio(diagnosis: Diagnosis) -> float:
    return (diagnosis.peak_bytes or 0) / (diagnosis.original_peak_bytes or 1)


def _mean(parts: Sequence[tuple[float, float | None]]) -> float | None:
    known = [(weight, Interval(median=value, low=value, high=value)) for weight, value in parts if value is not None]
    return mean_of(known).median if known and len(known) == len(parts) else None


def _lines(found: Sequence[tuple[InputSet, Evaluation]]) -> list[str]:
    """For an author and for a reader: how it fares at each set."""
    return [f"at {item}: {said}" for item, evaluation in found if (said := _figures(evaluation))]


def _figures(evaluation: Evaluation) -> str:
    times = [
        f"{row.speedup.median:.2f}x the original's speed in {row.kind}{' time' if row.kind == 'device' else ''}"
        for row in evaluation.timings
        if row.opponent == "eager"
    ]
    diagnosis = evaluation.diagnosis
    if times or diagnosis is None:
        return ", ".join(times)
    launches = sum(item.launches for item in diagnosis.launches)
    moved = [f"{diagnosis.traffic_ratio:.2f}x the fewest bytes"] if diagnosis.traffic_ratio is not None else []
    return ", ".join([*moved, f"{launches} launch{'es' if launches != 1 else ''}"])


# -- looks and facts ---------------------------------------------------------------------------------------------------


def merged_sketch(found: Sequence[tuple[InputSet, Sketch]]) -> Sketch:
    """The first that was wrong; else the figures over all, for sorting."""
    for item, sketch in found:
        if sketch.finding is not None:
            return dataclasses.replace(sketch, message=f"at {item.name}: {sketch.message}")
    rows = [dataclasses.replace(row, weight=item.weight) for item, sketch in found for row in sketch.timings]
    return dataclasses.replace(found[0][1], timings=tuple(over_all(rows, len(found))))


def merged_facts(found: Sequence[tuple[InputSet, ProblemFacts]], digest: str) -> ProblemFacts:
    """The first set's, with all sizes and cases; the other sets' graphs stand beside those of its variants."""
    first, others = found[0][1], [facts for _, facts in found[1:]]
    counts = {facts.input_structure.count("*") for _, facts in found}
    if len(counts) > 1 and first.graphs:
        said = "; ".join(f"{item.name} has {facts.input_structure}" for item, facts in found)
        raise UsageError(
            f"sets of different arguments: {said}",
            where="--set",
            remedy="every set has all arguments of one call",
        )
    scaled = [f"{item.name}: {facts.scaled.strip()}" for item, facts in found if facts.scaled]
    kept = [facts for facts in others if bool(facts.train_graphs) == bool(first.train_graphs) and facts.graphs]
    said = "; ".join(str(item) for item, _ in found)
    return dataclasses.replace(
        first,
        digest=digest,
        variants=tuple(f"{item.name}: {variant}" for item, facts in found for variant in facts.variants),
        cases=sum(facts.cases for _, facts in found),
        graphs=(*first.graphs, *(facts.graphs[0] for facts in kept)),
        train_graphs=(*first.train_graphs, *(facts.train_graphs[0] for facts in kept if facts.train_graphs)),
        numbers=(*first.numbers, *(facts.numbers[0] for facts in kept)),
        scaled="; ".join(scaled),
        notes=(
            f"judged at {len(found)} sets of inputs: {said}",
            *_other_forms(found),
            *_once(note for _, facts in found for note in facts.notes),
        ),
    )


def _other_forms(found: Sequence[tuple[InputSet, ProblemFacts]]) -> list[str]:
    """Sets that are more than other sizes, which not every author can serve with one kernel."""
    forms = [
        (item.name, [(len(meta["shape"]), meta["dtype"]) for meta in facts.graphs[0]["inputs"].values()])
        for item, facts in found
        if facts.graphs
    ]
    others = [name for name, form in forms if form != forms[0][1]]
    if not others:
        return []
    return [f"other ranks or dtypes than at {forms[0][0]}, which the same file has to serve: {'; '.join(others)}"]


def is_right(evaluation: Evaluation) -> bool:
    """Whether the next set is worth a look."""
    return evaluation.status is Status.PASSED

"""Merges the results for several sets of inputs: one verdict, one figure for speed, and the facts of one problem.

The figure over all sets is the weighted geometric mean of their speed-ups: twice as fast at one set and half as fast at
another is no gain. The bounds of its interval are the means of the bounds, without assuming that errors are
independent: on one host they may all have the same direction. The results of each set are kept as well.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.facts import ProblemFacts
from triton_agent.tools.problem.input_spec import InputSet
from triton_agent.tools.results import Determinism, Diagnosis, Evaluation, Interval, Sketch, StageTime, Timing

MEAN = "weighted geometric mean over the sets of inputs"
Item = TypeVar("Item")


def mean_of(parts: Sequence[tuple[float, Interval]]) -> Interval:
    """Return the weighted geometric mean of figures; each bound of the interval is the mean of those bounds."""
    total = sum(weight for weight, _ in parts)

    def mean(read: Callable[[Interval], float]) -> float:
        if any(read(item) <= 0 for _, item in parts):  # a bound at zero is no information, so neither is the mean
            return 0.0
        return math.exp(sum(weight * math.log(read(item)) for weight, item in parts) / total)

    low, median, high = mean(lambda item: item.low), mean(lambda item: item.median), mean(lambda item: item.high)
    return Interval(median=median, low=min(low, median), high=max(high, median))


def over_all(rows: Sequence[Timing], sets: int) -> list[Timing]:
    """Return the figures over all sets, for each baseline and clock that was measured at every set."""
    by_race: dict[tuple[str, str], list[Timing]] = {}
    for row in rows:
        by_race.setdefault((row.baseline, row.kind), []).append(row)
    return [
        Timing(
            baseline=baseline,
            kind=kind,
            candidate_ms=mean_of([(row.weight, row.candidate_ms) for row in found]),
            baseline_ms=mean_of([(row.weight, row.baseline_ms) for row in found]),
            speedup=mean_of([(row.weight, row.speedup) for row in found]),
            pairs=sum(row.pairs for row in found),
            cold_l2=all(row.cold_l2 for row in found),
            method=f"{MEAN}; {found[0].method}",
            clocks_mhz=tuple(clock for row in found for clock in row.clocks_mhz),
        )
        for (baseline, kind), found in by_race.items()
        if len(found) == sets
    ]


# -- verdicts ----------------------------------------------------------------------------------------------------------


def refused_at(failed: InputSet, evaluation: Evaluation, passed: Sequence[Evaluation], problem: str) -> Evaluation:
    """Return the verdict on a candidate that failed at one set, after it `passed` at the earlier ones."""
    message = f"at {failed.name}: {evaluation.message}"
    return dataclasses.replace(evaluation, problem=problem, message=message, stages=_stages([*passed, evaluation]))


def passed_at_all(found: Sequence[tuple[InputSet, Evaluation]], problem: str) -> Evaluation:
    """Return the verdict on a candidate that passed at every set: checks and timings of each, and overall figures."""
    evaluations = [evaluation for _, evaluation in found]
    rows = [
        dataclasses.replace(row, input_set=item.name, weight=item.weight)
        for item, evaluation in found
        for row in evaluation.timings
    ]
    # Different bits at one set show that a kernel's bits differ; identical bits must hold at all sets.
    seen = {evaluation.determinism for evaluation in evaluations}
    weakest_first = (Determinism.DIFFERS, Determinism.NOT_MEASURED, Determinism.IDENTICAL)
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
        determinism=next(kind for kind in weakest_first if kind in seen),
        stages=_stages(evaluations),
        notes=_once(note for evaluation in evaluations for note in evaluation.notes),
    )


def _once(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the items without repetitions. Kernels that were compiled twice are equal except for the time."""
    found: dict[Any, Item] = {}
    for item in items:
        key = dataclasses.replace(item, compile_ms=0.0) if hasattr(item, "compile_ms") else item  # type: ignore[type-var]
        found.setdefault(key, item)
    return tuple(found.values())


def _stages(evaluations: Sequence[Evaluation]) -> tuple[StageTime, ...]:
    spent: dict[str, float] = {}
    for evaluation in evaluations:
        for stage in evaluation.stages:
            spent[stage.stage] = spent.get(stage.stage, 0.0) + stage.wall_ms
    return tuple(StageTime(stage=name, wall_ms=wall_ms) for name, wall_ms in spent.items())


def _diagnosis(found: Sequence[tuple[InputSet, Evaluation]]) -> Diagnosis | None:
    """Return the first set's diagnosis with mean ratios, the torch operators of all sets, and all notes."""
    told = [(item, evaluation.diagnosis) for item, evaluation in found if evaluation.diagnosis is not None]
    if not told:
        return None

    def mean(read: Callable[[Diagnosis], float | None]) -> float | None:
        values = [(item.weight, read(one)) for item, one in told]
        known = [(weight, Interval(median=v, low=v, high=v)) for weight, v in values if v is not None]
        return mean_of(known).median if len(known) == len(found) else None

    most = max((one for _, one in told), key=lambda one: (one.peak_bytes or 0) / (one.original_peak_bytes or 1))
    everywhere = set.intersection(*(set(one.notes) for _, one in told))
    return dataclasses.replace(
        told[0][1],
        floor_ms=mean(lambda one: one.floor_ms),
        traffic_ratio=mean(lambda one: one.traffic_ratio),
        torch_operators=tuple(dict.fromkeys(name for _, one in told for name in one.torch_operators)),
        notes=(
            *(f"at {item}: {figures}" for item, evaluation in found if (figures := _figures(evaluation))),
            *dict.fromkeys(note for _, one in told for note in one.notes if note in everywhere),
            *(f"at {item.name}: {note}" for item, one in told for note in one.notes if note not in everywhere),
        ),
        peak_bytes=most.peak_bytes,
        original_peak_bytes=most.original_peak_bytes,
    )


def _figures(evaluation: Evaluation) -> str:
    """Return the speed at one set, or bytes moved and launches if nothing was timed."""
    times = [
        f"{row.speedup.median:.2f}x the reference's speed in {row.kind}{' time' if row.kind == 'device' else ''}"
        for row in evaluation.timings
        if row.baseline_name == "eager"
    ]
    diagnosis = evaluation.diagnosis
    if times or diagnosis is None:
        return ", ".join(times)
    launches = sum(item.launches for item in diagnosis.launches)
    moved = [f"{diagnosis.traffic_ratio:.2f}x the fewest bytes"] if diagnosis.traffic_ratio is not None else []
    return ", ".join([*moved, f"{launches} launch{'es' if launches != 1 else ''}"])


# -- sketches and facts ------------------------------------------------------------------------------------------------


def merged_sketch(found: Sequence[tuple[InputSet, Sketch]]) -> Sketch:
    """Return the first sketch with a finding, or else the figures over all sets."""
    for item, sketch in found:
        if sketch.finding is not None:
            return dataclasses.replace(sketch, message=f"at {item.name}: {sketch.message}")
    rows = [dataclasses.replace(row, weight=item.weight) for item, sketch in found for row in sketch.timings]
    return dataclasses.replace(found[0][1], timings=tuple(over_all(rows, len(found))))


def merged_facts(found: Sequence[tuple[InputSet, ProblemFacts]], digest: str) -> ProblemFacts:
    """Return the first set's facts with the variants and cases of all sets; graphs of other sets follow its own."""
    first, others = found[0][1], [facts for _, facts in found[1:]]
    counts = {facts.input_structure.count("*") for _, facts in found}
    if len(counts) > 1 and first.graphs:
        said = "; ".join(f"{item.name} has {facts.input_structure}" for item, facts in found)
        raise UsageError(
            f"sets of different arguments: {said}",
            where="--set",
            remedy="every set has all arguments of one call",
        )
    forms = [
        (item.name, [(len(meta["shape"]), meta["dtype"]) for meta in facts.graphs[0]["inputs"].values()])
        for item, facts in found
        if facts.graphs
    ]
    notes = [f"judged at {len(found)} sets of inputs: {'; '.join(str(item) for item, _ in found)}"]
    # Some authors cannot serve several ranks or dtypes with one kernel.
    if unlike := [name for name, form in forms if form != forms[0][1]]:
        notes.append(f"the same file must serve ranks or dtypes other than at {forms[0][0]}: {'; '.join(unlike)}")
    kept = [facts for facts in others if bool(facts.train_graphs) == bool(first.train_graphs) and facts.graphs]
    return dataclasses.replace(
        first,
        digest=digest,
        variants=tuple(f"{item.name}: {variant}" for item, facts in found for variant in facts.variants),
        cases=sum(facts.cases for _, facts in found),
        graphs=(*first.graphs, *(facts.graphs[0] for facts in kept)),
        train_graphs=(*first.train_graphs, *(facts.train_graphs[0] for facts in kept if facts.train_graphs)),
        numbers=(*first.numbers, *(facts.numbers[0] for facts in kept)),
        scaled="; ".join(f"{item.name}: {facts.scaled.strip()}" for item, facts in found if facts.scaled),
        notes=(*notes, *_once(note for _, facts in found for note in facts.notes)),
    )

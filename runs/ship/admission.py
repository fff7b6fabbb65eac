"""Decides at which sets of inputs a shipped file runs its kernels: where the file itself was measured faster.

At the other sets the guard runs the reference, which counts as a speed-up of 1 in the figure over all sets. A guard
knows a call by its shapes, so sets that look alike to it are admitted together or not at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from triton_agent.runs.ship.artefact import forced
from triton_agent.runs.ship.facts import CallForm, ShippedSet
from triton_agent.tools.evaluate.merged_sets import over_all
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, SetsEvaluator
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.ranking import UNCHANGED, Standing, standing
from triton_agent.tools.results import Evaluation, Status, Timing

Measuring = Callable[[str, Sequence[str]], Evaluation]
"""Judges the text of a file at the named sets, with its guard."""


def measuring(evaluator: AnyEvaluator) -> Measuring:
    """Return a function that judges a file at the sizes given and times it with its guard."""

    def measure(text: str, names: Sequence[str]) -> Evaluation:
        if isinstance(evaluator, SetsEvaluator):
            return evaluator.evaluate(forced(text), as_given=True, file=text, names=names)
        return evaluator.evaluate(forced(text), as_given=True, file=text)

    return measure


def faster_at(found: Standing, forms: Mapping[str, CallForm]) -> tuple[str, ...]:
    """Return the sets at which the file was faster, without those that the guard cannot tell from slower ones."""
    names = {item.name for item in found.sets if item.faster} if found.sets else set(forms)
    return tuple(name for name in forms if name in names and _is_told_apart(name, forms, forms.keys() - names))


def _is_told_apart(name: str, forms: Mapping[str, CallForm], others: Collection[str]) -> bool:
    return not any(forms[name].calls == forms[other].calls for other in others)


def admit(
    names: tuple[str, ...], forms: Mapping[str, CallForm], write: Callable[[Sequence[str]], str], measure: Measuring
) -> tuple[tuple[str, ...], Evaluation | None]:
    """Drop sets until the file that admits the rest is faster at each of them; return these sets and its evaluation."""
    evaluation = None
    while names:
        evaluation = measure(write(names), names)
        if evaluation.status is not Status.PASSED or not evaluation.by_set():
            return names, evaluation
        kept = faster_at(standing(evaluation), {name: forms[name] for name in names})
        if kept == names:
            return names, evaluation
        names = kept
    return (), evaluation


def over_all_sets(spec: ProblemSpec, evaluation: Evaluation, kernels: Evaluation) -> Evaluation:
    """Return the evaluation over all sets, with a speed-up of 1 at the sets where the reference runs."""
    if not spec.sets or not evaluation.timings:
        return evaluation
    measured, of_kernels = evaluation.by_set(), kernels.by_set()
    rows = [
        row
        for item in spec.sets
        for row in measured.get(item.name, tuple(map(_by_the_original, of_kernels.get(item.name, ()))))
    ]
    return dataclasses.replace(evaluation, problem=spec.digest, timings=(*over_all(rows, len(spec.sets)), *rows))


def _by_the_original(row: Timing) -> Timing:
    return dataclasses.replace(
        row, candidate_ms=row.baseline_ms, speedup=UNCHANGED, pairs=0, method="the reference runs here"
    )


def shipped_sets(
    spec: ProblemSpec,
    forms: Mapping[str, CallForm],
    admitted: Collection[str],
    evaluation: Evaluation,
    kernels: Evaluation,
) -> tuple[ShippedSet, ...]:
    """Return what the header says about each set."""
    measured, of_kernels = evaluation.by_set(), kernels.by_set()
    return tuple(
        ShippedSet(
            name=item.name,
            weight=item.weight,
            call=forms[item.name].calls[0],
            admitted=item.name in admitted,
            timings=(measured if item.name in admitted else of_kernels).get(item.name, ()),
        )
        for item in spec.sets
    )

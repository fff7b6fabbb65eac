"""Finds plans for ranges of sizes, judges them at new lengths, and keeps those that are right.

The plans are judged as they stand in the file, with their fitted numbers, in a checker of their own, like any other
candidate.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Mapping, Sequence

from triton_agent.runs.ship.artefact import forced
from triton_agent.runs.ship.facts import NotEmitted
from triton_agent.runs.ship.ranges.brackets import Bracket, RangedPlans, is_inside, span, to_judge
from triton_agent.runs.ship.ranges.ranging import Tracing
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, SetsEvaluator
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.problem.size_range import Lengths, named
from triton_agent.tools.processes.protocol import TapedModule
from triton_agent.tools.results import Evaluation, Status

JUDGED_AT = 24
"""Lengths at which a file's plans are judged."""
LONGER = 4.0
"""Factor on the time limit of a verdict, because it judges that many more calls."""


def ranged_plans(
    spec: ProblemSpec,
    evaluator: AnyEvaluator,
    source: str,
    given: Lengths,
    write: Callable[[Sequence[Bracket]], str],
) -> RangedPlans:
    """Find and judge plans for the problem's ranges; `write` writes a file with plans for the given brackets."""
    if evaluator.facts.scaled:
        said = "the sizes had to be scaled down for the check, so other sizes could not be checked"
        return RangedPlans(given=given, left_out=(said,))
    own = evaluator.tapes(source)
    chosen = {form.train: form.chosen for module in own.modules[:1] for form in module.forms}
    tracing = Tracing(
        spec.ranges, lambda lengths: _tapes_at(evaluator, source, lengths), seed=secrets.randbits(48), chosen=chosen
    )
    found = tracing.brackets(given)
    brackets, left_out = found.brackets, list(found.left_out)
    while brackets:
        asked = to_judge(spec.ranges, brackets, JUDGED_AT, secrets.randbits(48))
        settings = dataclasses.replace(
            evaluator.settings,
            shapes="family",
            lengths=tuple(asked),
            baselines=(),
            total_timeout_s=LONGER * evaluator.settings.total_timeout_s,
            waits_for_memory=False,
        )
        try:
            text = forced(write(brackets))
        except NotEmitted as reason:
            return RangedPlans(given=given, left_out=(*left_out, str(reason)))
        with Evaluator(dataclasses.replace(spec, sets=()), settings) as judge:
            evaluation = judge.evaluate(text)
            at = {name: lengths for lengths in asked if (name := named(spec.ranges, lengths)) in judge.facts.variants}
        if evaluation.status is Status.PASSED:
            measured = [item.lengths for item in spec.sets]  # the timed file is judged there once more
            kept, cut = _as_far_as_judged(spec, brackets, [*at.values(), *measured])
            return RangedPlans(
                given=given,
                brackets=kept,
                judged_at=tuple(sorted(lengths for lengths in at.values() if is_inside(lengths, kept))),
                left_out=(*left_out, *cut),
                evaluation=evaluation,
            )
        failed = _failed_at(evaluation, at)
        wrong = [bracket for bracket in brackets if failed and is_inside(failed, [bracket])] or [*brackets]
        said = f"{evaluation.status.value}: {evaluation.message.splitlines()[0] if evaluation.message else ''}"
        left_out += [f"{span(spec.ranges, one.low, one.high)}: {said}" for one in wrong]
        brackets = tuple(bracket for bracket in brackets if bracket not in wrong)
    return RangedPlans(given=given, left_out=tuple(left_out))


def _tapes_at(evaluator: AnyEvaluator, source: str, lengths: Sequence[Lengths]) -> Sequence[TapedModule]:
    at = evaluator.tapes_at if isinstance(evaluator, SetsEvaluator) else evaluator.tapes
    found = at(source, lengths)
    if found.message:
        raise NotEmitted(found.message)
    return found.modules


def _failed_at(evaluation: Evaluation, at: Mapping[str, Lengths]) -> Lengths | None:
    """Return the lengths that a verdict's message names."""
    names = sorted((name for name in at if name in evaluation.message), key=len)
    return at[names[-1]] if names else None


def _as_far_as_judged(
    spec: ProblemSpec, brackets: Sequence[Bracket], judged: Sequence[Lengths]
) -> tuple[tuple[Bracket, ...], list[str]]:
    """Cut brackets at the largest length that was judged; with several ranges, drop those not judged as a whole."""
    kept, cut = [], []
    for bracket in brackets:
        inside = [lengths for lengths in judged if is_inside(lengths, [bracket])]
        high = max(inside, default=None)
        if high == bracket.high:
            kept.append(bracket)
            continue
        why = "too large to be checked here"
        if high is None or len(spec.ranges) > 1:
            cut.append(f"{span(spec.ranges, bracket.low, bracket.high)}: {why}")
            continue
        kept.append(dataclasses.replace(bracket, high=high))
        cut.append(f"{span(spec.ranges, (high[0] + 1,), bracket.high)}: {why}")
    return tuple(kept), cut

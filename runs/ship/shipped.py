"""Writes the best kernel of a run as a file, which is judged once more in exactly the form it is shipped in.

With a GPU a file is written only if the shipped text itself, guard included, was measured faster than the reference in
device time and in latency, and not slower in back-to-back calls. With several sets of inputs its kernels run at the
sets where that holds. Without a GPU the file is a draft, whose kernels run only when asked for. A draft of a problem
that was scaled down is not judged again if it leaves the tapes that were judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import functools
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from triton_agent import __version__
from triton_agent.memory.records import Run
from triton_agent.policy.episode import Graded
from triton_agent.runs.optimize.request import OptimizeRequest
from triton_agent.runs.optimize.screen import Screen
from triton_agent.runs.ship import call_form
from triton_agent.runs.ship.admission import admit, faster_at, measuring, over_all_sets, shipped_sets
from triton_agent.runs.ship.artefact import forced, ship, switched_on
from triton_agent.runs.ship.facts import CallForm, Gpu, NotEmitted, ShippedFacts
from triton_agent.runs.ship.ranges.brackets import Bracket, RangedPlans, clipped, is_inside, span, stretches
from triton_agent.tools.errors import UsageError
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator
from triton_agent.tools.machine.hardware import visible_gpus
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.problem.size_range import Lengths
from triton_agent.tools.processes.protocol import TapedModule
from triton_agent.tools.ranking import is_enough, standing
from triton_agent.tools.results import KINDS_OF_TIME, Evaluation, Status

NO_FASTER = "inside the shipped file, guard included, it is not measurably faster than the reference"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """A file that was written for the user."""

    path: Path
    draft: bool
    evaluation: Evaluation
    """Evaluation of the shipped text; for a draft with its kernels switched on."""
    ranges: tuple[str, ...] = ()
    """What runs where in the problem's ranges, a sentence each."""


def output_folder(out: str | Path | None, run: Run) -> Path:
    """Return the folder for a run's file and report: `--out`, else one of the run's name in the current folder."""
    return Path(out) if out else Path.cwd() / run.id


def require_writable(folder: Path) -> None:
    """Raise `UsageError` if the folder cannot be written, before hours are spent on a search. Makes no folder."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.exists(path))
    if not there.is_dir():
        raise UsageError(f"{there} is a file", where=f"--out {folder}", remedy="name a folder with --out")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"nothing can be written in {there}", where=str(folder), remedy="name a folder with --out")


def why_never_shipped(forms: Mapping[str, CallForm]) -> str:
    """Return why no file can be shipped for a problem with these calls, whatever the kernels; empty if one can be."""
    own = next((call.own_class for form in forms.values() for call in form.calls if call.own_class), "")
    if not own:
        return ""
    return (
        f"the reference returns an object of the class {own}, and a shipped file can return tensors, lists, tuples and "
        "dictionaries only"
    )


async def ship_best(
    spec: ProblemSpec,
    run: Run,
    best: Graded,
    evaluator: AnyEvaluator,
    request: OptimizeRequest,
    folder: Path,
    screen: Screen,
    forms_asked: Awaitable[dict[str, CallForm]] | None = None,
) -> Shipped | None:
    """Write the file, or say why none is shipped.

    `forms_asked` yields the problem's call forms if the caller has already requested them, and said if they rule out a
    file.
    """
    draft = request.device == "cpu"
    if not draft and not best.standing.faster_than_reference:
        screen.say("the best kernel is right, but not measurably faster than the reference: nothing is shipped")
        return None
    screen.say("shipping: judging the file as it will be used")
    assert best.evaluation is not None
    source, kernels = best.attempt.source or "", best.evaluation
    forms = await (forms_asked or asyncio.to_thread(call_form.find_all, spec, trust=request.trust))
    if reason := why_never_shipped(forms):
        screen.say("nothing is shipped" if forms_asked else f"nothing is shipped: {reason}")
        return None
    plans = await asyncio.to_thread(_plans_at, evaluator, source, spec)
    ranged: RangedPlans | None = None
    try:
        await asyncio.to_thread(plans, tuple(forms), ())
        if spec.ranges:
            ranged = await asyncio.to_thread(_ranged, spec, evaluator, source, forms, plans, screen)
    except NotEmitted as reason:
        screen.say(f"no file can be written of what the kernel's module does: {reason}\n  nothing is shipped")
        return None

    def write(names: Sequence[str], evaluation: Evaluation) -> str:
        facts = _facts(run, best, evaluator, request, call_form.joined([forms[name] for name in names]))
        sets = shipped_sets(spec, forms, names, evaluation, kernels)
        brackets = _brackets_at(spec, ranged, names, draft=draft)
        facts = dataclasses.replace(
            facts, evaluation=evaluation, sets=sets, ranges=_range_sentences(spec, ranged, brackets)
        )
        return ship(spec, plans(_sets_outside(spec, ranged, names, brackets), brackets), facts, draft=draft)

    names = tuple(forms)
    if draft:
        text = write(names, kernels)
        evaluation = await judged_draft(text, source, kernels, evaluator, has_ranges=ranged is not None)
    else:
        as_used = functools.partial(write, evaluation=kernels)
        chosen = faster_at(best.standing, forms)
        names, measured = await asyncio.to_thread(admit, chosen, forms, as_used, measuring(evaluator))
        evaluation = over_all_sets(spec, measured or kernels, kernels)
    trouble = _why_not_shipped(evaluation, draft) if names else no_faster(evaluation)
    if trouble:
        screen.say(f"{trouble}\n  nothing is shipped")
        return None
    if not draft:  # the header states what was measured of the file itself
        text = write(names, evaluation)
    path = write_file(folder, f"{Path(spec.path).stem}_optimized.py", text)
    said = _range_sentences(spec, ranged, _brackets_at(spec, ranged, names, draft=draft))
    return Shipped(path=path, draft=draft, evaluation=evaluation, ranges=said)


async def judged_draft(
    text: str, source: str, kernels: Evaluation, evaluator: AnyEvaluator, *, has_ranges: bool
) -> Evaluation:
    """Judge a draft with its kernels switched on, or return the verdict on its kernels if it can only get the same.

    The guard of a draft admits the sizes as given, at which nothing can be run here if they were scaled down. Only its
    tapes can be judged then, and they were, if the candidate left the same ones.
    """
    if not evaluator.facts.scaled:
        return await evaluator.evaluate_async(forced(text), as_given=True, file=switched_on(text))
    if not has_ranges and await asyncio.to_thread(_leave_equal_tapes, evaluator, source, forced(text)):
        return kernels
    return await evaluator.evaluate_async(forced(text), as_given=True)


def _leave_equal_tapes(evaluator: AnyEvaluator, source: str, text: str) -> bool:
    from triton_agent.runs.ship.equal_tapes import are_equal
    from triton_agent.runs.ship.plan_file import modules_of  # loads torch

    with contextlib.suppress(NotEmitted):
        return are_equal(modules_of(evaluator, source), modules_of(evaluator, text))
    return False


def _plans_at(
    evaluator: AnyEvaluator, source: str, spec: ProblemSpec
) -> Callable[[tuple[str, ...], Sequence[Bracket]], str]:
    """Return a function that writes the candidate's tapes as a file with plans for given sets and brackets."""
    from triton_agent.runs.ship.plan_file import file_of, modules_of  # loads torch

    @functools.cache
    def modules(names: tuple[str, ...]) -> tuple[TapedModule, ...]:
        return modules_of(evaluator, source, tuple(filter(None, names)))

    return lambda names, brackets: file_of(modules(names) if names else (), spec.ranges, brackets)


# -- ranges ------------------------------------------------------------------------------------------------------------


def _ranged(
    spec: ProblemSpec,
    evaluator: AnyEvaluator,
    source: str,
    forms: Mapping[str, CallForm],
    plans: Callable[[tuple[str, ...], Sequence[Bracket]], str],
    screen: Screen,
) -> RangedPlans:
    """Find plans for the problem's ranges, and judge them."""
    from triton_agent.runs.ship.ranges.ranged_plans import ranged_plans  # loads torch

    screen.say(f"finding plans for {', '.join(map(str, spec.ranges))}, and judging them at further sizes")
    given = call_form.given_lengths(spec, forms[next(iter(forms))])
    main = RangedPlans(given=given)

    def write(brackets: Sequence[Bracket]) -> str:
        return plans(_sets_outside(spec, main, tuple(forms), brackets), brackets)

    found = ranged_plans(spec, evaluator, source, given, write)
    for text in _range_sentences(spec, found, found.brackets):
        screen.say(f"  {text}")
    return found


def _lengths(spec: ProblemSpec, ranged: RangedPlans) -> dict[str, Lengths]:
    """Return the lengths of each set of inputs; without sets, those of the problem under an empty name."""
    return {item.name: item.lengths for item in spec.sets} or {"": ranged.given}


def _brackets_at(
    spec: ProblemSpec, ranged: RangedPlans | None, names: Sequence[str], *, draft: bool
) -> tuple[Bracket, ...]:
    """Return the parts of the brackets in which the kernels run, if they run at these of the measured lengths."""
    if ranged is None or draft:
        return ranged.brackets if ranged else ()
    at = _lengths(spec, ranged)
    return clipped(ranged.brackets, stretches([*at.values()], [at[name] for name in names]))


def _sets_outside(
    spec: ProblemSpec, ranged: RangedPlans | None, names: Sequence[str], brackets: Sequence[Bracket]
) -> tuple[str, ...]:
    """Return the sets of inputs that no bracket covers, which need plans of their own."""
    if ranged is None:
        return tuple(names)
    at = _lengths(spec, ranged)
    return tuple(name for name in names if not is_inside(at[name], brackets))


def _range_sentences(spec: ProblemSpec, ranged: RangedPlans | None, brackets: Sequence[Bracket]) -> tuple[str, ...]:
    """Return sentences that say what runs where in the problem's ranges."""
    if ranged is None:
        return ()
    found = []
    for bracket in brackets:
        judged = {*ranged.judged_at, *_lengths(spec, ranged).values()}
        at = sorted(lengths for lengths in judged if is_inside(lengths, [bracket]))
        listed = ", ".join("x".join(map(str, lengths)) for lengths in at)
        found.append(f"{span(spec.ranges, bracket.low, bracket.high)}: the kernels; judged at {listed}")
    if [*brackets] != [*ranged.brackets]:
        found.append(
            f"elsewhere in {', '.join(map(str, spec.ranges))}: the reference, since the kernels were not faster"
        )
    return (*found, *(f"the reference, {text}" for text in ranged.left_out))


def _why_not_shipped(evaluation: Evaluation, draft: bool) -> str:
    if evaluation.status is not Status.PASSED:
        return f"the kernel passed, but not inside the shipped file: {evaluation.message}"
    if not draft and not standing(evaluation).faster_than_reference:
        return no_faster(evaluation)
    return ""


def no_faster(evaluation: Evaluation) -> str:
    """Name the clocks by which the file is not faster, or slower in back-to-back calls, and by how much."""
    lines = [NO_FASTER]
    for timing in evaluation.timings:
        ratio = timing.speedup
        if timing.baseline_name == "eager" and timing.pairs and not is_enough(timing.kind, ratio):
            where = f"at {timing.input_set}, " if timing.input_set else ""
            lines.append(
                f"  {where}{KINDS_OF_TIME[timing.kind]}: {ratio.median:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]; "
                f"{timing.candidate_ms.median:.4g} ms, the reference's {timing.baseline_ms.median:.4g} ms"
            )
    return "\n".join(lines)


def _facts(run: Run, best: Graded, evaluator: AnyEvaluator, request: OptimizeRequest, form: CallForm) -> ShippedFacts:
    assert best.evaluation is not None
    problem = evaluator.facts
    promote = f"triton-agent promote {run.id}"
    return ShippedFacts(
        call=form,
        evaluation=best.evaluation,
        variants=problem.variants,
        scaled=problem.scaled,
        gpu=gpu_of(problem.gpu) if request.device == "cuda" else None,
        run=run.id,
        date=datetime.date.today(),
        version=__version__,
        author=best.attempt.completion.policy,
        cuda_graph=request.cuda_graph,
        promote=promote if request.device == "cpu" else "",
    )


def gpu_of(uuid: str) -> Gpu | None:
    """Return the visible GPU with that UUID, as a shipped file names it."""
    shown = visible_gpus()
    card = next((card for card in shown if card.uuid == uuid), next(iter(shown), None))  # a part of one: as the first
    if card is None or card.compute_capability is None:
        return None
    major, minor = card.compute_capability.split(".")
    return Gpu(name=card.name, capability=(int(major), int(minor)), driver=card.driver or "")


def write_file(folder: Path, name: str, text: str) -> Path:
    """Write the file as a whole or not at all."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        partial = path.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise UsageError(
            f"the result cannot be written: {error.strerror}", where=str(folder), remedy="name a folder with --out"
        ) from error
    return path

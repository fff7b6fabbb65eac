"""Writes the best kernel of a run as a file, judged once more exactly as it is shipped.

Never slower: with a GPU a file is written only where the shipped text itself, guard included, was measured faster than
the reference in device time and in latency, and no slower in calls back to back; at several sets of inputs its kernels
run at those where it was. Without one it is a draft, whose kernels run only when asked for.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import functools
from collections.abc import Sequence
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
from triton_agent.tools.errors import UsageError
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator
from triton_agent.tools.machine.hardware import visible_gpus
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.ranking import is_enough, standing
from triton_agent.tools.results import KINDS_OF_TIME, Evaluation, Status

NO_FASTER = "inside the shipped file, guard included, it is not measurably faster than the reference"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """A file that was written for the user."""

    path: Path
    draft: bool
    evaluation: Evaluation
    """Evaluation of the text as it is shipped; of a draft, with its kernels switched on."""


def output_folder(out: str | Path | None, run: Run) -> Path:
    """Return the folder for a run's file and report: `--out`, else one of the run's name in the current folder."""
    return Path(out) if out else Path.cwd() / run.id


async def ship_best(
    spec: ProblemSpec,
    run: Run,
    best: Graded,
    evaluator: AnyEvaluator,
    request: OptimizeRequest,
    folder: Path,
    screen: Screen,
) -> Shipped | None:
    """Write the file, or say why none is shipped."""
    draft = request.device == "cpu"
    if not draft and not best.standing.faster_than_reference:
        screen.say("the best kernel is right, but not measurably faster than the reference: nothing is shipped")
        return None
    screen.say("shipping: judging the file as it will be used")
    assert best.evaluation is not None
    source, kernels = best.attempt.source or "", best.evaluation
    forms = await asyncio.to_thread(call_form.find_all, spec)
    own = next((call.own_class for form in forms.values() for call in form.calls if call.own_class), "")
    if own:
        screen.say(
            f"nothing is shipped: the reference returns an object of the class {own}, and a shipped file can return "
            "tensors, lists, tuples and dictionaries only"
        )
        return None
    plans = functools.cache(functools.partial(_plans_at, evaluator, source))
    try:
        await asyncio.to_thread(plans, tuple(forms))
    except NotEmitted as reason:
        screen.say(f"no file can be written of what the kernel's module does: {reason}\n  nothing is shipped")
        return None

    def write(names: Sequence[str], evaluation: Evaluation) -> str:
        facts = _facts(run, best, evaluator, request, call_form.joined([forms[name] for name in names]))
        sets = shipped_sets(spec, forms, names, evaluation, kernels)
        facts = dataclasses.replace(facts, evaluation=evaluation, sets=sets)
        return ship(spec, plans(tuple(names)), facts, draft=draft)

    names = tuple(forms)
    if draft:
        text = write(names, kernels)
        # Its guard admits the sizes as given, at which nothing can be run here if they were scaled down.
        used = "" if evaluator.facts.scaled else switched_on(text)
        evaluation = await evaluator.evaluate_async(forced(text), as_given=True, file=used)
    else:
        as_used = functools.partial(write, evaluation=kernels)
        chosen = faster_at(best.standing, forms)
        names, measured = await asyncio.to_thread(admit, chosen, forms, as_used, measuring(evaluator))
        evaluation = over_all_sets(spec, measured or kernels, kernels)
    trouble = _trouble(evaluation, draft) if names else no_faster(evaluation)
    if trouble:
        screen.say(f"{trouble}\n  nothing is shipped")
        return None
    if not draft:  # the header states what was measured of the file itself
        text = write(names, evaluation)
    path = _write(folder, f"{Path(spec.path).stem}_optimized.py", text)
    return Shipped(path=path, draft=draft, evaluation=evaluation)


def _plans_at(evaluator: AnyEvaluator, source: str, names: tuple[str, ...]) -> str:
    """Return the candidate's tapes as a file with plans for these sets; raise `NotEmitted`."""
    from triton_agent.runs.ship.plan_file import plans_of  # loads torch

    return plans_of(evaluator, source, tuple(filter(None, names)))


def _trouble(evaluation: Evaluation, draft: bool) -> str:
    if evaluation.status is not Status.PASSED:
        return f"the kernel passed, but not inside the shipped file: {evaluation.message}"
    if not draft and not standing(evaluation).faster_than_reference:
        return no_faster(evaluation)
    return ""


def no_faster(evaluation: Evaluation) -> str:
    """Say by which clocks the file is not faster, or back to back slower, and by how much."""
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
        gpu=_gpu(problem.gpu) if request.device == "cuda" else None,
        run=run.id,
        date=datetime.date.today(),
        version=__version__,
        author=best.attempt.completion.policy,
        promote=promote if request.device == "cpu" else "",
    )


def _gpu(uuid: str) -> Gpu | None:
    shown = visible_gpus()
    card = next((card for card in shown if card.uuid == uuid), next(iter(shown), None))  # a part of one: as the first
    if card is None or card.compute_capability is None:
        return None
    major, minor = card.compute_capability.split(".")
    return Gpu(name=card.name, capability=(int(major), int(minor)), driver=card.driver or "")


def _write(folder: Path, name: str, text: str) -> Path:
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

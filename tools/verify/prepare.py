"""From a problem's specification to the plan: load it, choose variants, run the original everywhere, state facts."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from triton_agent.tools.errors import NotJudgeableHere, ProblemError
from triton_agent.tools.isolate.payloads import Payload
from triton_agent.tools.problem import ProblemKind, ProblemSpec
from triton_agent.tools.verify.authorship import OriginalWork, work_during
from triton_agent.tools.verify.cases import make_trial, make_verifier_trial
from triton_agent.tools.verify.expectation import OriginalFailed
from triton_agent.tools.verify.facts import (
    NOT_ALONE,
    NOTHING,
    TELLING_BATCHES,
    at_other_batches,
    calls_of,
    facts_of,
)
from triton_agent.tools.verify.footprint import TooLarge, prove
from triton_agent.tools.verify.input_tensors import leading_size
from triton_agent.tools.verify.plan import Plan, PlanSettings, Trial, secret_seed
from triton_agent.tools.verify.reference import Reference, load
from triton_agent.tools.verify.second_reader import AtGpu, SecondReader, timing_sets
from triton_agent.tools.verify.spot_checks import Spots
from triton_agent.tools.verify.variants import AS_GIVEN, FULL_SIZE, INTERPRETER, Variant, family, scaled_down


def prepare_plan(
    spec: ProblemSpec,
    settings: PlanSettings,
    at_gpu: AtGpu = contextlib.nullcontext,
    second: SecondReader | None = None,
) -> Plan:
    """Everything a checker needs to judge candidates for this problem on this machine.

    `at_gpu`: a place at the GPU, taken step by step: others who want it for themselves are let in between.
    `second`: another process at work on it, on a GPU.
    """
    with at_gpu():
        main, scaled = _main(spec, settings)
    notes: list[str] = []
    trials: list[Trial] = []
    originals: list[torch.nn.Module | None] = []
    references: list[Reference] = []
    for i, variant in enumerate(_main_first(spec, settings, main, at_gpu, second)):
        reference = load(spec, variant.constants, batch=variant.batch)
        if not reference.has_reference:
            trials.append(make_verifier_trial(reference, variant.name))
            originals.append(None)
            references.append(reference)
            continue
        try:
            with at_gpu():
                trial, original = make_trial(reference, variant.name, settings, notes, main=i == 0)
        except OriginalFailed as error:
            if i == 0:
                remedy = error.remedy or "the original must run on its inputs, and give the same answer every time"
                raise ProblemError(str(error), where=error.where or spec.path, remedy=remedy) from error
            continue
        trials.append(trial)
        originals.append(original)
        references.append(reference)
    order = _by_size(trials)
    ordered = tuple(trials[i] for i in order)
    with at_gpu():
        inputs = [trial.cases[0].expectation.packed_inputs.unpack() for trial in trials]
        known = _known(spec, main, trials, originals, references, inputs)
        work = tuple(_work(originals[i], references[i], inputs[i], trials[i]) for i in order)
    facts = {
        "name": spec.name,
        "digest": spec.digest,
        "variants": [trial.variant for trial in trials],
        "cases": sum(len(trial.cases) for trial in trials),
        "scaled": scaled,
        "notes": list(dict.fromkeys(notes)),
        **known,
    }
    return Plan(
        timing_sets=_timing_sets(spec, settings, second),
        trials=ordered,
        main=order.index(0),
        work=work,
        facts=facts,
        spots=Spots(spec, main, trials, scaled=bool(scaled)) if originals[0] is not None else None,
    )


def _timing_sets(spec: ProblemSpec, settings: PlanSettings, second: SecondReader | None) -> tuple[Payload, ...]:
    """Where anything is timed: against an original, on a GPU."""
    if settings.device != "cuda" or spec.kind is ProblemKind.VERIFIER:
        return ()
    drawn = second.timing_sets() if second is not None else None
    return drawn or timing_sets(spec, settings.device)


def _main(spec: ProblemSpec, settings: PlanSettings) -> tuple[Variant, str]:
    """The sizes that matter most, brought to what the interpreter can take, and what was changed for that."""
    if spec.kind is ProblemKind.VERIFIER or settings.device == "cuda":
        return AS_GIVEN, ""
    seed = secret_seed()
    main = scaled_down(spec, seed, limits=INTERPRETER)
    if main is None:
        _require_a_run(spec, seed)
        raise NotJudgeableHere(
            "the problem is too large for the interpreter, and no smaller size was found at which the original runs",
            where=spec.path,
            remedy="make its sizes module-level integers, give smaller inputs, or use a machine with a GPU",
        )
    return main.variant, main.sentence


def _main_first(
    spec: ProblemSpec, settings: PlanSettings, main: Variant, at_gpu: AtGpu, second: SecondReader | None
) -> Iterator[Variant]:
    """Then its family, which nobody has to know before."""
    yield main
    if spec.kind is ProblemKind.VERIFIER or not settings.family:
        return
    found = second.variants() if second is not None else None
    if found is None:
        limits = FULL_SIZE if settings.device == "cuda" else INTERPRETER
        with at_gpu():
            found = family(spec, secret_seed(), limits=limits, base=main, device=settings.device)
    yield from found[1:]


def _require_a_run(spec: ProblemSpec, seed: int) -> None:
    """Let a file that is broken say so itself: its own error is better than "too large"."""
    reference = load(spec)
    with contextlib.suppress(TooLarge):
        prove(reference, seed, limits=INTERPRETER)


def _known(
    spec: ProblemSpec,
    variant: Variant,
    trials: list[Trial],
    originals: list[torch.nn.Module | None],
    references: list[Reference],
    inputs: list[list[Any]],
) -> dict[str, Any]:
    """Facts of the original at every variant, and at the smallest, whose inputs are the fewest bytes, the floor."""
    trains = any(case.train for case in trials[0].cases)
    there = [(original, reference) for original, reference in zip(originals, references) if original is not None]
    if not there:
        return NOTHING
    calls = calls_of(there, inputs, train=trains)
    smallest, also_trained = _by_size(trials)[0], calls[0].differs_in_training
    more = at_other_batches(spec, variant.constants, calls[0], TELLING_BATCHES, train=also_trained)
    if smallest and leading_size(calls[smallest].inputs) == 1:
        constants = there[smallest][1].constants
        more += at_other_batches(spec, constants, calls[smallest], (NOT_ALONE,), train=also_trained)
    return facts_of([*calls, *more], smallest=smallest)


def _by_size(trials: list[Trial]) -> list[int]:
    """Variants, the quickest to try first."""
    return sorted(range(len(trials)), key=lambda i: trials[i].cases[0].expectation.packed_inputs.size_bytes)


def _work(original: torch.nn.Module | None, reference: Reference, inputs: list[Any], trial: Trial) -> OriginalWork:
    """Of one call, into which the inputs go: it may write to them."""
    if original is None:
        return OriginalWork(arithmetic=0, moved=0)
    subject = copy.deepcopy(original)
    _, work = work_during(lambda: reference.call(subject, inputs))
    return dataclasses.replace(work, without_inputs=_is_without_inputs(trial))


def _is_without_inputs(trial: Trial) -> bool:
    """Whether some output came out the same for all inputs that were tried with the same parameters."""
    first, *others = (
        [output.yard.truth for output in case.expectation.outputs]
        for case in trial.cases
        if (case.version, case.train) == (trial.cases[0].version, trial.cases[0].train)
    )
    return bool(others) and any(
        one.numel() and all(len(other) > i and torch.equal(one, other[i]) for other in others)
        for i, one in enumerate(first)
    )

"""From a problem's specification to the plan: load it, choose variants, run the original everywhere, state facts."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import torch

from triton_agent.tools.errors import NotJudgeableHere, ProblemError
from triton_agent.tools.isolate.payloads import Payload
from triton_agent.tools.operators import kind_of
from triton_agent.tools.problem import ProblemKind, ProblemSpec
from triton_agent.tools.verify.authorship import ARITHMETIC, OriginalWork, moves
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
from triton_agent.tools.verify.flop_meter import FlopMeter
from triton_agent.tools.verify.footprint import TooLarge, prove
from triton_agent.tools.verify.full_size import REDUCED, fits, is_large, make_full_trial
from triton_agent.tools.verify.input_tensors import leading_size
from triton_agent.tools.verify.operator_watch import TO_WHOLE, OperatorWatch
from triton_agent.tools.verify.plan import Plan, PlanSettings, Trial, secret_seed
from triton_agent.tools.verify.reference import Reference, load
from triton_agent.tools.verify.second_reader import AtGpu, SecondReader, timing_sets
from triton_agent.tools.verify.variants import AS_GIVEN, FULL_SIZE, INTERPRETER, Variant, family, scaled_down

LOOKS_AT_FULL_SIZE = 1
UNCOUNTED_HEAVY = 64
"""Multiply-adds per element assumed for heavy operators that have no flop formula."""


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
        reduced = _reduced(spec, settings)
    notes: list[str] = []
    trials: list[Trial] = []
    originals: list[torch.nn.Module | None] = []
    references: list[Reference] = []
    breadth: Trial | None = None
    for i, variant in enumerate(_main_first(spec, settings, main, reduced, at_gpu, second)):
        reference = load(spec, variant.constants, batch=variant.batch)
        if not reference.has_reference:
            trials.append(make_verifier_trial(reference, variant.name))
            originals.append(None)
            references.append(reference)
            continue
        try:
            with at_gpu():
                if variant is main and breadth is not None and fits(breadth):
                    looks = LOOKS_AT_FULL_SIZE if settings.device == "cuda" else 0
                    trial, original = make_full_trial(reference, variant.name, settings, breadth, looks=looks)
                else:
                    broad = i == 0 or variant is main
                    trial, original = make_trial(reference, variant.name, settings, notes, main=broad)
        except OriginalFailed as error:
            if i == 0 or variant is main:
                remedy = error.remedy or "the original must run on its inputs, and give the same answer every time"
                raise ProblemError(str(error), where=error.where or spec.path, remedy=remedy) from error
            continue
        if reduced is not None and i == 0:
            breadth = trial
        at = 0 if variant is main else len(trials)
        trials.insert(at, trial)
        originals.insert(at, original)
        references.insert(at, reference)
    order = _by_size(trials)
    ordered = tuple(trials[i] for i in order)
    with at_gpu():
        inputs = [trial.cases[0].expectation.packed_inputs.unpack() for trial in trials]
        known = _known(spec, main, trials, originals, references, inputs)
        work = tuple(_work(originals[i], references[i], inputs[i]) for i in order)
    del inputs
    if reduced is not None:
        torch.cuda.empty_cache()  # others on the card need what torch would keep for the next call
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
    spec: ProblemSpec,
    settings: PlanSettings,
    main: Variant,
    reduced: Variant | None,
    at_gpu: AtGpu,
    second: SecondReader | None,
) -> Iterator[Variant]:
    """Yield the main sizes, behind reduced ones where there are any, then the family, which is found meanwhile."""
    if reduced is not None:
        yield reduced
    yield main
    if spec.kind is ProblemKind.VERIFIER or not settings.family:
        return
    found = second.variants() if second is not None else None
    if found is None:
        limits = FULL_SIZE if settings.device == "cuda" else INTERPRETER
        with at_gpu():
            found = family(spec, secret_seed(), limits=limits, base=main, device=settings.device)
    yield from (variant for variant in found[1:] if variant != reduced)


def _reduced(spec: ProblemSpec, settings: PlanSettings) -> Variant | None:
    """Return smaller sizes for most of the checks where the problem's own tensors are gigabytes and can be reduced."""
    if spec.kind is ProblemKind.VERIFIER or not is_large(load(spec), settings):
        return None
    found = scaled_down(spec, secret_seed(), limits=REDUCED, device=settings.device)
    return None if found is None or found.variant == AS_GIVEN else found.variant


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


def _work(original: torch.nn.Module | None, reference: Reference, inputs: list[Any]) -> OriginalWork:
    """Of one call, into which the inputs go: it may write to them."""
    if original is None:
        return OriginalWork(arithmetic=0, moved=0)
    subject = copy.deepcopy(original)
    watch, counter = OperatorWatch(), FlopMeter()
    with reference.running("forward"), torch.no_grad(), counter, watch:
        subject(*inputs)
    rows = watch.take()
    _, rounded = rows.pop(TO_WHOLE, (0, 0))
    seen = {name: (kind_of(name), row[1]) for name, row in rows.items()}
    light = sum(elements for kind, elements in seen.values() if kind in ARITHMETIC)
    heavy = sum(elements for kind, elements in seen.values() if kind == "heavy")
    return OriginalWork(
        arithmetic=light + (counter.flops // 2 or UNCOUNTED_HEAVY * heavy),
        moved=sum(elements for name, (kind, elements) in seen.items() if moves(name, kind)),
        rounded=rounded,
    )

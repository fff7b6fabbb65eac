"""Makes the plan of a problem: loads it, chooses variants, runs the reference at each, collects the facts."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from triton_agent.tools.answers.authorship import OriginalWork, work_during
from triton_agent.tools.answers.full_size import REDUCED, fits, is_large, make_full_trial
from triton_agent.tools.answers.spots import Spots
from triton_agent.tools.cases.plan import Plan, Trial
from triton_agent.tools.cases.trials import make_trial, make_verifier_trial
from triton_agent.tools.chance import secret_seed
from triton_agent.tools.errors import NotJudgeableHere, ProblemError
from triton_agent.tools.graph.fingerprint import fingerprint
from triton_agent.tools.problem.problem import ProblemKind, ProblemSpec
from triton_agent.tools.problem.size_range import named, points
from triton_agent.tools.processes.payloads import Aside, Payload, pack
from triton_agent.tools.race.clock import timing_sets
from triton_agent.tools.reference.allowance import TooLarge
from triton_agent.tools.reference.facts import (
    NOT_ALONE,
    NOTHING,
    TELLING_BATCHES,
    ReferenceCall,
    at_other_batches,
    calls_of,
    facts_of,
)
from triton_agent.tools.reference.footprint import (
    FULL_SIZE,
    INTERPRETER,
    Limits,
    fake_model,
    prove,
    silent_fakes,
)
from triton_agent.tools.reference.input_tensors import leading_size
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.reference.reference import Reference, load
from triton_agent.tools.reference.scaling import scaled_down, scaled_for_interpreter
from triton_agent.tools.reference.size_trials import Trials
from triton_agent.tools.reference.sizes import AS_GIVEN, Variant
from triton_agent.tools.reference.variants import family
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.expectation import OriginalFailed

AtGpu = Callable[[], contextlib.AbstractContextManager[None]]
LOOKS_AT_FULL_SIZE = 1
LENGTHS = 6
"""Number of lengths of a range at which each candidate is judged; a shipped file is judged at more."""
AT_LENGTHS = Limits(elements_at_most=1 << 26, flops_at_most=2_000_000_000_000, seconds_at_most=120.0)
"""Limits for a call at a length of a range, on a GPU, since calls at several lengths are kept at once. Larger ones are
judged later, one by one."""

_Made = tuple[Trial, torch.nn.Module | None, Reference]
"""A variant's trial, the module that made it (None for a verifier), and the loaded problem."""


def prepare_plan(
    spec: ProblemSpec,
    settings: EvaluatorSettings,
    at_gpu: AtGpu = contextlib.nullcontext,
    pause: Callable[[], None] = lambda: None,
    aside: Aside = contextlib.nullcontext,
) -> Plan:
    """Make everything that a checker needs to judge candidates for this problem on this machine.

    `at_gpu` holds the GPU for one step at a time, so that other processes can use it in between. `pause` lets them in
    during long steps, and `aside` for a block that does not need the GPU.
    """
    with at_gpu():
        main, scaled, limits = _main(spec, settings)
    with at_gpu():
        reduced = _reduced(spec, settings, pause)
    notes: list[str] = []
    made: list[_Made] = []
    breadth: Trial | None = None
    for i, variant in enumerate(_main_first(spec, settings, main, limits, reduced, at_gpu, pause)):
        reference = load(variant.of(spec), variant.constants, batch=variant.batch)
        if not reference.has_reference:
            made.append((make_verifier_trial(reference, variant.name), None, reference))
            continue
        try:
            with at_gpu():
                if variant is main and breadth is not None and fits(breadth):
                    looks = LOOKS_AT_FULL_SIZE if settings.device == "cuda" else 0
                    trial, original = make_full_trial(
                        reference, variant.name, settings, breadth, looks=looks, aside=aside
                    )
                else:
                    broad = i == 0 or variant is main
                    trial, original = make_trial(reference, variant.name, settings, notes, main=broad, pause=pause)
        except OriginalFailed as error:
            if i == 0 or variant is main:
                remedy = error.remedy or "the reference must run on its inputs, and give the same answer every time"
                raise ProblemError(str(error), where=error.where or spec.path, remedy=remedy) from error
            continue
        if reduced is not None and i == 0:
            breadth = trial
        if trial.modes:  # two calls of one element with dropout may agree by chance
            settings = dataclasses.replace(settings, modes=tuple(it for it in settings.modes if it in trial.modes))
        made.insert(0 if variant is main else len(made), (trial, original, reference))
    trials = [trial for trial, _, _ in made]
    # Trials are ordered by the size of their inputs, the cheapest first.
    order = sorted(range(len(made)), key=lambda i: trials[i].cases[0].expectation.packed_inputs.size_bytes)
    with at_gpu():
        inputs = [trial.cases[0].expectation.packed_inputs.unpack() for trial in trials]
        known = _known(spec, main, made, inputs, smallest=order[0], scaled=bool(scaled))
    with at_gpu():
        work = tuple(_work(*made[i][1:], inputs[i], trials[i]) for i in order)
    del inputs
    if settings.device == "cuda":
        torch.cuda.empty_cache()  # others on the card need the memory that torch would keep for this problem
    facts = {
        "name": spec.name,
        "digest": spec.digest,
        "variants": tuple(trial.variant for trial in trials),
        "cases": sum(len(trial.cases) for trial in trials),
        "scaled": scaled,
        "notes": tuple(dict.fromkeys(notes)),
        **known,
    }
    with at_gpu():
        sets = _timing_sets(spec, settings, aside)
    return Plan(
        timing_sets=sets,
        trials=tuple(trials[i] for i in order),
        main=order.index(0),
        work=work,
        facts=facts,
        spots=Spots(spec, main, trials, scaled=bool(scaled)) if made[0][1] is not None else None,
    )


def _timing_sets(spec: ProblemSpec, settings: EvaluatorSettings, aside: Aside) -> tuple[Payload, ...]:
    """Draw the given inputs several times if candidates are timed: on a GPU, against a reference."""
    if settings.device != "cuda" or spec.kind is ProblemKind.VERIFIER:
        return ()
    reference = load(spec)
    drawn = timing_sets(lambda _: reference.make_inputs_on(settings.device, secret_seed()))
    return tuple(pack(inputs, aside) for inputs in drawn)


def _main(spec: ProblemSpec, settings: EvaluatorSettings) -> tuple[Variant, str, Limits]:
    """Return the main variant (scaled down without a GPU), its changes in words, and limits for its family."""
    if spec.kind is ProblemKind.VERIFIER or settings.device == "cuda":
        return AS_GIVEN, "", FULL_SIZE
    seed = secret_seed()
    main, limits = scaled_for_interpreter(spec, seed)
    if main is None:
        with contextlib.suppress(TooLarge):  # the error of a broken file says more than "too large"
            prove(load(spec), seed, limits=FULL_SIZE)
        raise NotJudgeableHere(
            "the problem is too large for the interpreter, and no smaller size was found at which the reference runs",
            where=spec.path,
            remedy="make its sizes module-level integers, give smaller inputs, or use a machine with a GPU",
        )
    return main.variant, main.sentence, limits


def _main_first(
    spec: ProblemSpec,
    settings: EvaluatorSettings,
    main: Variant,
    limits: Limits,
    reduced: Variant | None,
    at_gpu: AtGpu,
    pause: Callable[[], None],
) -> Iterator[Variant]:
    """Yield the reduced variant if any, the main variant, then the main variant's family, found only when needed."""
    if reduced is not None:
        yield reduced
    yield main
    if spec.kind is ProblemKind.VERIFIER or settings.shapes != "family":
        return
    if spec.ranges:
        yield from _at_lengths(spec, settings, main, at_gpu)
        return
    with at_gpu():
        found = family(spec, secret_seed(), limits=limits, base=main, device=settings.device, pause=pause)
    yield from (variant for variant in found[1:] if variant != reduced)


def _at_lengths(spec: ProblemSpec, settings: EvaluatorSettings, main: Variant, at_gpu: AtGpu) -> Iterator[Variant]:
    """Yield the problem at other lengths of its ranges instead of a family: the requested ones, or a choice."""
    limits = INTERPRETER if settings.device == "cpu" else AT_LENGTHS
    asked = settings.lengths or points(spec.ranges, LENGTHS, secret_seed())
    trials = Trials(spec, secret_seed(), limits, settings.device)
    for lengths in asked:
        variant = Variant(name=named(spec.ranges, lengths), constants=main.constants, batch=main.batch, lengths=lengths)
        with at_gpu():
            proven = trials.prove(variant)
        if proven is not None and proven.load(limits) <= 1:
            yield variant


def _reduced(spec: ProblemSpec, settings: EvaluatorSettings, pause: Callable[[], None]) -> Variant | None:
    """Return smaller sizes for most of the checks if the problem's tensors are gigabytes and it can be reduced."""
    if spec.kind is ProblemKind.VERIFIER or not is_large(load(spec), settings):
        return None
    found = scaled_down(spec, secret_seed(), limits=REDUCED, device=settings.device, pause=pause)
    return None if found is None or found.variant == AS_GIVEN else found.variant


def _known(
    spec: ProblemSpec, variant: Variant, made: list[_Made], inputs: list[list[Any]], *, smallest: int, scaled: bool
) -> dict[str, Any]:
    """Return the facts of the reference; its floor is counted at the variant with the fewest bytes."""
    there = [(original, reference) for _, original, reference in made if original is not None]
    if not there:
        return NOTHING
    calls = calls_of(there, inputs, train=any(case.train for case in made[0][0].cases))
    also_trained = calls[0].differs_in_training
    more = at_other_batches(spec, variant.constants, calls[0], TELLING_BATCHES, train=also_trained)
    if smallest and leading_size(calls[smallest].inputs) == 1:
        constants = there[smallest][1].constants
        more += at_other_batches(spec, constants, calls[smallest], (NOT_ALONE,), train=also_trained)
    if scaled:
        more += _near_given_sizes(spec, train=also_trained)
    return facts_of([*calls, *more], smallest=smallest)


def _near_given_sizes(spec: ProblemSpec, *, train: bool) -> list[ReferenceCall]:
    """Call the reference at the given sizes, or at the largest ones that a CPU runs in about a second.

    A number that is the same at all scaled-down sizes, such as the width of a head, may be different there. If the
    given sizes are too large, the reference also runs there on fake tensors, as far as it does the same: two numbers
    that are equal at one size are often equal at its halves.
    """
    found = scaled_down(spec, secret_seed(), limits=FULL_SIZE)
    calls: list[ReferenceCall] = []
    if found is not None:
        with contextlib.suppress(ProblemError):
            calls.append(_called(load(spec, found.variant.constants, batch=found.variant.batch), train=train))
    if calls and found is not None and found.variant != AS_GIVEN and not calls[0].graph.contents:
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        with contextlib.suppress(ProblemError), silent_fakes():
            reference = load(spec)
            made = fake_model(lambda: reference.make_model(secret_seed()), fake)
            with fake:
                call = _called(reference, train=train, made=made)
            if fingerprint(call.graph) == fingerprint(calls[0].graph):
                calls.append(call)
    return calls


def _called(reference: Reference, *, train: bool, made: torch.nn.Module | None = None) -> ReferenceCall:
    made = reference.make_model(secret_seed()) if made is None else made
    inputs = reference.make_inputs(secret_seed())
    with reference.running("forward"):
        return ReferenceCall(made, inputs, train=train)


def _work(original: torch.nn.Module | None, reference: Reference, inputs: list[Any], trial: Trial) -> OriginalWork:
    """Measure the work of one call, which may write into the inputs."""
    if original is None:
        return OriginalWork(arithmetic=0, moved=0)
    subject = copied_module(original)
    _, work = work_during(lambda: reference.call(subject, inputs))
    return dataclasses.replace(work, without_inputs=_is_without_inputs(trial))


def _is_without_inputs(trial: Trial) -> bool:
    """Return True if some output was the same for all tried inputs with the same parameters."""
    first, *others = (
        [output.yard.truth for output in case.expectation.outputs]
        for case in trial.cases
        if (case.version, case.train) == (trial.cases[0].version, trial.cases[0].train)
    )
    return bool(others) and any(
        one.numel() and all(len(other) > i and torch.equal(one, other[i]) for other in others)
        for i, one in enumerate(first)
    )

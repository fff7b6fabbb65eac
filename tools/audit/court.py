"""The evaluator's cases and checks for answers made in this process: fake answers and mutants.

Cases are made as for the evaluator, and answers pass the same checks: structure, shapes, dtypes, values, and inputs and
buffers after the call. Checks that concern only candidates are left out: launched kernels, and memory shared between
outputs.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from triton_agent.tools.answers import checks
from triton_agent.tools.cases.distributions import AS_GIVEN, DISTRIBUTIONS, draw, randomise
from triton_agent.tools.cases.plan import ONE_CHANGED, Case, Trial
from triton_agent.tools.cases.trials import make_trial
from triton_agent.tools.chance import secret_seed
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.tensors import flatten, nested_tensors
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.reference.reference import Reference, load
from triton_agent.tools.reference.sizes import Variant
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.expectation import OriginalFailed, state_of


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Outputs of one call, and its inputs and state afterwards."""

    outputs: Any
    inputs_after: list[Any]
    state_after: dict[str, torch.Tensor]
    module: torch.nn.Module


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One variant with its cases and its reference."""

    reference: Reference
    trial: Trial
    original: torch.nn.Module
    main: bool

    def run(
        self, case: Case, *, mode: contextlib.AbstractContextManager[Any] | None = None, inputs: list[Any] | None = None
    ) -> Run:
        """Run the reference in this case, optionally under a mode or on other inputs."""
        subject = copied_module(self.original).train(case.train)
        named = {**dict(subject.named_parameters(remove_duplicate=False)), **dict(subject.named_buffers())}
        with torch.no_grad():
            for name, tensor in named.items():
                tensor.copy_(case.expectation.state_before[name])
        args = case.expectation.packed_inputs.unpack() if inputs is None else inputs
        with self.reference.running("forward"), torch.no_grad(), mode or contextlib.nullcontext():
            outputs = subject(*args)
        return Run(outputs=outputs, inputs_after=args, state_after=state_of(subject), module=subject)

    def run_on_others(self, case: Case) -> list[torch.Tensor] | None:
        """Return the reference's answer to other inputs from the same distribution."""
        try:
            drawn = case.distribution if case.distribution in DISTRIBUTIONS else AS_GIVEN
            run = self.run(case, inputs=draw(self.reference, drawn, secret_seed()))
        except ProblemError:
            return None
        return [tensor.detach().clone() for tensor in nested_tensors(run.outputs)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Court:
    """All cases under one set of settings, those at the problem's own sizes first."""

    benches: tuple[Bench, ...]
    randomises: bool
    """True if parameters were changed from their defaults, such as a norm's weight of ones."""
    notes: tuple[str, ...]

    def cases(self) -> Iterator[tuple[Bench, Case]]:
        for bench in self.benches:
            for case in _asked(bench.trial):
                yield bench, case

    def count(self) -> int:
        return sum(len(_asked(bench.trial)) for bench in self.benches)

    def explain(self, bench: Bench, case: Case) -> str:
        """Describe how a case differs from the problem as given."""
        if not bench.main:
            return f"other sizes ({case.variant})"
        if case.distribution != AS_GIVEN:
            return f"inputs {case.distribution}"
        return "randomised parameters" if self.randomises else "another draw"


def _asked(trial: Trial) -> list[Case]:
    """Return the cases with ordinary inputs: a problem that only NaN or another layout protects is not sound."""
    return [case for case in trial.cases if case.distribution in (*DISTRIBUTIONS, ONE_CHANGED)]


def convene(spec: ProblemSpec, variants: list[Variant], settings: EvaluatorSettings) -> Court:
    """Make the cases of these variants; raise `ProblemError` if the reference is unusable at its own sizes."""
    benches: list[Bench] = []
    notes: list[str] = []
    for variant in variants:
        reference = load(spec, variant.constants, batch=variant.batch)
        try:
            trial, original = make_trial(reference, variant.name, settings, notes, main=not benches)
        except OriginalFailed as error:
            if not benches:
                remedy = error.remedy or "the reference must run on its inputs, and give the same answer every time"
                raise ProblemError(str(error), where=error.where or spec.path, remedy=remedy) from error
            continue
        benches.append(Bench(reference=reference, trial=trial, original=original, main=not benches))
    changed = settings.remedies and bool(randomise(benches[0].reference.make_model(0), 0))
    return Court(benches=tuple(benches), randomises=changed, notes=tuple(dict.fromkeys(notes)))


def refusal(case: Case, run: Run) -> Failed | None:
    """Return why the evaluator would refuse this run; None if it would accept it."""
    tensors: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> int:
        tensors.append(tensor.detach())
        return len(tensors) - 1

    tree = flatten(run.outputs, keep)
    answer = _answer(tree, tensors, [tensor.detach() for tensor in nested_tensors(run.inputs_after)])
    try:
        checks.check_structure(case, answer)
        checks.check_form(case, answer)
        failure = checks.measure(case, answer)[1]
        checks.check_inputs(case, answer)
        checks.check_state(case, run.state_after)
    except Failed as failed:
        return failed
    return failure


def outputs_refused(case: Case, outputs: list[torch.Tensor]) -> bool:
    if len(outputs) != len(case.expectation.outputs):
        return True
    answer = _answer(case.expectation.tree, outputs, list(case.expectation.inputs_after))
    try:
        checks.check_form(case, answer)
    except Failed:
        return True
    return checks.measure(case, answer)[1] is not None


def _answer(tree: Any, tensors: list[torch.Tensor], inputs_after: list[torch.Tensor]) -> checks.Answer:
    return checks.Answer(tree=tree, tensors=tuple(tensors), changed=dict(enumerate(inputs_after)))

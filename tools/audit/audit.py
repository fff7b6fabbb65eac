"""Audit of a problem: tries to pass it with wrong answers, using the evaluator's own cases and comparison.

Every answer is tried twice: as given (with the inputs, parameters and sizes of the file only) and with the remedies
that the evaluator always applies (other distributions, randomised parameters, other sizes). Fake answers do no work;
mutants are the reference with one mistake. A survivor is a blind spot. Not covered: speed, cheating outside of the
outputs, and whether a survivor is a mistake at all: an equivalent mutant cannot be told from an undetected one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch

from triton_agent.tools.audit.court import Bench, Court, convene, outputs_refused, refusal
from triton_agent.tools.audit.fake_answers import FakeAnswer, Question, answers_for_verifier, fake_answers_for
from triton_agent.tools.audit.mistakes import coarser_than
from triton_agent.tools.audit.mutants import Mutant, Mutation, Observer, same_bits, spread
from triton_agent.tools.audit.report import AuditReport, Family, WrongAnswer
from triton_agent.tools.cases.distributions import DISTRIBUTIONS, draw
from triton_agent.tools.cases.plan import Case
from triton_agent.tools.cases.trials import make_verifier_trial
from triton_agent.tools.chance import secret_seed
from triton_agent.tools.checker.prepare import prepare_plan
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem.problem import ProblemKind, ProblemSpec
from triton_agent.tools.processes.tensors import Foreign, nested_tensors
from triton_agent.tools.reference.footprint import INTERPRETER
from triton_agent.tools.reference.reference import load
from triton_agent.tools.reference.scaling import scaled_down
from triton_agent.tools.reference.size_trials import Trials
from triton_agent.tools.reference.sizes import AS_GIVEN
from triton_agent.tools.reference.variants import family
from triton_agent.tools.results import Finding
from triton_agent.tools.settings import EvaluatorSettings

AUDIT_S = 120.0
"""Time limit for all answers; answers left over are skipped, and the report says so."""
MOST_MUTANTS = 60
"""Each mutant takes a few runs of the reference on a CPU."""

BARE = EvaluatorSettings(remedies=False, shapes="given")

OnProgress = Callable[[int, int], None]
"""Called with the number of answers tried and the number of all answers."""


def audit(spec: ProblemSpec, *, on_progress: OnProgress | None = None, limit_s: float = AUDIT_S) -> AuditReport:
    """Try wrong answers on the problem, and report which of them pass."""
    if spec.kind is ProblemKind.VERIFIER:
        return _audit_verifier(spec, on_progress)
    seed = secret_seed()
    main = scaled_down(spec, seed, limits=INTERPRETER)
    if main is None:
        _raise_why_no_size(spec, seed)
        raise ProblemError("no size was found at which the reference runs", where=spec.path)
    bare = convene(spec, [main.variant], BARE)
    full = convene(spec, family(spec, seed, limits=INTERPRETER, base=main.variant), EvaluatorSettings())
    deadline = time.monotonic() + limit_s
    questions = [list(_questions(court)) for court in (bare, full)]
    mutants, discarded = _mutants(bare)
    tries: list[FakeAnswer | Mutant] = [*fake_answers_for(questions[0][0][2]), *mutants]
    answers: list[WrongAnswer] = []
    left_out = 0
    for done, wrong in enumerate(tries):
        if time.monotonic() > deadline:
            left_out = len(tries) - done
            break
        found = _try_fake(wrong, full, *questions) if isinstance(wrong, FakeAnswer) else _try_mutant(wrong, bare, full)
        answers += [found] if found is not None else []
        discarded += found is None
        if on_progress is not None:
            on_progress(done + 1, len(tries))
    refused = (case.name for bench, case in full.cases() if refusal(case, bench.run(case)) is not None)
    return AuditReport(
        name=spec.name,
        digest=spec.digest,
        answers=tuple(answers),
        cases_as_given=bare.count(),
        cases=full.count(),
        discarded=discarded,
        left_out=left_out,
        refuses_reference=next(refused, ""),
        scaled=main.sentence,
        notes=full.notes,
    )


def _raise_why_no_size(spec: ProblemSpec, seed: int) -> None:
    """Raise the reference's own error if it does not run at all, or else the evaluator's error about its sizes."""
    if Trials(spec, seed, INTERPRETER).estimate(AS_GIVEN) is None:
        reference = load(spec)
        with torch.no_grad():
            reference.call(reference.make_model(0), reference.make_inputs(0))
    prepare_plan(spec, BARE)


_Asked = tuple[Bench, Case, Question]


def _questions(court: Court) -> Iterator[_Asked]:
    constants: list[float] | None = None
    for bench, case in court.cases():
        others = bench.run_on_others(case)
        if constants is None:
            constants = []
            for tensor in others or [output.yard.original for output in case.expectation.outputs]:
                values = tensor.real if tensor.is_complex() else tensor
                finite = values.double().nan_to_num(posinf=0.0, neginf=0.0)
                constants.append(float(finite.mean()) if finite.numel() else 0.0)
        yield bench, case, Question(expectation=case.expectation, other_outputs=others, constants=constants)


def _mutants(court: Court) -> tuple[list[Mutant], int]:
    """Observe the reference in the court's first case; return the mutants to try and the number of discarded ones."""
    bench, case = next(court.cases())
    observer = Observer(coarser_than([output.yard.original.dtype for output in case.expectation.outputs]))
    run = bench.run(case, mode=observer)
    kept = [*nested_tensors(run.outputs), *run.module.buffers(), *nested_tensors(run.inputs_after)]
    chosen: list[Mutant] = []
    discarded = 0
    for mutant in spread(observer.mutants(kept)):
        if len(chosen) == MOST_MUTANTS:
            break
        try:
            failed = refusal(case, bench.run(case, mode=Mutation(mutant)))
            fits = failed is None or failed.finding not in (Finding.STRUCTURE, Finding.SHAPE, Finding.DTYPE)
        except (ProblemError, Foreign):
            fits = False
        chosen += [mutant] if fits else []
        discarded += not fits
    return chosen, discarded


def _try_fake(fake: FakeAnswer, full: Court, as_given: list[_Asked], with_remedies: list[_Asked]) -> WrongAnswer | None:
    """Try a fake answer. Return None if it only damages a correct answer and changes nothing in any case."""
    refused_by: list[tuple[Bench, Case] | None] = []
    for asked in (as_given, with_remedies):
        refused = None
        for bench, case, question in asked:
            outputs = fake.answer(question)
            if outputs is None or outputs_refused(case, outputs):
                refused = bench, case
                break
        refused_by.append(refused)
    if fake.damages and all(same_bits(fake.answer(q), q.right) for _, _, q in (*as_given, *with_remedies)):
        return None
    first, later = refused_by
    return WrongAnswer(
        family=fake.family,
        what=fake.what,
        survives_as_given=first is None,
        survives=later is None,
        killed_by=full.explain(*later) if later else "",
        meaning=fake.meaning,
    )


def _try_mutant(mutant: Mutant, bare: Court, full: Court) -> WrongAnswer | None:
    """Try a mutant. Return None for a lower precision that never changes a value, because all values are exact."""
    first, later = (
        next(((bench, case) for bench, case in court.cases() if not _passes(bench, case, mutant)), None)
        for court in (bare, full)
    )
    inert = later is None and not _ever_changes(mutant, bare, full)
    if inert and mutant.family is Family.PRECISION:
        return None
    return WrongAnswer(
        family=mutant.family,
        what=mutant.what,
        survives_as_given=first is None,
        survives=later is None,
        killed_by=full.explain(*later) if later else "",
        inert=inert,
    )


def _passes(bench: Bench, case: Case, mutant: Mutant) -> bool:
    try:
        return refusal(case, bench.run(case, mode=Mutation(mutant))) is None
    except (ProblemError, Foreign):
        return False


def _ever_changes(mutant: Mutant, *courts: Court) -> bool:
    """Return True if the mistake changes a value in any case; only needed for survivors."""
    for court in courts:
        for bench, case in court.cases():
            mutation = Mutation(mutant, compare=True)
            bench.run(case, mode=mutation)
            if mutation.changed:
                return True
    return False


def _audit_verifier(spec: ProblemSpec, on_progress: OnProgress | None) -> AuditReport:
    """Try only fake answers: without a reference there are no mutants and no remedies."""
    reference = load(spec)
    shown = []
    for case in make_verifier_trial(reference, "as given").cases:
        inputs = case.expectation.packed_inputs.unpack()
        shown.append((case, answers_for_verifier(inputs, draw(reference, DISTRIBUTIONS[0], secret_seed()))))
    names = [what for what, _ in shown[0][1]]
    answers: list[WrongAnswer] = []
    raised = 0
    for i, what in enumerate(names):
        accepted = True
        for case, outputs in shown:
            assert case.verify is not None
            try:
                accepted = case.verify(case.expectation.packed_inputs, outputs[i][1])
            except ProblemError:
                accepted = False
                raised += 1
            if not accepted:
                break
        killed_by = "" if accepted else "the problem's own verify()"
        answers.append(
            WrongAnswer(
                family=Family.FAKE, what=what, survives_as_given=accepted, survives=accepted, killed_by=killed_by
            )
        )
        if on_progress is not None:
            on_progress(i + 1, len(names))
    note = f"verify() raised on {raised} of {len(names)} answers, which counts as a refusal"
    return AuditReport(
        name=spec.name,
        digest=spec.digest,
        answers=tuple(answers),
        cases_as_given=len(shown),
        cases=len(shown),
        notes=(note,) if raised else (),
    )

"""Is a problem worth anything as a judge? Tries to pass it with wrong answers, by the evaluator's own cases and judge.

Everything is tried twice: as given (the inputs, parameters and sizes of the file alone) and with the remedies that the
evaluator always takes (other distributions, randomised parameters, other sizes). Impostors come without the work done,
mutants with one mistake in it. What survives is a blind spot. Not covered: speed, cheating outside the outputs, and
whether a survivor is a mistake at all: an equivalent mutant cannot be told from one that goes unnoticed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.isolate.tensors import Foreign, nested_tensors
from triton_agent.tools.problem import ProblemKind, ProblemSpec
from triton_agent.tools.results import Finding
from triton_agent.tools.verify.cases import make_verifier_trial
from triton_agent.tools.verify.court import Bench, Court, convene, outputs_refused, refusal
from triton_agent.tools.verify.distributions import draw
from triton_agent.tools.verify.impostors import Impostor, Question, impostors_for, verifier_attempts
from triton_agent.tools.verify.mutants import MOST_MUTANTS, Mutant, Mutation, Observer, same_bits, spread
from triton_agent.tools.verify.plan import Case, PlanSettings, secret_seed
from triton_agent.tools.verify.precision_mistakes import coarser_than
from triton_agent.tools.verify.prepare import prepare_plan
from triton_agent.tools.verify.reference import load
from triton_agent.tools.verify.trials import Trials
from triton_agent.tools.verify.variants import AS_GIVEN, INTERPRETER, family, scaled_down
from triton_agent.tools.worth import Attempt, Family, WorthReport

ASSAY_S = 120.0
"""Time for the attempts; what it does not suffice for is left out, and the report says so."""

BARE = PlanSettings(remedies=False, family=False)

OnProgress = Callable[[int, int], None]
"""Attempts made, attempts in all."""

FORM = frozenset({Finding.STRUCTURE, Finding.SHAPE, Finding.DTYPE})

VERIFIER_REFUSED = "the problem's own verify()"


def assay(spec: ProblemSpec, *, on_progress: OnProgress | None = None, limit_s: float = ASSAY_S) -> WorthReport:
    """Everything that was tried on the problem, and what came of it."""
    if spec.kind is ProblemKind.VERIFIER:
        return _assay_verifier(spec, on_progress)
    seed = secret_seed()
    main = scaled_down(spec, seed, limits=INTERPRETER)
    if main is None:
        _say_why_no_size(spec, seed)
        raise ProblemError("no size was found at which the original runs", where=spec.path)
    bare = convene(spec, [main.variant], BARE)
    full = convene(spec, family(spec, seed, limits=INTERPRETER, base=main.variant), PlanSettings())
    assayer = _Assayer(bare, full, on_progress, time.monotonic() + limit_s)
    assayer.run()
    return WorthReport(
        name=spec.name,
        digest=spec.digest,
        attempts=tuple(assayer.attempts),
        cases_as_given=bare.count(),
        cases=full.count(),
        discarded=assayer.discarded,
        left_out=assayer.left_out,
        refuses_original=assayer.refuses_original,
        scaled=main.sentence,
        notes=full.notes,
    )


def _say_why_no_size(spec: ProblemSpec, seed: int) -> None:
    """Raise what the original raises, where it does not run at all; else what the evaluator says of such sizes."""
    if Trials(spec, seed, INTERPRETER).estimate(AS_GIVEN) is None:
        reference = load(spec)
        with torch.no_grad():
            reference.call(reference.make_model(0), reference.make_inputs(0))
    prepare_plan(spec, BARE)


class _Assayer:
    """Tries impostors and mutants in both courts."""

    def __init__(self, bare: Court, full: Court, on_progress: OnProgress | None, deadline: float) -> None:
        self.bare = bare
        self.full = full
        self.on_progress = on_progress
        self.deadline = deadline
        self.attempts: list[Attempt] = []
        self.discarded = 0
        self.left_out = 0
        self.refuses_original = ""

    def run(self) -> None:
        self.refuses_original = _refuses_original(self.full)
        as_given, with_remedies = list(_questions(self.bare)), list(_questions(self.full))
        impostors = impostors_for(as_given[0][2])
        mutants = self._mutants()
        tries: list[Impostor | Mutant] = [*impostors, *mutants]
        for done, attempt in enumerate(tries):
            if time.monotonic() > self.deadline:
                self.left_out = len(tries) - done
                return
            if isinstance(attempt, Impostor):
                self._try_impostor(attempt, as_given, with_remedies)
            else:
                self._try_mutant(attempt)
            if self.on_progress is not None:
                self.on_progress(done + 1, len(tries))

    def _mutants(self) -> list[Mutant]:
        """The original watched once in its first case, and a choice of what could go wrong in it."""
        bench, case = next(self.bare.cases())
        observer = Observer(coarser_than([output.yard.original.dtype for output in case.expectation.outputs]))
        run = bench.run(case, mode=observer)
        kept = [*nested_tensors(run.outputs), *run.module.buffers(), *nested_tensors(run.inputs_after)]
        chosen: list[Mutant] = []
        for mutant in spread(observer.mutants(kept)):
            if len(chosen) == MOST_MUTANTS:
                break
            if _keeps_form(bench, case, mutant):
                chosen.append(mutant)
            else:
                self.discarded += 1
        return chosen

    def _try_impostor(self, impostor: Impostor, as_given: list[_Asked], with_remedies: list[_Asked]) -> None:
        first = _first_refusal(impostor, as_given)
        later = _first_refusal(impostor, with_remedies)
        if impostor.damages and _leaves_as_is(impostor, [*as_given, *with_remedies]):
            self.discarded += 1
            return
        self._record(impostor.family, impostor.what, first, later, meaning=impostor.meaning)

    def _try_mutant(self, mutant: Mutant) -> None:
        first = next((asked for asked in self.bare.cases() if not _passes(*asked, mutant)), None)
        later = next((asked for asked in self.full.cases() if not _passes(*asked, mutant)), None)
        inert = later is None and not _ever_changes(mutant, self.bare, self.full)
        if inert and mutant.family is Family.PRECISION:
            self.discarded += 1  # what it rounds is exact in fewer bits
            return
        self._record(mutant.family, mutant.what, first, later, inert=inert)

    def _record(
        self,
        family: Family,
        what: str,
        first: tuple[Bench, Case] | None,
        later: tuple[Bench, Case] | None,
        *,
        inert: bool = False,
        meaning: str = "",
    ) -> None:
        self.attempts.append(
            Attempt(
                family=family,
                what=what,
                survives_as_given=first is None,
                survives=later is None,
                killed_by=self.full.explain(*later) if later else "",
                inert=inert,
                meaning=meaning,
            )
        )


_Asked = tuple[Bench, Case, Question]


def _questions(court: Court) -> Iterator[_Asked]:
    constants: list[float] | None = None
    for bench, case in court.cases():
        others = bench.run_on_others(case)
        if constants is None:
            constants = [_mean(tensor) for tensor in others or [o.yard.original for o in case.expectation.outputs]]
        yield bench, case, Question(expectation=case.expectation, other_outputs=others, constants=constants)


def _mean(tensor: torch.Tensor) -> float:
    values = tensor.real if tensor.is_complex() else tensor
    finite = values.double().nan_to_num(posinf=0.0, neginf=0.0)
    return float(finite.mean()) if finite.numel() else 0.0


def _first_refusal(impostor: Impostor, asked: list[_Asked]) -> tuple[Bench, Case] | None:
    for bench, case, question in asked:
        outputs = impostor.answer(question)
        if outputs is None or outputs_refused(case, outputs):
            return bench, case
    return None


def _leaves_as_is(impostor: Impostor, asked: list[_Asked]) -> bool:
    return all(same_bits(impostor.answer(question), question.right) for _, _, question in asked)


def _keeps_form(bench: Bench, case: Case, mutant: Mutant) -> bool:
    """Whether it runs where it was thought of, and gives the shapes and dtypes asked for."""
    try:
        failed = refusal(case, bench.run(case, mode=Mutation(mutant)))
    except (ProblemError, Foreign):
        return False
    return failed is None or failed.finding not in FORM


def _passes(bench: Bench, case: Case, mutant: Mutant) -> bool:
    try:
        return refusal(case, bench.run(case, mode=Mutation(mutant))) is None
    except (ProblemError, Foreign):
        return False


def _ever_changes(mutant: Mutant, *courts: Court) -> bool:
    """Whether the mistake gives another value anywhere; asked of survivors only."""
    for court in courts:
        for bench, case in court.cases():
            mutation = Mutation(mutant, compare=True)
            bench.run(case, mode=mutation)
            if mutation.changed:
                return True
    return False


def _refuses_original(court: Court) -> str:
    """Name of a case in which the original itself would not pass a second time."""
    return next((case.name for bench, case in court.cases() if refusal(case, bench.run(case)) is not None), "")


def _assay_verifier(spec: ProblemSpec, on_progress: OnProgress | None) -> WorthReport:
    """Impostors only: there is no original to make mutants of, and no remedies."""
    reference = load(spec)
    cases = make_verifier_trial(reference, "as given").cases
    shown = []
    for case in cases:
        inputs = case.expectation.packed_inputs.unpack()
        others = draw(reference, case.distribution, secret_seed())
        shown.append((case, verifier_attempts(inputs, others)))
    names = [what for what, _ in shown[0][1]]
    attempts, raised = [], 0
    for i, what in enumerate(names):
        accepted, stumbled = True, False
        for case, answers in shown:
            assert case.verify is not None
            try:
                accepted = case.verify(case.expectation.packed_inputs, answers[i][1])
            except ProblemError:
                accepted, stumbled = False, True
            if not accepted:
                break
        raised += stumbled
        killed_by = "" if accepted else VERIFIER_REFUSED
        attempts.append(
            Attempt(
                family=Family.IMPOSTOR, what=what, survives_as_given=accepted, survives=accepted, killed_by=killed_by
            )
        )
        if on_progress is not None:
            on_progress(i + 1, len(names))
    note = f"verify() raised on {raised} of {len(names)} attempts, which counts as a refusal"
    return WorthReport(
        name=spec.name,
        digest=spec.digest,
        attempts=tuple(attempts),
        cases_as_given=len(cases),
        cases=len(cases),
        notes=(note,) if raised else (),
    )

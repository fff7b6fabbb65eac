"""Shipped files for tests, made from kernels that the real evaluator has judged."""

from __future__ import annotations

import datetime
import functools
from pathlib import Path
from typing import Any

from tests import verdicts

from triton_agent.runs.ship import call_form
from triton_agent.runs.ship.artefact import ship
from triton_agent.runs.ship.facts import CallForm, ShippedFacts
from triton_agent.runs.ship.plan_file import plans_of
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Evaluation
from triton_agent.tools.settings import EvaluatorSettings

KERNELS = Path(__file__).parents[1] / "kernels"
SETTINGS = EvaluatorSettings(target=None, shapes="given")


@functools.cache
def form_of(spec: ProblemSpec) -> CallForm:
    return call_form.find(spec)


@functools.cache
def judged(spec: ProblemSpec, source: str, nursery: Nursery) -> Evaluation:
    with Evaluator(spec, SETTINGS, nursery=nursery) as evaluator:
        return evaluator.evaluate(source)


@functools.cache
def plans(spec: ProblemSpec, source: str, nursery: Nursery) -> str:
    """Return the file of plans written from a kernel's tapes, which is what is shipped."""
    with Evaluator(spec, SETTINGS, nursery=nursery) as evaluator:
        return plans_of(evaluator, source)


def accepted(spec: ProblemSpec) -> Evaluation:
    """Return a made-up verdict, for tests that do not look at it."""
    case = verdicts.right(variant="ROWS=13", metric="max", error=1e-4, original_error=2e-4, limit=1e-3)
    return verdicts.passed(candidate="0" * 64, problem=spec.digest, accuracy=(case,))


UNKNOWN = CallForm(constructed=None, parameters=(), state=(), calls=())
"""Form of a call that no guard recognises; saves the process that would find the form."""


def facts(
    spec: ProblemSpec, evaluation: Evaluation | None = None, *, form: CallForm | None = None, **more: Any
) -> ShippedFacts:
    return ShippedFacts(
        call=form or form_of(spec),
        evaluation=evaluation or accepted(spec),
        run="20260131-154500-3fa9c1",
        date=datetime.date(2026, 1, 31),
        version="0.1.0",
        **more,
    )


def problem(folder: str) -> ProblemSpec:
    return parse_problem(str(KERNELS / folder / "problem.py"))


def kernel(folder: str, name: str) -> str:
    return (KERNELS / folder / name).read_text()


def draft(spec: ProblemSpec, source: str, nursery: Nursery) -> str:
    """Return the draft that is shipped for a kernel."""
    return ship(spec, plans(spec, source, nursery), facts(spec), draft=True)

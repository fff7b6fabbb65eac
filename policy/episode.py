"""An episode, step by step: what an author is shown, and what becomes of its answer.

The agent's graph and the trainer's rollouts both go through these two functions, so what a policy meets in training is
what it meets at work. `observe` is pure; `step` turns one answer into an attempt and, through the evaluator, a grading.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Protocol

from triton_agent.memory.observation import BudgetLeft, Lesson, Observation, ProblemView, Role, Rules, Tried
from triton_agent.memory.records import Attempt, Completion, Grading, InstrumentFailure, Machine
from triton_agent.policy.answer import read_answer
from triton_agent.policy.ranking import Standing, standing
from triton_agent.tools.candidate.identity import candidate_id
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.results import GRADER, Environment, Evaluation, Finding, Status, Timing

INCUMBENTS_SHOWN = 3
TRIED_SHOWN = 32
"""The latest ones, each in short; what matters of older ones is in the incumbents and in what memory recalls."""
PLAN_CHARACTERS = 400
MESSAGE_CHARACTERS = 1200
"""Findings are condensed already; this is for the rare one that is not."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """An attempt and what became of it."""

    attempt: Attempt
    grading: Grading
    standing: Standing = dataclasses.field(init=False, compare=False)
    """How it compares with others of the same run."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "standing", standing(self.grading.evaluation))

    @property
    def evaluation(self) -> Evaluation | None:
        return self.grading.evaluation


class Judge(Protocol):
    """What an episode needs of an evaluator."""

    async def evaluate_async(self, source: str, on_stage: Callable[[str], None] | None = None) -> Evaluation:
        """The verdict on one candidate; raises InstrumentError where none could be reached."""


def observe(
    problem: ProblemView,
    rules: Rules,
    history: Sequence[Graded],
    budget: BudgetLeft,
    *,
    turn: int,
    attempts_before: int,
    seed: int,
    parent: str | None = None,
    recalled: Sequence[Lesson] = (),
) -> Observation:
    """What the author of the next answer is shown; `parent` is the key of the attempt to set out from."""
    shown = _roles(history, parent)
    tried = tuple(_condensed(item, shown[item.attempt.key]) for item in history if item.attempt.key in shown)
    return Observation(
        problem=problem,
        rules=rules,
        turn=turn,
        attempts_before=attempts_before,
        seed=seed,
        budget=budget,
        tried=tried,
        recalled=tuple(recalled),
    )


def _roles(history: Sequence[Graded], parent: str | None) -> dict[str, Role]:
    """Who is shown, and as what: the strongest reason counts."""
    roles = {item.attempt.key: Role.TRIED for item in history[-TRIED_SHOWN:]}
    best = sorted((item for item in history if item.standing.passed), key=lambda item: item.standing, reverse=True)
    if len(best) > INCUMBENTS_SHOWN:
        roles[best[-1].attempt.key] = Role.CONTRAST
    roles |= {item.attempt.key: Role.INCUMBENT for item in best[:INCUMBENTS_SHOWN]}
    if parent is not None:
        roles[parent] = Role.PARENT
    return roles


def _condensed(item: Graded, role: Role) -> Tried:
    attempt, evaluation, failure = item.attempt, item.grading.evaluation, item.grading.failure
    device, latency = _against_original(evaluation, "device"), _against_original(evaluation, "latency")
    return Tried(
        attempt=attempt.key,
        turn=attempt.turn,
        role=role,
        status=evaluation.status if evaluation else None,
        finding=evaluation.finding if evaluation else None,
        message=(evaluation.message if evaluation else failure.what if failure else "")[:MESSAGE_CHARACTERS],
        plan=attempt.plan[:PLAN_CHARACTERS],
        source=(attempt.source or "") if role is not Role.TRIED else "",
        speedup=device.speedup if device else None,
        device_ms=device.candidate_ms.median if device else None,
        latency_ms=latency.candidate_ms.median if latency else None,
        diagnosis=evaluation.diagnosis if evaluation and role is not Role.TRIED else None,
        resources=evaluation.resources if evaluation and role is not Role.TRIED else (),
    )


def _against_original(evaluation: Evaluation | None, kind: str) -> Timing | None:
    return evaluation.timing("eager", kind) if evaluation else None


def predecessor(history: Sequence[Graded], *, turn: int, index: int) -> str | None:
    """The same author's answer of the turn before: what a chain of turns without search sets out from."""
    found = (item.attempt for item in history if (item.attempt.turn, item.attempt.index) == (turn - 1, index))
    return next((attempt.key for attempt in found), None)


def make_attempt(
    run: str, observation: Observation, completion: Completion, *, index: int, parent: str | None
) -> Attempt:
    """One answer as an attempt, before anybody has judged it."""
    answer = read_answer(completion.text)
    return Attempt(
        run=run,
        turn=observation.turn,
        index=index,
        parent=parent,
        observation=observation,
        completion=completion,
        plan=answer.plan,
        source=answer.source,
        created_at=datetime.datetime.now(datetime.UTC),
    )


async def grade(
    attempt: Attempt, judge: Judge, machine: Machine, on_stage: Callable[[str], None] | None = None
) -> Grading:
    """What becomes of an attempt. An instrument's failure is kept as such, never taken for the author's."""
    evaluation, failure = None, None
    if attempt.source is None:
        completion = attempt.completion
        cut = completion.finish_reason == "length"
        evaluation = no_answer(completion.text, attempt.observation.problem.digest, cut=cut)
    else:
        try:
            evaluation = await judge.evaluate_async(attempt.source, on_stage)
        except InstrumentError as error:
            failure = InstrumentFailure.of(error)
    return Grading(
        attempt=attempt.key,
        evaluation=evaluation,
        failure=failure,
        machine=machine,
        grader=GRADER,
        graded_at=datetime.datetime.now(datetime.UTC),
    )


async def step(
    run: str,
    observation: Observation,
    completion: Completion,
    judge: Judge,
    *,
    index: int = 0,
    parent: str | None = None,
    machine: Machine | None = None,
) -> Graded:
    """One answer, judged."""
    attempt = make_attempt(run, observation, completion, index=index, parent=parent)
    return Graded(attempt=attempt, grading=await grade(attempt, judge, machine or Machine()))


def no_answer(text: str, problem: str, *, cut: bool) -> Evaluation:
    """Return the verdict on an answer without a file; `cut` says that it ended at the limit of tokens."""
    complaint = read_answer(text).complaint
    if cut:
        complaint = f"{complaint} (it had reached the limit of tokens for an answer)"
    nowhere = Environment(
        mode="none", device="", python="", torch="", triton="", target=None, sandbox=(), grader=GRADER
    )
    return Evaluation(
        candidate=candidate_id(text),
        problem=problem,
        status=Status.NO_ANSWER,
        finding=Finding.NO_MODEL,
        message=complaint,
        environment=nowhere,
    )

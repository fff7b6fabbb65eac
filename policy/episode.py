"""One step of an episode: building an observation, and turning an answer into a graded attempt.

The agent's graph and the trainer's rollouts both use these functions, so a policy meets the same observations in
training and in use. `observe` is pure; `step` turns an answer into an attempt and has the evaluator grade it.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

from triton_agent.memory.observation import BudgetLeft, Lesson, Observation, ProblemView, Role, Rules, Task, Tried
from triton_agent.memory.records import Attempt, Completion, Grading, GradingMachine, InstrumentFailure
from triton_agent.policy.answer import NOTE, read_answer
from triton_agent.tools.candidate.identity import candidate_id
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.ranking import Standing, standing
from triton_agent.tools.results import GRADER, Environment, Evaluation, Finding, Status, Timing, asked_as

INCUMBENTS_SHOWN = 3
TRIED_SHOWN = 32
"""Latest attempts shown, each in short. Important older attempts are shown as incumbents and recalled lessons."""
PLAN_CHARACTERS = 400
MESSAGE_CHARACTERS = 1200
"""Most messages are shorter; this cuts the exceptions."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """An attempt with one grading."""

    attempt: Attempt
    grading: Grading
    standing: Standing = dataclasses.field(init=False, compare=False)
    """Rank of the attempt within its run."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "standing", standing(self.grading.evaluation))

    @property
    def evaluation(self) -> Evaluation | None:
        return self.grading.evaluation


class Judge(Protocol):
    """The part of an evaluator that an episode needs."""

    async def evaluate_async(self, source: str, on_stage: Callable[[str], None] | None = None) -> Evaluation:
        """Evaluate one candidate; raise InstrumentError if the evaluation cannot be made."""


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
    task: Task = Task.ANY,
    partner: str | None = None,
) -> Observation:
    """Build the observation for the next answer. `parent` is the key of the attempt to build on, `partner` the key of
    an attempt to combine with it.
    """
    shown = _roles(history, parent, partner)
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
        task=task,
        partner=partner or "",
    )


def _roles(history: Sequence[Graded], parent: str | None, partner: str | None) -> dict[str, Role]:
    """Choose the attempts that are shown. An attempt with several roles gets the most important one."""
    roles = {item.attempt.key: Role.TRIED for item in history[-TRIED_SHOWN:]}
    best = sorted((item for item in history if item.standing.passed), key=lambda item: item.standing, reverse=True)
    if len(best) > INCUMBENTS_SHOWN:
        roles[best[-1].attempt.key] = Role.CONTRAST
    roles |= {item.attempt.key: Role.INCUMBENT for item in best[:INCUMBENTS_SHOWN]}
    if partner is not None:
        roles[partner] = Role.INCUMBENT
    if parent is not None:
        roles[parent] = Role.PARENT
    return roles


def _condensed(item: Graded, role: Role) -> Tried:
    attempt, evaluation, failure = item.attempt, item.grading.evaluation, item.grading.failure
    device, latency = _against_reference(evaluation, "device"), _against_reference(evaluation, "latency")
    return Tried(
        attempt=attempt.key,
        turn=attempt.turn,
        role=role,
        status=evaluation.status if evaluation else None,
        finding=evaluation.finding if evaluation else None,
        message=(evaluation.message if evaluation else failure.what if failure else "")[:MESSAGE_CHARACTERS],
        right_at=_right_at(evaluation) if evaluation and evaluation.finding and role is not Role.TRIED else (),
        plan=_shortened(attempt.plan),
        source=(attempt.source or "") if role is not Role.TRIED else "",
        speedup=device.speedup if device else None,
        device_ms=device.candidate_ms.median if device else None,
        latency_ms=latency.candidate_ms.median if latency else None,
        baselines_ms=_baselines_ms(evaluation),
        diagnosis=evaluation.diagnosis if evaluation and role is not Role.TRIED else None,
        resources=evaluation.resources if evaluation and role is not Role.TRIED else (),
    )


def _shortened(plan: str) -> str:
    """Cut the words of a long plan, but not the note of what the built-in author decided: by it, it knows its files."""
    if len(plan) <= PLAN_CHARACTERS:
        return plan
    return "\n".join([NOTE.sub("", plan)[:PLAN_CHARACTERS], *NOTE.findall(plan)[-1:]])


def _right_at(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the variants at which every case was right."""
    wrong = {case.variant for case in evaluation.accuracy if not case.ok}
    return tuple(dict.fromkeys(case.variant for case in evaluation.accuracy if case.variant not in wrong))


def _baselines_ms(evaluation: Evaluation | None) -> dict[str, float]:
    """Return the device time of each baseline, taken over all sets of inputs."""
    timed = [timing for timing in evaluation.timings if timing.kind == "device"] if evaluation else []
    return {asked_as(timing.baseline): timing.baseline_ms.median for timing in timed if not timing.input_set}


def _against_reference(evaluation: Evaluation | None, kind: str) -> Timing | None:
    return evaluation.timing("eager", kind) if evaluation else None


def trajectory_seed(run: str, seed: int) -> int:
    """Return the seed of a run's observations. Different runs with one seed get different answers; a resumed run
    repeats its own.
    """
    return int.from_bytes(hashlib.sha256(f"{seed}/{run}".encode()).digest()[:4]) >> 1


def predecessor(history: Sequence[Graded], *, turn: int, index: int) -> str | None:
    """Return the previous turn's attempt with this index: the parent in a chain without search."""
    found = (item.attempt for item in history if (item.attempt.turn, item.attempt.index) == (turn - 1, index))
    return next((attempt.key for attempt in found), None)


def make_attempt(
    run: str, observation: Observation, completion: Completion, *, index: int, parent: str | None
) -> Attempt:
    """Make an attempt from an answer that has not been judged."""
    answer = read_answer(completion.whole)
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
    attempt: Attempt, judge: Judge, machine: GradingMachine, on_stage: Callable[[str], None] | None = None
) -> Grading:
    """Grade an attempt. An instrument failure is stored as a failure and never counts against the author."""
    evaluation, failure = None, None
    if attempt.source is None:
        completion = attempt.completion
        cut = completion.finish_reason == "length"
        evaluation = no_answer(completion.whole, attempt.observation.problem.digest, cut=cut)
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
    machine: GradingMachine | None = None,
) -> Graded:
    """Make an attempt from an answer and grade it."""
    attempt = make_attempt(run, observation, completion, index=index, parent=parent)
    return Graded(attempt=attempt, grading=await grade(attempt, judge, machine or GradingMachine()))


def no_answer(text: str, problem: str, *, cut: bool) -> Evaluation:
    """Return the verdict on an answer without a file. `cut` is True if the answer ended at the token limit."""
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

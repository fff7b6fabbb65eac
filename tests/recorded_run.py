"""A small run as an author of kernels leaves it: real candidates of the examples, judged by the real evaluator.

Four turns: torch in disguise, a kernel in half precision, an answer without a file, a right kernel from the second.
Judged once for all tests. Where a test needs times, which take a GPU, `timed` adds a measurement that was made up.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from pathlib import Path
from typing import Any

from tests import verdicts
from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Role, Rules, Tried
from triton_agent.memory.records import Attempt, Completion, Event, Grading, GradingMachine, Message, Run, RunEnd, Usage
from triton_agent.policy.episode import no_answer
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import GRADER, Evaluation
from triton_agent.tools.settings import EvaluatorSettings

EXAMPLES = Path(__file__).parents[1] / "examples"
PROBLEM = Path(__file__).parent / "kernels" / "softmax_f32" / "problem.py"
SETTINGS = EvaluatorSettings(target=None, shapes="given", modes=("eval",))
BEGAN = datetime.datetime(2026, 1, 31, 15, 45, tzinfo=datetime.UTC)
RUN = "20260131-154500-3fa9c1"
ANSWERS = ("softmax_torch.py", "softmax_half.py", None, "softmax_online.py")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """All records of one run."""

    run: Run
    attempts: tuple[Attempt, ...]
    gradings: tuple[Grading, ...]
    events: tuple[Event, ...]
    end: RunEnd | None

    def renamed(self, run: str, **changes: Any) -> Recorded:
        """The same under another id, as if it had been made again."""
        keys = {attempt.key: f"{run}/{attempt.turn}.{attempt.index}" for attempt in self.attempts}
        attempts = (dataclasses.replace(one, run=run, parent=keys.get(one.parent or "")) for one in self.attempts)
        end = self.end and dataclasses.replace(self.end, run=run, best=keys.get(self.end.best or ""))
        return Recorded(
            run=dataclasses.replace(self.run, id=run, **changes),
            attempts=tuple(attempts),
            gradings=tuple(dataclasses.replace(one, attempt=keys[one.attempt]) for one in self.gradings),
            events=tuple(dataclasses.replace(one, run=run) for one in self.events),
            end=end,
        )

    def timed(self, **speedups: float) -> Recorded:
        """With times for attempts that passed: `timed(a3_0=1.5)` makes 3.0 half as fast again as the reference."""
        wanted = {f"{self.run.id}/{name[1:].replace('_', '.')}": ratio for name, ratio in speedups.items()}
        gradings = (
            dataclasses.replace(one, evaluation=_with_time(one.evaluation, wanted[one.attempt]))
            if one.attempt in wanted and one.evaluation is not None
            else one
            for one in self.gradings
        )
        return dataclasses.replace(self, gradings=tuple(gradings))

    def into(self, store: Any) -> Recorded:
        """Added to a store, in the order in which it happened."""
        store.add_run(self.run)
        for attempt in self.attempts:
            store.add_attempt(attempt, next((one for one in self.gradings if one.attempt == attempt.key), None))
        for event in self.events:
            store.add_event(event)
        if self.end is not None:
            store.end_run(self.end)
        return self


def _with_time(verdict: Evaluation, ratio: float) -> Evaluation:
    return dataclasses.replace(verdict, timings=(verdicts.timing(ratio, spread=0.01, original_ms=0.5),))


@functools.lru_cache(maxsize=1)
def recorded(nursery: Nursery) -> Recorded:
    """The run; judged on the first call."""
    spec = parse_problem(str(PROBLEM))
    with Evaluator(spec, SETTINGS, nursery=nursery) as evaluator:
        view = ProblemView.of(spec, evaluator.facts)
        attempts, gradings = [], []
        for turn, answer in enumerate(ANSWERS):
            attempt = _attempt(turn, answer, view, attempts, gradings)
            answer = attempt.completion.text, attempt.observation.problem.digest
            verdict = no_answer(*answer, cut=False) if attempt.source is None else evaluator.evaluate(attempt.source)
            attempts.append(attempt)
            at = attempt.created_at + datetime.timedelta(seconds=2, microseconds=125)
            machine = GradingMachine(gpu="", commit="0123abcd", seed=7)
            gradings.append(
                Grading(attempt=attempt.key, evaluation=verdict, machine=machine, grader=GRADER, graded_at=at)
            )
    events = tuple(Event(run=RUN, kind="turn", at=one.created_at, data={"turn": one.turn}) for one in attempts)
    settings = {"problem": str(PROBLEM), "turns": 4, "timeout_s": 120.0, "shapes": "given", "policy": "scripted"}
    end = RunEnd(run=RUN, stop_reason="turns", best=attempts[3].key, ended_at=BEGAN + datetime.timedelta(minutes=1))
    return Recorded(
        run=Run(id=RUN, problem=view, policy="scripted", settings=settings, started_at=BEGAN, commit="0123abcd"),
        attempts=tuple(attempts),
        gradings=tuple(gradings),
        events=events,
        end=end,
    )


def _attempt(
    turn: int, answer: str | None, view: ProblemView, before: list[Attempt], gradings: list[Grading]
) -> Attempt:
    """An answer as a language model gives it, with tokens; the last set out from the second."""
    parent = before[1] if turn == 3 else None
    source = None if answer is None else (EXAMPLES / answer).read_text()
    text = "I do not know." if source is None else f"A plan for turn {turn}.\n\n```python\n{source}```\n"
    tokens = tuple(text.encode()[:40])
    said = Completion(
        text=text,
        policy="scripted",
        policy_version="1",
        messages=(
            Message(role="system", content="You write Triton kernels."),
            Message(role="user", content=f"Make this faster, turn {turn}:\n{view.source}"),
        ),
        prompt_ids=(1, 2, 3),
        token_ids=tokens,
        log_probabilities=tuple(-0.25 - token / 1000 for token in tokens),
        mask=tuple(token % 7 != 0 for token in tokens),
        usage=Usage(prompt_tokens=3, completion_tokens=len(tokens), wall_s=0.5),
    )
    seen = Observation(
        problem=view,
        rules=Rules(target="cuda:90"),
        turn=turn,
        attempts_before=turn,
        seed=100 + turn,
        budget=BudgetLeft(turns=4 - turn),
        tried=tuple(_tried(one, grading, parent) for one, grading in zip(before, gradings)),
    )
    return Attempt(
        run=RUN,
        turn=turn,
        index=0,
        parent=parent.key if parent else None,
        observation=seen,
        completion=said,
        plan="" if source is None else f"A plan for turn {turn}.",
        source=source,
        created_at=BEGAN + datetime.timedelta(seconds=10 * turn, microseconds=turn),
    )


def _tried(attempt: Attempt, grading: Grading, parent: Attempt | None) -> Tried:
    verdict = grading.evaluation
    assert verdict is not None
    role = Role.PARENT if parent is not None and attempt.key == parent.key else Role.TRIED
    about = {"status": verdict.status, "finding": verdict.finding, "message": verdict.message}
    source = attempt.source or "" if role is Role.PARENT else ""
    return Tried(attempt=attempt.key, turn=attempt.turn, role=role, plan=attempt.plan, source=source, **about)

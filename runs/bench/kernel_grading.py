"""Grades kernels from files: attempts and verdicts go into the store like those of any run, without a search."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Sequence
from typing import Any

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.settings import StopReason
from triton_agent.memory.observation import BudgetLeft
from triton_agent.memory.records import Attempt, Completion, GradingMachine, attempt_key
from triton_agent.policy.answer import write_answer
from triton_agent.policy.episode import Graded, Judge, grade, observe
from triton_agent.runs.bench.kernels import KernelFile, as_candidate
from triton_agent.runs.bench.outcomes import sample_of
from triton_agent.runs.bench.problems import Task
from triton_agent.runs.bench.rows import Sample
from triton_agent.runs.bench.settings import BenchSettings

PLAN = "A kernel from a file."
TRIES = 2
"""Evaluations of one file; most instrument failures do not happen twice."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileGrader:
    """Grades all files of one problem, in one run of the store."""

    settings: BenchSettings
    ledger: Ledger
    judge: Judge
    machine: GradingMachine
    tell: Callable[[dict[str, Any]], None]
    """Called at each stage, from any thread, with an event."""

    async def sample(self, task: Task, index: int, file: KernelFile) -> Sample:
        """Return the verdict on one file."""
        began = time.monotonic()
        attempt = self._attempt(task, index, file)

        def on_stage(stage: str) -> None:
            self.tell({"kind": "stage", "key": attempt.key, "stage": stage})

        await self.ledger.add_attempts([attempt])
        for _ in range(TRIES):
            grading = await grade(attempt, self.judge, self.machine, on_stage)
            if grading.failure is None:
                break
        await self.ledger.add_grading(grading)
        history = [Graded(attempt=attempt, grading=grading)]
        sample = sample_of(index, history, run=self.ledger.run.id, seconds=time.monotonic() - began)
        return dataclasses.replace(sample, kernel=file.name)

    async def end(self, samples: Sequence[Sample]) -> None:
        """End the run after all files have been graded."""
        run = self.ledger.run.id
        best = next((attempt_key(run, 0, sample.index) for sample in samples if sample.executed), None)
        await self.ledger.end(StopReason.POLICY_DONE, best, {})

    def _attempt(self, task: Task, index: int, file: KernelFile) -> Attempt:
        run = self.ledger.run
        is_operator = task.origin is not None and not task.origin.is_problem_file
        source = as_candidate(file.text, run.problem.source) if is_operator else file.text
        seen = observe(
            run.problem,
            self.settings.rules,
            (),
            BudgetLeft(turns=1),
            turn=0,
            attempts_before=index,
            seed=self.settings.seed,
        )
        text, version = write_answer(PLAN, source), self.settings.policy_version
        return Attempt(
            run=run.id,
            turn=0,
            index=index,
            parent=None,
            observation=seen,
            completion=Completion(text=text, policy=self.settings.policy, policy_version=version),
            plan=PLAN,
            source=source,
            created_at=datetime.datetime.now(datetime.UTC),
        )

"""Runs a benchmark: every problem that is due, one after another, each a row on disk before the next.

A problem goes through what any run goes through: the evaluator, the loop with its policies, the store. Nothing of
earlier runs is recalled, or samples would not be independent, and a second benchmark would read the answers of the
first. A problem that cannot be used, and an instrument that failed, are rows too; only the latter are asked again when
the benchmark goes on. Kernels by someone else are judged as they are, without a loop.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from triton_agent.agent.authors import FAILED
from triton_agent.agent.ledger import Ledger
from triton_agent.agent.loop import Loop
from triton_agent.agent.settings import GO_ON, MEANS, LoopSettings, StopReason
from triton_agent.memory.errors import StoreError
from triton_agent.memory.observation import ProblemView
from triton_agent.memory.records import Machine, Run, new_run_id
from triton_agent.memory.store import Store
from triton_agent.policy.protocol import Policy
from triton_agent.runs.bench.baselines import Baselines
from triton_agent.runs.bench.journal import Journal
from triton_agent.runs.bench.kernel_grading import FileGrader
from triton_agent.runs.bench.kernels import KernelFile, KernelFolder
from triton_agent.runs.bench.outcomes import first_line, sample_of
from triton_agent.runs.bench.problems import Task
from triton_agent.runs.bench.public_protocol import PublicProtocol
from triton_agent.runs.bench.rows import ProblemRow, Sample, Where
from triton_agent.runs.bench.settings import BenchSettings
from triton_agent.tools.errors import InstrumentError, NotJudgeableHere, UsageError
from triton_agent.tools.evaluator import Evaluator
from triton_agent.tools.isolate.processes import Nursery
from triton_agent.tools.problem import ProblemSpec
from triton_agent.tools.results import Status
from triton_agent.tools.versions import project_version

PROBLEMS = "problems"
"""Folder for problem files that have to be written."""
FRUITLESS = 5
"""Problems in a row for which nothing could be measured, after which the instrument is what is broken."""


class Watcher(Protocol):
    """Whoever is told how it goes."""

    def begin(self, task: Task, done: int, total: int) -> None: ...
    def event(self, event: dict[str, Any]) -> None:
        """From any thread."""

    def finished(self, row: ProblemRow) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Everything a benchmark runs with."""

    settings: BenchSettings
    policies: Sequence[Policy]
    kernels: KernelFolder | None
    """In place of policies."""
    store: Store
    journal: Journal
    nursery: Nursery
    where: Where
    machine: Machine
    watcher: Watcher
    public: PublicProtocol | None
    """The public benchmark's own check, where that is told as well."""
    baselines: Callable[[ProblemSpec], Baselines]
    """What is known of a problem's baselines on this machine; nothing without a GPU."""

    async def run(self, tasks: Sequence[Task]) -> None:
        """Every task that has no finished row. Raises `InstrumentError` where several in a row bring nothing."""
        missing = set(self.journal.record().missing)
        fruitless = 0
        for number, task in enumerate(tasks):
            if task.label not in missing:
                continue
            self.watcher.begin(task, number, len(tasks))
            row = await self._problem(task)
            self.journal.add(row)
            self.watcher.finished(row)
            fruitless = fruitless + 1 if self._brought_nothing(row) else 0
            if fruitless == FRUITLESS:
                raise InstrumentError(
                    f"nothing could be measured of {FRUITLESS} problems in a row; {row.label}: {_complaint(row)}",
                    remedy="see `triton-agent doctor`; the same command goes on from here",
                )

    def _brought_nothing(self, row: ProblemRow) -> bool:
        """For want of an instrument; that a kernel cannot be judged without a GPU is the kernel's way."""
        judged_here = self.settings.device == "cuda" or not any(sample.unmeasured for sample in row.samples)
        return not row.measured and judged_here

    async def _problem(self, task: Task) -> ProblemRow:
        began = time.monotonic()
        row = ProblemRow(
            label=task.label,
            group=task.group,
            digest=task.sha256,
            policy=self.settings.policy,
            policy_version=self.settings.policy_version,
            mode=self.settings.mode,
            where=self.where,
            dominant=task.dominant,
            dtype=task.dtype,
        )
        try:
            row = await self._judged(task, row)
        except (UsageError, StoreError, OSError):
            raise  # of the request or the machine: the next problem would meet it as well
        except Exception as error:  # the edge of a rollout: one problem must not end a benchmark
            self.journal.keep_story(task.label, error)
            row = dataclasses.replace(row, samples=self._unmeasured(task, f"a bug of ours: {_last_line(error)}"))
        return dataclasses.replace(row, seconds=round(time.monotonic() - began, 3))

    async def _judged(self, task: Task, row: ProblemRow) -> ProblemRow:
        """The row with its samples, or with the reason why there are none."""
        if task.unusable:
            return dataclasses.replace(row, unusable=task.unusable)
        if task.needs_gpu and self.settings.device == "cpu":
            return dataclasses.replace(
                row, unusable="its original launches Triton kernels, which needs a GPU", needs_gpu=True
            )
        try:
            spec = task.spec(self.journal.folder / PROBLEMS)
            known = self.baselines(spec)
            row = dataclasses.replace(row, digest=spec.digest, baselines=known.times)
            judging = self.settings.judging()
            evaluator = await asyncio.to_thread(Evaluator, spec, judging, nursery=self.nursery)
        except (UsageError, NotJudgeableHere) as error:
            reason = first_line(error.what)
            wants_gpu = isinstance(error, NotJudgeableHere) and self.settings.device == "cpu"
            return dataclasses.replace(row, unusable=reason, needs_gpu=wants_gpu)
        except InstrumentError as error:
            return dataclasses.replace(row, samples=self._unmeasured(task, first_line(error.what)))
        with evaluator:
            facts = evaluator.facts
            notes = (*filter(None, (facts.scaled, known.failure)), *facts.notes, *known.notes)
            samples = await self._samples(task, spec, evaluator)
        return dataclasses.replace(row, samples=samples, notes=notes)

    def _unmeasured(self, task: Task, reason: str) -> tuple[Sample, ...]:
        count = len(self.kernels.of(task)) if self.kernels else self.settings.samples
        return tuple(Sample(index=index, not_measured=reason) for index in range(max(1, count)))

    async def _samples(self, task: Task, spec: ProblemSpec, evaluator: Evaluator) -> tuple[Sample, ...]:
        if self.kernels is not None:
            return await self._judge_files(task, spec, evaluator, self.kernels)
        known = {sample.index: sample for sample in self._samples_before(task) if sample.status is not None}
        for index in range(self.settings.samples):
            if index not in known:
                known[index] = await self._go(task, spec, evaluator, index)
        return tuple(known[index] for index in range(self.settings.samples))

    def _samples_before(self, task: Task) -> tuple[Sample, ...]:
        """Of a row that has something left to be measured."""
        rows = self.journal.record().rows
        return next((row.samples for row in rows if row.label == task.label), ())

    # -- a policy --------------------------------------------------------------------------------------------------

    async def _go(self, task: Task, spec: ProblemSpec, evaluator: Evaluator, index: int) -> Sample:
        """One run of the loop; one that was interrupted goes on where it was."""
        began = time.monotonic()
        ledger = self._ledger(task, spec, evaluator, index)
        run = ledger.run.id
        if self._is_open(run):
            loop = Loop(ledger, self.policies, [evaluator], self.settings.loop(index), machine=self.machine)
            async for event in loop.events():
                self.watcher.event(event)
        end = self.store.end(run)
        why = StopReason(end.stop_reason) if end else StopReason.INTERRUPTED
        sample = sample_of(
            index,
            ledger.history(),
            run=run,
            seconds=time.monotonic() - began,
            ended=_in_words(why, ledger),
            cut_short=why in GO_ON,
        )
        return await self._with_public_check(
            spec, sample, ledger.attempt(sample.kernel).source if sample.kernel else None
        )

    def _is_open(self, run: str) -> bool:
        """It was killed, or its policy could not be reached: there is something left to be said."""
        end = self.store.end(run)
        return end is None or end.stop_reason in (StopReason.INTERRUPTED, StopReason.POLICY_FAILED)

    async def _with_public_check(self, spec: ProblemSpec, sample: Sample, source: str | None) -> Sample:
        """The same sample; nothing rests on that check, so where it fails it is missing."""
        if self.public is None or source is None:
            return sample
        try:
            return dataclasses.replace(sample, public=await self.public.check(spec, source))
        except InstrumentError as error:
            self.journal.keep_story(f"sample {sample.kernel}", error)
            return sample

    def _ledger(self, task: Task, spec: ProblemSpec, evaluator: Evaluator, index: int) -> Ledger:
        """The sample's run; a new one where the last brought no verdict."""
        run = self.journal.begun(task.label).get(index)
        fruitless = {sample.run for sample in self._samples_before(task) if sample.status is None}
        if run is not None and (self._is_open(run) or run not in fruitless):
            return Ledger.take_up(self.store, run)
        ledger = Ledger.begin(self.store, self._run(spec, evaluator, self.settings.loop(index)))
        self.journal.begin(task.label, index, ledger.run.id)
        return ledger

    def _run(self, spec: ProblemSpec, evaluator: Evaluator, loop: LoopSettings) -> Run:
        now = datetime.datetime.now(datetime.UTC)
        return Run(
            id=new_run_id(now, secrets.token_hex(8)),
            problem=ProblemView.of(spec, evaluator.facts, Path(spec.path).read_text(encoding="utf-8")),
            policy=self.settings.policy,
            settings=self.settings.to_json() | {"seed": loop.seed},
            started_at=now,
            commit=project_version(),
        )

    # -- kernels by someone else -----------------------------------------------------------------------------------

    async def _judge_files(
        self, task: Task, spec: ProblemSpec, evaluator: Evaluator, kernels: KernelFolder
    ) -> tuple[Sample, ...]:
        files = kernels.of(task)
        if not files:
            return (Sample(index=0, status=Status.NO_ANSWER, message="there is no kernel for it in the folder"),)
        ledger = Ledger.begin(self.store, self._run(spec, evaluator, self.settings.loop(0)))
        grader = FileGrader(
            settings=self.settings, ledger=ledger, judge=evaluator, machine=self.machine, tell=self.watcher.event
        )
        places = asyncio.Semaphore(self.settings.parallel)

        async def sample(index: int, file: KernelFile) -> Sample:
            async with places:
                judged = await grader.sample(task, index, file)
                return await self._with_public_check(spec, judged, file.text)

        samples = await asyncio.gather(*(sample(index, file) for index, file in enumerate(files)))
        await grader.end(samples)
        return tuple(samples)


def _in_words(why: StopReason, ledger: Ledger) -> str:
    """Why a run ended, with what its policy complained of last."""
    failed = ledger.noted(FAILED) if why is StopReason.POLICY_FAILED else []
    return f"{MEANS[why]}: {failed[-1].data['what']}" if failed else MEANS[why]


def _last_line(error: Exception) -> str:
    """Where a traceback of another process says what it was."""
    return ([line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__])[-1][:200]


def _complaint(row: ProblemRow) -> str:
    return next((sample.not_measured for sample in row.samples if sample.not_measured), "")

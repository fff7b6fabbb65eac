"""Runs a benchmark: judges every problem that is due, one at a time in each place, and writes a row for each.

A problem is judged as in any run: by the evaluator, the loop with its policies, and the store. Nothing is recalled from
earlier runs, because samples have to be independent, and a second benchmark would see the answers of the first. A
problem that cannot be used, and a failed instrument, are rows too; only the latter are judged again: at once if there
is another card, and when the benchmark is continued. Kernels of others are judged as they are, without a loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from triton_agent.agent.authors import FAILED
from triton_agent.agent.ledger import Ledger
from triton_agent.agent.loop import Loop
from triton_agent.agent.pool import Pool
from triton_agent.agent.settings import GO_ON, MEANS, LoopSettings, StopReason
from triton_agent.memory.errors import StoreError
from triton_agent.memory.observation import ProblemView
from triton_agent.memory.records import GradingMachine, Run, new_run_id
from triton_agent.memory.store import Store
from triton_agent.policy.protocol import Policy
from triton_agent.runs.bench.baselines.found import Baselines, from_races, with_baselines
from triton_agent.runs.bench.baselines.references import References
from triton_agent.runs.bench.journal import Journal
from triton_agent.runs.bench.kernel_grading import FileGrader
from triton_agent.runs.bench.kernels import KernelFile, KernelFolder
from triton_agent.runs.bench.outcomes import first_line, sample_of
from triton_agent.runs.bench.places import Place
from triton_agent.runs.bench.problems import Task
from triton_agent.runs.bench.public.protocol import PublicProtocol
from triton_agent.runs.bench.rows import ProblemRow, Sample, Where
from triton_agent.runs.bench.settings import BenchSettings
from triton_agent.tools.errors import InstrumentError, NotJudgeableHere, UsageError
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.race.baseline_names import COMPILED
from triton_agent.tools.results import Status
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.versions import project_version

PROBLEMS = "problems"
"""Folder for problem files that have to be written."""
FRUITLESS = 5
"""Consecutive problems without any measurement after which the benchmark stops with an instrument failure."""


class Watcher(Protocol):
    """Receives the progress of a benchmark."""

    def expect(self, due: int, total: int) -> None:
        """Note that `due` of all problems will be judged now."""

    def begin(self, task: Task, number: int) -> None: ...
    def event(self, event: dict[str, Any]) -> None:
        """Note an event of the problem with its `label`; called from any thread."""

    def finished(self, row: ProblemRow) -> None: ...
    def say(self, text: str) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Everything that a benchmark runs with."""

    settings: BenchSettings
    policies: Sequence[Policy]
    kernels: KernelFolder | None
    """Kernel files that are graded instead of policies."""
    store: Store
    journal: Journal
    places: Sequence[Place]
    """Places that judge one problem at a time each."""
    where: Where
    machine: GradingMachine
    watcher: Watcher
    references: References

    async def run(self, tasks: Sequence[Task], *, baselines_again: bool = False) -> None:
        """Judge every task that has no finished row, and measure baselines that no race has timed meanwhile.

        Raise `InstrumentError` if several in a row cannot be measured.
        """
        record = self.journal.record()
        missing = set(record.missing)
        self.watcher.expect(sum(task.label in missing for task in tasks), len(tasks))
        known = {} if baselines_again else self.journal.baselines()
        limit_s = self.settings.compile_limit_s
        self.references.found.update({label: found for label, found in known.items() if found.settles(limit_s)})
        known_rows = {row.label: row for row in record.rows}
        for task in tasks:
            if task.label not in missing:
                self._ask_for_missing(task, known_rows[task.label], again=baselines_again)
        measuring = asyncio.create_task(self.references.measure(self._keep_baselines))
        try:
            await self._run_problems(tasks, missing)
            self.references.ask_no_more()
            await measuring
        finally:
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)

    def _ask_for_missing(self, task: Task, row: ProblemRow, *, again: bool = False) -> None:
        """Let the baselines be measured that no race has timed; with `again`, those as well."""
        if not row.unusable and task.label not in self.references.found and (again or not from_races(row)):
            self.references.ask_for(task)

    def _keep_baselines(self, task: Task, found: Baselines) -> None:
        """Keep the baselines; a row that exists already is written again with them."""
        self.journal.keep_baselines(task.label, found)
        row = next((row for row in self.journal.record().rows if row.label == task.label), None)
        if row is not None:
            self.journal.add(with_baselines(row, found))

    async def _run_problems(self, tasks: Sequence[Task], missing: set[str]) -> None:
        due = ((number, task) for number, task in enumerate(tasks) if task.label in missing)
        pool, fruitless = Pool(self.places), 0
        for_later: list[tuple[int, Task]] = []

        def finished(task: Task, row: ProblemRow) -> None:
            self._ask_for_missing(task, row)
            self.watcher.finished(row)

        async def one_after_another() -> None:
            nonlocal fruitless
            for number, task in due:
                self.watcher.begin(task, number)
                row = await self._judge_in_a_place(task, pool)
                failed = self._instrument_failure(row)
                if failed and len(self.places) > 1:  # others beside it may be why, by the memory that they hold
                    for_later.append((number, task))
                    self.watcher.say(f"{failed}; it is tried again alone, after the others")
                else:
                    finished(task, row)
                fruitless = fruitless + 1 if failed else 0
                if fruitless >= FRUITLESS:
                    raise InstrumentError(
                        f"nothing could be measured of {FRUITLESS} problems in a row; {failed}",
                        remedy="see `triton-agent doctor`; the same command continues from here",
                    )

        await side_by_side(one_after_another, len(self.places))
        for number, task in for_later:
            self.watcher.begin(task, number)
            finished(task, await self._judge_in_a_place(task, pool))

    async def _judge_in_a_place(self, task: Task, pool: Pool[Place]) -> ProblemRow:
        """Judge the task in a free place; if that place fails, in another one."""

        async def at(place: Place) -> ProblemRow:
            row = await self._problem(task, place)
            if timed := from_races(row):
                row = dataclasses.replace(row, baselines=timed)
            else:
                row = with_baselines(row, self.references.found.get(task.label))
            self.journal.add(row)
            return row

        async def left_out(place: Place, what: str) -> None:
            others = len(pool.members)
            self.watcher.say(f"{place.name} failed where another did not, and is left out: {what}; {others} go on")

        return await pool.tried(at, self._instrument_failure, at_once=len(pool.members), left_out=left_out)

    def _instrument_failure(self, row: ProblemRow) -> str:
        """Return what the instrument failed at; empty if it did not fail.

        If a kernel cannot be judged without a GPU, that is not a failure of the instrument.
        """
        judged_here = self.settings.device == "cuda" or not any(sample.unmeasured for sample in row.samples)
        return f"{row.label}: {_complaint(row)}" if not row.measured and judged_here else ""

    async def _problem(self, task: Task, place: Place) -> ProblemRow:
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
            row = await self._judged(task, row, place)
        except (UsageError, StoreError, OSError):
            raise  # an error of the request or the machine would occur for the next problem as well
        except Exception as error:  # the edge of a rollout: one problem must not end a benchmark
            self.journal.keep_story(task.label, error)
            row = dataclasses.replace(row, samples=self._unmeasured(task, f"a bug of ours: {_last_line(error)}"))
        return dataclasses.replace(row, seconds=round(time.monotonic() - began, 3))

    async def _judged(self, task: Task, row: ProblemRow, place: Place) -> ProblemRow:
        """Return the row with its samples, or with the reason why there are none."""
        if task.unusable:
            return dataclasses.replace(row, unusable=task.unusable)
        if task.needs_gpu and self.settings.device == "cpu":
            return dataclasses.replace(
                row, unusable="its reference launches Triton kernels, which needs a GPU", needs_gpu=True
            )
        with contextlib.ExitStack() as stack:
            try:
                problem = await self.references.of(task)
                row = dataclasses.replace(row, digest=problem.spec.digest)
                evaluator = stack.enter_context(await self._evaluator(task, problem.spec, place))
            except (UsageError, NotJudgeableHere) as error:
                reason = first_line(error.what)
                wants_gpu = isinstance(error, NotJudgeableHere) and self.settings.device == "cpu"
                return dataclasses.replace(row, unusable=reason, needs_gpu=wants_gpu)
            except InstrumentError as error:
                return dataclasses.replace(row, samples=self._unmeasured(task, first_line(error.what)))
            facts = evaluator.facts
            notes = (*filter(None, (problem.sentence, facts.scaled)), *facts.notes)
            samples = await self._samples(task, problem.spec, evaluator, place.public)
        return dataclasses.replace(row, samples=samples, notes=notes)

    async def _evaluator(self, task: Task, spec: ProblemSpec, place: Place) -> Evaluator:
        """Open an evaluator, which waits until the card's memory is free."""
        judging, say = self._judging(task, place), self.watcher.say
        try:
            return await asyncio.to_thread(Evaluator, spec, judging, nursery=place.nursery, say=say)
        except asyncio.CancelledError:  # the benchmark ends, and does not wait for memory any longer
            place.nursery.close()
            raise

    def _judging(self, task: Task, place: Place) -> EvaluatorSettings:
        """Return the evaluator's settings, without a compiled baseline that is known to fail, to save the wait."""
        judging, known = self.settings.judging(place.card), self.references.found.get(task.label)
        if known is None or not known.not_compiled:
            return judging
        return dataclasses.replace(judging, baselines=tuple(name for name in judging.baselines if name not in COMPILED))

    def _unmeasured(self, task: Task, reason: str) -> tuple[Sample, ...]:
        count = len(self.kernels.of(task)) if self.kernels else self.settings.samples
        return tuple(Sample(index=index, not_measured=reason) for index in range(max(1, count)))

    async def _samples(
        self, task: Task, spec: ProblemSpec, evaluator: Evaluator, public: PublicProtocol | None
    ) -> tuple[Sample, ...]:
        if self.kernels is not None:
            return await self._judge_files(task, spec, evaluator, self.kernels, public)
        known = {sample.index: sample for sample in self._samples_before(task) if sample.status is not None}
        for index in range(self.settings.samples):
            if index not in known:
                known[index] = await self._run_sample(task, spec, evaluator, index, public)
        return tuple(known[index] for index in range(self.settings.samples))

    def _samples_before(self, task: Task) -> tuple[Sample, ...]:
        """Return the samples of an earlier row of this problem."""
        rows = self.journal.record().rows
        return next((row.samples for row in rows if row.label == task.label), ())

    # -- a policy --------------------------------------------------------------------------------------------------

    async def _run_sample(
        self, task: Task, spec: ProblemSpec, evaluator: Evaluator, index: int, public: PublicProtocol | None
    ) -> Sample:
        """Run the loop for one sample, or continue it after an interruption."""
        began = time.monotonic()
        ledger = self._ledger(task, spec, evaluator, index)
        run = ledger.run.id
        if self._is_open(run):
            loop = Loop(ledger, self.policies, [evaluator], self.settings.loop(index), machine=self.machine)
            async for event in loop.events():
                self.watcher.event({**event, "label": task.label})
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
        source = ledger.attempt(sample.kernel).source if sample.kernel else None
        return await self._with_public_check(spec, sample, source, public)

    def _is_open(self, run: str) -> bool:
        """Return whether a run can be continued: it was interrupted, or its policy could not be reached."""
        end = self.store.end(run)
        return end is None or end.stop_reason in (StopReason.INTERRUPTED, StopReason.POLICY_FAILED)

    async def _with_public_check(
        self, spec: ProblemSpec, sample: Sample, source: str | None, public: PublicProtocol | None
    ) -> Sample:
        """Return the sample with the public benchmark's own check; if that fails, without it."""
        if public is None or source is None:
            return sample
        try:
            return dataclasses.replace(sample, public=await public.check(spec, source))
        except InstrumentError as error:
            self.journal.keep_story(f"sample {sample.kernel}", error)
            return sample

    def _ledger(self, task: Task, spec: ProblemSpec, evaluator: Evaluator, index: int) -> Ledger:
        """Return the sample's run; a new one if the last run gave no verdict."""
        run = self.journal.begun(task.label).get(index)
        fruitless = {sample.run for sample in self._samples_before(task) if sample.status is None}
        if run is not None and (self._is_open(run) or run not in fruitless):
            return Ledger.resume(self.store, run)
        ledger = Ledger.begin(self.store, self._run(spec, evaluator, self.settings.loop(index)))
        self.journal.begin(task.label, index, ledger.run.id)
        return ledger

    def _run(self, spec: ProblemSpec, evaluator: Evaluator, loop: LoopSettings) -> Run:
        now = datetime.datetime.now(datetime.UTC)
        return Run(
            id=new_run_id(now, secrets.token_hex(8)),
            problem=ProblemView.of(spec, evaluator.facts),
            policy=self.settings.policy,
            settings=self.settings.to_json() | {"seed": loop.seed},
            started_at=now,
            commit=project_version(),
        )

    # -- kernels by someone else -----------------------------------------------------------------------------------

    async def _judge_files(
        self,
        task: Task,
        spec: ProblemSpec,
        evaluator: Evaluator,
        kernels: KernelFolder,
        public: PublicProtocol | None,
    ) -> tuple[Sample, ...]:
        files = kernels.of(task)
        if not files:
            return (Sample(index=0, status=Status.NO_ANSWER, message="the folder has no kernel for this problem"),)
        ledger = Ledger.begin(self.store, self._run(spec, evaluator, self.settings.loop(0)))
        grader = FileGrader(
            settings=self.settings,
            ledger=ledger,
            judge=evaluator,
            machine=self.machine,
            tell=lambda event: self.watcher.event({**event, "label": task.label}),
        )
        at_once = asyncio.Semaphore(self.settings.parallel)

        async def sample(index: int, file: KernelFile) -> Sample:
            async with at_once:
                judged = await grader.sample(task, index, file)
                return await self._with_public_check(spec, judged, file.text, public)

        samples = await asyncio.gather(*(sample(index, file) for index, file in enumerate(files)))
        await grader.end(samples)
        return tuple(samples)


async def side_by_side(work: Callable[[], Coroutine[Any, Any, None]], count: int) -> None:
    """Run `work` this many times at once; if one raises, cancel the others and raise its error."""
    running = [asyncio.create_task(work()) for _ in range(count)]
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _in_words(why: StopReason, ledger: Ledger) -> str:
    """Return why a run ended, with the last complaint of its policy."""
    failed = ledger.noted(FAILED) if why is StopReason.POLICY_FAILED else []
    return f"{MEANS[why]}: {failed[-1].data['what']}" if failed else MEANS[why]


def _last_line(error: Exception) -> str:
    """Return the last line of an error, where the traceback of another process states the cause."""
    return ([line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__])[-1][:200]


def _complaint(row: ProblemRow) -> str:
    return next((sample.not_measured for sample in row.samples if sample.not_measured), "")

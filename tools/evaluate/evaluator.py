"""The evaluator: takes a problem once, then candidates; each gets exactly one `Evaluation`.

This is the driver's side. It never imports a problem or a candidate, and does not need torch: it starts the zygotes,
passes the sockets of fresh workers to the checker, waits for the verdict and reaps the processes it started. Every
method may be called from any thread; concurrent candidates share the checker and have workers of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shutil
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from triton_agent.tools import workspace
from triton_agent.tools.chance import seed_for_checker
from triton_agent.tools.compile.targets import DEFAULT_TARGET, TARGETS
from triton_agent.tools.errors import InstrumentError, MemoryTaken, NotJudgeableHere, WorkerHungUp, WorkerNeverReady
from triton_agent.tools.evaluate.admission import admitted
from triton_agent.tools.evaluate.checker_process import CheckerProcess
from triton_agent.tools.evaluate.worker_pool import (
    COMPILER,
    GPU,
    INTERPRETER,
    TRACER,
    PoolSettings,
    Team,
    WorkerPool,
    exits_of,
)
from triton_agent.tools.problem.confinement import confinement_for, require_layers
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.problem.size_range import Lengths
from triton_agent.tools.processes.child import CORES_LEFT
from triton_agent.tools.processes.deaths import Cause, Ending, cause_of
from triton_agent.tools.processes.protocol import CheckerSettings, Judged, Sketched, Taped, Tapes, Wanted
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import DECISIONS, Evaluation, Sketch
from triton_agent.tools.settings import EvaluatorSettings

COPIES_IN_A_WORKER = 4
"""Number of copies of inputs and outputs in a worker: as sent, as received, as tensors, and as sent back."""
CPU_SLACK_S = 30
"""Processor time that a verdict may take beyond its wall time, because compilers may use several cores."""
CORES_TO_COMPILE_AHEAD = 4


class Evaluator:
    """Judges candidates for one problem. Use it as a context manager; `close` leaves no process and no file behind."""

    def __init__(
        self,
        spec: ProblemSpec,
        settings: EvaluatorSettings | None = None,
        *,
        nursery: Nursery | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Pass a `nursery` for the same card to share its zygotes; it stays open when this evaluator closes.

        On a GPU this waits until enough memory of the card is free, and tells `say`.
        """
        self.spec = spec
        self.settings = settings or EvaluatorSettings()
        if self.settings.require_sandbox or not self.settings.trust:
            require_layers()
        self._folder = workspace.make()
        self._stack = contextlib.ExitStack()
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._nursery = nursery
        try:
            self._start(say)
        except BaseException:
            self._stack.close()
            raise

    # -- life ------------------------------------------------------------------------------------------------------

    def _start(self, say: Callable[[str], None]) -> None:
        card = self.settings.card
        if self._nursery is None:
            self._nursery = self._stack.enter_context(Nursery(str(self._folder / "zygote.log"), card))
        elif card and self._nursery.card != card:
            raise ValueError(f"a nursery whose processes see {self._nursery.card or 'any card'}, and not {card} alone")
        target = self.settings.target or DEFAULT_TARGET
        trusted, folder = self.settings.trust, self._folder / "checker"
        cell = None if trusted else confinement_for(self.spec, folder, gpu=self.settings.device == "cuda")
        told = CheckerSettings(problem=self.spec, settings=self.settings, confinement=cell, seed=seed_for_checker())
        on_gpu = self.settings.device == "cuda"
        kinds = (GPU, INTERPRETER) if on_gpu else (INTERPRETER,)
        compiles = (on_gpu and _cores() >= CORES_TO_COMPILE_AHEAD) or (not on_gpu and self.settings.target is not None)
        if compiles:
            kinds = (*kinds, COMPILER)  # probably for the right target; imports start early
        zygotes = {kind: self._nursery.mode(kind, target) for kind in (*kinds, TRACER)}
        self._stack.enter_context(admitted(self._nursery, told, say))
        self._checker = CheckerProcess(self._nursery, told)
        self._stack.callback(self._checker.close)
        self._checker.begin()
        prepared = self._checker.facts()
        self.facts = prepared.facts
        if card and self.facts.gpu != card:
            raise InstrumentError(f"asked for the card {card}, and found {self.facts.gpu or 'none'} in its place")
        if on_gpu and compiles and self.facts.target in TARGETS:
            target = self.facts.target
            zygotes[COMPILER] = self._nursery.mode(COMPILER, target)
        elif on_gpu:
            compiles = False
        chosen = PoolSettings(
            executor=kinds[0],
            compiles=compiles,
            target=target,
            card=prepared.card,
            folder=self._folder,
            memory_bytes=self.settings.memory_bytes,
            copies_bytes=COPIES_IN_A_WORKER * self.facts.floor_bytes_main,
            cpu_s=int(self.settings.total_timeout_s) + CPU_SLACK_S,
            confine=self.settings.confine,
            gpu=self.facts.gpu,
            compilers=_cores() - CORES_LEFT if on_gpu else 1,
        )
        self._pool = WorkerPool(zygotes, chosen, lent=lambda: self._checker.lent)
        self._stack.callback(self._pool.close)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- evaluation ------------------------------------------------------------------------------------------------

    async def evaluate_async(
        self, source: str, on_stage: Callable[[str], None] | None = None, *, as_given: bool = False, file: str = ""
    ) -> Evaluation:
        """Run `evaluate` in a thread, for callers in an event loop."""
        return await asyncio.to_thread(self.evaluate, source, on_stage, as_given=as_given, file=file)

    def evaluate(
        self,
        source: str,
        on_stage: Callable[[str], None] | None = None,
        *,
        as_given: bool = False,
        file: str = "",
    ) -> Evaluation:
        """Return the verdict on one candidate; raise `InstrumentError` if none could be reached.

        `as_given` checks at the problem's own sizes only, for a file that uses the reference at others. `file` is for
        shipping: a text that we wrote with the same kernels, which is imported, checked and timed in their place.
        """
        try:
            return self._evaluate(source, on_stage, as_given, file)
        except (WorkerNeverReady, WorkerHungUp, MemoryTaken):  # not caused by the candidate
            return self._evaluate(source, on_stage, as_given, file)

    def try_out(self, source: str) -> Evaluation:
        """Compile a candidate and check one call at its cheapest size, in the same sandbox as for a verdict.

        The result is not a verdict: a candidate that passes may be wrong at every other size.
        """
        return self._evaluate(source, None, False, "", Wanted.TRIAL)

    def _evaluate(
        self,
        source: str,
        on_stage: Callable[[str], None] | None,
        as_given: bool,
        file: str,
        wanted: Wanted = Wanted.VERDICT,
    ) -> Evaluation:
        with self._checker.job() as job, self._pool.team(reads=wanted is Wanted.VERDICT) as team:
            try:
                judged = job.answer(Judged, source, team, wanted, as_given=as_given, file=file, on_stage=on_stage)
            except WorkerNeverReady as error:
                ends = [f"status {end.status}: {end.last_words.strip()[-500:]}" for end in exits_of(team.workers)]
                raise WorkerNeverReady("\n".join([error.what, *ends]), remedy=error.remedy) from error
            evaluation = judged.evaluation
            if evaluation.finding is not None:
                workspace.require_room(self._folder)
            if judged.ending is None:
                return evaluation
            cause = cause_in(team, judged.ending)
            assert cause.finding is not None
            status = DECISIONS[cause.finding].status
            return dataclasses.replace(evaluation, status=status, finding=cause.finding, message=cause.message)

    @property
    def sketches(self) -> bool:
        """Whether `sketch` can be used: without a GPU there are no times to sort by."""
        return self.settings.device == "cuda"

    def sketch(self, source: str) -> Sketch:
        """Sketch a variant for sorting: check one call, then run a short race.

        A sketch proves little; the best variant is then judged with `evaluate`.
        """
        if not self.sketches:
            raise NotJudgeableHere("without a GPU there is nothing to sort by", remedy="evaluate the candidates")
        with self._checker.job() as job, self._pool.team() as team:
            sketched = job.answer(Sketched, source, team, Wanted.SKETCH)
            if sketched.ending is not None:
                cause_in(team, sketched.ending)
            return sketched.sketch

    def tapes(self, source: str, lengths: Sequence[Lengths] = ()) -> Tapes:
        """Return the candidate's tapes at the problem's given sizes, and at the scaled-down sizes if there are any.

        With `lengths` of the problem's ranges, return its tapes at these, a module for each.
        """
        with self._checker.job() as job, self._pool.team() as team:
            taped = job.answer(Taped, source, team, Wanted.TAPES, as_given=True, lengths=tuple(lengths))
            if taped.ending is not None:
                cause_in(team, taped.ending)
            return taped.tapes


def cause_in(team: Team, ending: Ending) -> Cause:
    """Return why a worker of the team ended; raise `WorkerHungUp` if the candidate cannot have caused it."""
    ended = [worker for worker in team.workers if worker.kind == ending.worker and not worker.is_sound]
    cause = cause_of(ending, exits_of(ended))  # others end with the job, and would hide how this one ended
    if cause.finding is None:
        raise WorkerHungUp(cause.message, remedy="evaluate it again")
    return cause


def _cores() -> int:
    return len(os.sched_getaffinity(0))

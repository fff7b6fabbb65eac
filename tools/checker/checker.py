"""The checker: a trusted process that holds one problem's reference, inputs, truth and decisions.

It is forked from the zygote before any candidate exists. The driver sends `LoadProblem` once, then `Judge` with the
sockets of fresh workers. Jobs run in threads, since a job mostly waits for its workers. Nothing that a candidate sends
is ever unpickled or executed here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import os
import platform
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import torch

from triton_agent.tools.audit.audit import audit
from triton_agent.tools.cases.plan import Plan, as_given
from triton_agent.tools.chance import draw_from
from triton_agent.tools.checker import quick_race, verified_tapes
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.memory_shortage import SHORT_OF_MEMORY, memory_was_taken, memory_was_taken_from
from triton_agent.tools.checker.pipeline import STAGES, TRIAL_STAGES, run
from triton_agent.tools.checker.prepare import prepare_plan
from triton_agent.tools.checker.profiling import Leaders
from triton_agent.tools.checker.session import Failed, Session
from triton_agent.tools.checker.tracing import Programs
from triton_agent.tools.checker.verdict import evaluation_of, sketch_of
from triton_agent.tools.compile.targets import DEFAULT_TARGET, TARGETS
from triton_agent.tools.errors import InstrumentError, MemoryTaken, ProblemError, TritonAgentError, WorkerLost
from triton_agent.tools.evaluate.worker_pool import COMPILER, GPU, INTERPRETER, REUSED
from triton_agent.tools.machine.baton import BATON
from triton_agent.tools.machine.card_facts import facts_of_device, facts_of_target
from triton_agent.tools.machine.hardware import uuid_of
from triton_agent.tools.machine.lease import Mode, awaited, lease
from triton_agent.tools.problem.facts import ProblemFacts
from triton_agent.tools.problem.problem import ProblemKind, ProblemSpec
from triton_agent.tools.processes.codec import decode, from_plain, to_plain
from triton_agent.tools.processes.payloads import pack_quickly
from triton_agent.tools.processes.protocol import (
    AtStage,
    Audit,
    Audited,
    AuditStep,
    Bug,
    CheckerSettings,
    Done,
    Forget,
    HandedOver,
    JobAnswer,
    Judge,
    Judged,
    LoadProblem,
    ProblemLoaded,
    Refused,
    Size,
    Sized,
    Sketched,
    Taped,
    TapedModule,
    Tapes,
    Wanted,
    WorkerState,
)
from triton_agent.tools.processes.wire import Channel, ChannelClosed
from triton_agent.tools.race.baseline_names import COMPILED
from triton_agent.tools.race.ceilings import Rates
from triton_agent.tools.race.clock_room import ClockRoom, Place
from triton_agent.tools.race.compiled_process import CompiledProcess
from triton_agent.tools.race.late_value import LateClock
from triton_agent.tools.race.timekeeper import Timekeeper
from triton_agent.tools.reference.peak_memory import predicted_peak
from triton_agent.tools.reference.reference import load
from triton_agent.tools.sandbox import sandbox
from triton_agent.tools.settings import EvaluatorSettings


def main(channel: Channel, plain: dict[str, Any]) -> None:
    """Serve the driver until it hangs up; for an untrusted problem, confine this process first."""
    told = decode(CheckerSettings, plain)
    if told.confinement is not None:
        sandbox.enter(told.confinement)
    if told.seed is not None:
        draw_from(told.seed)
    torch.set_num_threads(1)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    pack_quickly()
    checker = Checker(channel, told.problem, told.settings)
    while True:
        asked, _, fds = channel.receive_with_fds()
        request = from_plain(LoadProblem | Judge | Audit | Size, asked)
        if isinstance(request, Judge):
            threading.Thread(target=checker.judge, args=(request, fds), daemon=True).start()
        else:
            answers = {LoadProblem: checker.prepare, Audit: checker.audit, Size: checker.size}
            checker.reply(answers[type(request)]())


FORGET_TIMEOUT_S = 10.0
"""Time limit for freeing memory; if it takes longer, a kernel is still running."""
SWITCH_INTERVAL_S = 0.0001
"""A fiftieth of Python's default: the timing thread waits up to this long for threads that judge other candidates."""


class Checker:
    """One problem, many candidates."""

    def __init__(self, channel: Channel, spec: ProblemSpec, settings: EvaluatorSettings) -> None:
        self.channel = channel
        self.spec = spec
        self.settings = settings
        self.plan: Plan | None = None
        self.facts: ProblemFacts | None = None
        self.clock: LateClock[Timekeeper] | None = None
        self.gpu_key = ""
        self._sending = threading.Lock()
        self._clock_room = ClockRoom(functools.partial(self._lease, Mode.EXCLUSIVE))
        self._leaders = Leaders()
        self._room = threading.Lock()
        """Held by the one candidate that uses gigabytes on the card."""

    def reply(self, message: object) -> None:
        plain = to_plain(message)
        with self._sending:
            self.channel.send(plain)

    def prepare(self) -> ProblemLoaded | Refused | Bug:
        """Load the problem and make the plan; return the facts about the problem."""
        on_gpu, conditions = self.settings.device == "cuda", self.settings.conditions
        names = tuple(name for name in self.settings.baselines if self._times and name in COMPILED)
        train, limit_s = self.settings.modes[0] == "train", self.settings.baseline_limit_s
        compiled = CompiledProcess(self.spec, names, conditions, train=train, limit_s=limit_s)
        try:
            if on_gpu:
                self.gpu_key = uuid_of(0)
                compiled.share(functools.partial(self._lease, Mode.SHARED), functools.partial(awaited, self.gpu_key))
                conditions.settle()
            place = Place(self._gpu, overdue=self._is_awaited)
            if on_gpu:
                with place.step():
                    torch.zeros(1, device="cuda")  # creates the context, which the driver does one process at a time
            pause, aside = functools.partial(self._pause, place), functools.partial(self._aside, place)
            self.plan = prepare_plan(self.spec, self.settings, place.step, pause, aside)
            rates = self._rates() if on_gpu and self.spec.kind is not ProblemKind.VERIFIER else None
            if self._times:
                self.clock = LateClock(functools.partial(self._make_clock, self.plan, compiled))
                self.clock.begin()
        except BaseException as error:
            cause = behind(error)
            # The driver loads the problem again without other layouts if the GPU broke.
            broken = self.settings.layouts and isinstance(device_trouble(cause), WorkerLost)
            return reported(memory_was_taken_from(error) or (cause if broken else error))
        self.facts = ProblemFacts(
            **self.plan.facts,
            torch=torch.__version__,
            python=platform.python_version(),
            triton=importlib.metadata.version("triton"),
            device=torch.cuda.get_device_name(0) if on_gpu else "cpu",
            gpu=self.gpu_key,
            target="cuda:{}{}".format(*torch.cuda.get_device_capability(0)) if on_gpu else "",
            rates=rates,
        )
        lent = [payload.identity() for payload in self.plan.payloads() if payload.file is not None]
        target = TARGETS.get(self.facts.target or self.settings.target or "", TARGETS[DEFAULT_TARGET])
        card = facts_of_device(target) if on_gpu else facts_of_target(target)
        return ProblemLoaded(facts=self.facts, card=card, lent=tuple(lent))

    def _rates(self) -> Rates:
        """Return the card's peak rates. The first process on a machine that asks measures them."""
        from triton_agent.tools.race.rates import ceilings, known  # compiles a kernel: only where there is a GPU

        with contextlib.nullcontext() if known("cuda") else self._gpu(Mode.EXCLUSIVE):
            return Rates.of(ceilings("cuda"))

    def _make_clock(self, plan: Plan, compiled: CompiledProcess) -> Timekeeper:
        with self._gpu(Mode.SHARED):
            clock = Timekeeper(
                load(self.spec),
                plan,
                self.gpu_key,
                conditions=self.settings.conditions,
                baselines=self.settings.baselines,
                compiled=compiled,
            )
        with self._gpu(Mode.EXCLUSIVE):
            clock.begin()
        return clock

    @property
    def _times(self) -> bool:
        """Whether candidates are timed: on a GPU, for a problem with a reference."""
        return self.settings.timed and self.settings.device == "cuda" and self.spec.kind is not ProblemKind.VERIFIER

    def size(self) -> Sized | Refused | Bug:
        """Predict the memory of one call, without the card."""
        try:
            reference = load(self.spec)
        except BaseException as error:
            return reported(error)
        try:
            return Sized(peak_bytes=predicted_peak(reference).peak_bytes)
        except Exception:  # fake tensors fail in many ways, of which few are faults of the problem
            return Sized(peak_bytes=None)

    def audit(self) -> Audited | Refused | Bug:
        """Try to pass the problem with wrong answers, reporting progress."""
        try:
            report = audit(
                self.spec, on_progress=lambda tried, total: self.reply(AuditStep(tried=tried, answers=total))
            )
        except TritonAgentError as error:
            return Refused(error=error)
        except BaseException:
            return Bug(trace=traceback.format_exc())
        return Audited(report=report)

    @contextlib.contextmanager
    def _gpu(self, mode: Mode) -> Iterator[None]:
        """Hold the GPU on which this problem is checked; do nothing on a CPU."""
        if not self.gpu_key:
            yield
        elif mode is Mode.EXCLUSIVE:
            with self._clock_room.alone():
                yield
        else:
            with self._lease(mode):
                yield

    def _is_awaited(self) -> bool:
        """Return True if work in progress should make way for a process that waits for the GPU exclusively."""
        if self._clock_room.is_awaited or not self.gpu_key:
            return self._clock_room.is_overdue
        return awaited(self.gpu_key)

    def _pause(self, place: Place) -> None:
        if self.gpu_key:
            torch.cuda.synchronize()
        place.pause()

    @contextlib.contextmanager
    def _aside(self, place: Place) -> Iterator[None]:
        if self.gpu_key:
            torch.cuda.synchronize()
        with place.aside():
            yield

    def _lease(self, mode: Mode) -> contextlib.AbstractContextManager[None]:
        return lease(self.gpu_key, what=f"triton-agent: {self.spec.name}", mode=mode)

    def judge(self, request: Judge, fds: list[int]) -> None:
        """Judge one candidate and send exactly one answer, whatever happens."""
        answer: JobAnswer
        states: tuple[WorkerState, ...] = ()
        try:
            sessions = [self._session(fd, worker) for fd, worker in zip(fds, request.workers)]
            failure: Failed | MemoryTaken | None
            with BATON.held(), contextlib.ExitStack() as room:
                try:
                    answer, failure = self._answer(request, sessions, room)
                except MemoryTaken as error:
                    failure = error
                    traceback.clear_frames(error.__traceback__)  # frees answers on the card that the frames keep alive
                finally:
                    states = tuple(let_go(worker.kind, session) for worker, session in zip(request.workers, sessions))
            self._require_memory(failure)
        except BaseException as error:
            answer = reported(behind(error))
        with contextlib.suppress(ChannelClosed):  # the driver is gone, so nobody needs the answer
            self.reply(dataclasses.replace(answer, job=request.job, workers=states))
        if isinstance(answer, (Refused, Bug)):
            end_if_broken()

    def _session(self, fd: int, worker: HandedOver) -> Session:
        deadline, limit_s = time.monotonic() + self.settings.total_timeout_s, self.settings.call_timeout_s
        channel = Channel.from_fd(fd)
        return Session(channel, call_timeout_s=limit_s, deadline=deadline, ready=worker.is_warm, kind=worker.kind)

    def _require_memory(self, failure: Failed | MemoryTaken | None) -> None:
        """Raise if the candidate ran out of GPU memory that others had taken, after waiting a moment for that memory.

        The driver then judges the candidate again.
        """
        taken = failure if isinstance(failure, MemoryTaken) else None
        may_lack = isinstance(failure, Failed) and failure.may_lack_memory and failure.finding in SHORT_OF_MEMORY
        if self.plan is not None and (taken or may_lack):
            with self._gpu(Mode.SHARED):
                short = memory_was_taken(self.plan)
            taken = taken or short
        if taken is not None:
            raise taken

    def _answer(
        self, request: Judge, sessions: list[Session], room: contextlib.ExitStack
    ) -> tuple[JobAnswer, Failed | None]:
        """Take the candidate through the stages; return the answer, and the failure if there was one.

        `room` is closed after the executor has freed the candidate's memory on the card.
        """
        assert self.plan is not None and self.facts is not None
        tracer, runner, *_ = sessions
        others = [(session, worker.kind) for session, worker in zip(sessions, request.workers)][2:]
        reader = next((session for session, kind in others if kind == INTERPRETER), None)
        compilers = [session for session, kind in others if kind == COMPILER]
        place = Place(self._gpu, waiting=runner.off_its_time, overdue=self._is_awaited)
        on_gpu = self.settings.device == "cuda"

        def await_room() -> None:
            if on_gpu and job.plan.trials[job.plan.main].cases[0].is_large:
                place.leave()  # the candidate in the room may be waiting for the GPU exclusively
                with runner.off_its_time():
                    room.enter_context(self._room)

        job = Job(
            source=request.source,
            plan=as_given(self.plan) if request.as_given else self.plan,
            settings=self.settings,
            programs=Programs(request.source, self.settings.conditions, tracer),
            runner=runner,
            reader=reader,
            file=request.file,
            compiler=compilers[0] if compilers and not on_gpu else None,
            ahead=compilers if on_gpu else [],
            leaders=self._leaders,
            gpu=place,
            await_room=await_room,
            clock=self.clock,
            on_stage=lambda stage: self.reply(AtStage(job=request.job, stage=stage)),
        )
        modules: list[TapedModule] = []
        collect = ("collect", lambda job: modules.extend(verified_tapes.tapes_of(job, self.spec, request.lengths)))
        stages = {
            Wanted.VERDICT: STAGES,
            Wanted.TRIAL: TRIAL_STAGES,
            Wanted.SKETCH: quick_race.STAGES,
            Wanted.TAPES: (*verified_tapes.stages(request.lengths), collect),
        }
        try:
            run(job, stages[request.wanted])
        finally:
            place.leave()
        failure = job.failure
        ending = failure.ending if failure is not None and failure.worker_died else None
        if request.wanted is Wanted.TAPES:
            tapes = Tapes(modules=tuple(modules), message=failure.message if failure else "")
            return Taped(job=request.job, tapes=tapes, ending=ending), None
        if request.wanted is Wanted.SKETCH:
            return Sketched(job=request.job, sketch=sketch_of(job), ending=ending), failure
        facts = self.facts
        if request.as_given:  # traffic is counted at the main sizes
            facts = dataclasses.replace(facts, floor_bytes=facts.floor_bytes_main, floor_flops=facts.floor_flops_main)
        evaluation = evaluation_of(job, facts, layers=tracer.layers)
        return Judged(job=request.job, evaluation=evaluation, ending=ending), failure


def let_go(kind: str, session: Session) -> WorkerState:
    """Return whether the process may serve another candidate; if not, close its connection."""
    if kind in REUSED and session.is_sound:
        if not session.is_ready:  # it was never used, and may not be ready yet
            session.channel.let_go()
            return WorkerState.NEW
        try:
            if kind == GPU:
                session.ask(Forget(), Done, timeout_s=FORGET_TIMEOUT_S)
            session.channel.let_go()
            return WorkerState.WARM
        except (Failed, InstrumentError):
            pass
    session.channel.close()
    return WorkerState.ENDED


def reported(error: BaseException) -> Refused | Bug:
    """Return the error in the form in which the driver receives it."""
    known = error if isinstance(error, TritonAgentError) else device_trouble(error)
    return Refused(error=known) if known is not None else Bug(trace=traceback.format_exc())


def behind(error: BaseException) -> BaseException:
    """Return the device error that caused a reported problem error, if there is one; otherwise the error itself."""
    cause = error.__cause__ if isinstance(error, ProblemError) else None
    return cause if cause is not None and device_trouble(cause) is not None else error


def device_trouble(error: BaseException) -> InstrumentError | None:
    """Return a GPU error of this process as an InstrumentError; None for any other error."""
    text = (str(error).splitlines() or [""])[0][:200]
    if isinstance(error, torch.OutOfMemoryError):
        with contextlib.suppress(RuntimeError):  # raised while the timing thread records a CUDA graph
            torch.cuda.empty_cache()
        return InstrumentError(f"the GPU's memory does not suffice for the check: {text}", remedy="free some of it")
    if isinstance(error, RuntimeError) and ("CUDA" in text or "device-side" in text):
        remedy = "evaluate it again; if it comes back, see what `nvidia-smi` says of the card"
        return WorkerLost(f"the GPU failed the checker: {text}", remedy=remedy)
    return None


def end_if_broken() -> None:
    """End this process if its CUDA context is broken; the driver starts another."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            sys.stderr.write(f"the CUDA context is broken: {error}\n")
            sys.stderr.flush()
            os._exit(1)

"""The checker: a trusted process that holds one problem's reference, inputs, truth and the decision.

It is forked from the zygote before any candidate exists. The driver sends `prepare` once, then `judge` with the sockets
of fresh workers; jobs run in threads, since most of a job is waiting for its workers. Nothing a candidate sends is ever
unpickled or executed here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
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
from triton_agent.tools.checker import quick_race as sorting
from triton_agent.tools.checker import verified_tapes
from triton_agent.tools.checker.job import Job, JudgeSettings
from triton_agent.tools.checker.memory_shortage import SHORT_OF_MEMORY, memory_was_taken
from triton_agent.tools.checker.pipeline import STAGES, run
from triton_agent.tools.checker.prepare import prepare_plan
from triton_agent.tools.checker.session import Failed, Session
from triton_agent.tools.checker.tracing import Programs
from triton_agent.tools.compile.targets import DEFAULT_TARGET, TARGETS
from triton_agent.tools.errors import InstrumentError, ProblemError, TritonAgentError, WorkerLost
from triton_agent.tools.evaluate.worker_pool import GPU, REUSED
from triton_agent.tools.machine.card_facts import facts_of_device, facts_of_target
from triton_agent.tools.machine.hardware import uuid_of
from triton_agent.tools.machine.lease import Mode, awaited, lease
from triton_agent.tools.problem.problem import ProblemKind, ProblemSpec
from triton_agent.tools.processes.payloads import pack_quickly
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.processes.wire import Channel, ChannelClosed, error_to_json
from triton_agent.tools.race.baseline_names import COMPILED
from triton_agent.tools.race.ceilings import known as ceilings_known
from triton_agent.tools.race.clock_room import ClockRoom, Place
from triton_agent.tools.race.compiled_beforehand import CompiledBeforehand
from triton_agent.tools.race.late_value import LateClock
from triton_agent.tools.race.timekeeper import Timekeeper
from triton_agent.tools.reference.reference import load
from triton_agent.tools.results import to_json
from triton_agent.tools.sandbox import sandbox
from triton_agent.tools.truth.plan import Plan, PlanSettings, as_given


def main(channel: Channel, settings: dict[str, Any]) -> None:
    """Serve the driver until it hangs up; confined, where the problem is not to be trusted."""
    if settings.get("confinement"):
        sandbox.enter(sandbox.confinement_from_json(settings["confinement"]))
    torch.set_num_threads(1)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    pack_quickly()
    checker = Checker(channel, settings)
    while True:
        message, _, fds = channel.receive_with_fds()
        if message["op"] == "prepare":
            checker.reply(checker.prepare())
        elif message["op"] == "judge":
            threading.Thread(target=checker.judge, args=(message, fds), daemon=True).start()
        elif message["op"] == "audit":
            checker.reply(checker.audit())
        else:
            raise InstrumentError(f"the checker does not know {message['op']!r}")


FORGET_TIMEOUT_S = 10.0
"""Memory is given back; longer means that a kernel is still running."""
SWITCH_INTERVAL_S = 0.0001
"""A fiftieth of Python's own: the clock's thread waits that long for those that judge others, often in a reading."""
RECORDED = (
    *("accuracy", "resources", "launches", "torch_operators", "evidence", "notes", "stages", "timings"),
    *("determinism", "peak_bytes", "original_peak_bytes", "roofline", "profile"),
)
"""Fields of a job that are sent with its verdict."""


class Checker:
    """One problem, many candidates."""

    def __init__(self, channel: Channel, settings: dict[str, Any]) -> None:
        self.channel = channel
        self.spec = ProblemSpec.from_json(settings["spec"])
        conditions = Conditions(**settings.get("conditions", {}))
        self.judging = JudgeSettings(**settings["judge"], conditions=conditions)
        modes = tuple(settings["plan"]["modes"])
        self.planning = PlanSettings(**{**settings["plan"], "modes": modes}, conditions=conditions)
        self.plan: Plan | None = None
        self.clock: LateClock[Timekeeper] | None = None
        self.baselines = tuple(settings.get("baselines", ()))
        self.gpu_key = ""
        self._sending = threading.Lock()
        self._clock_room = ClockRoom(functools.partial(self._lease, Mode.EXCLUSIVE))

    def reply(self, message: dict[str, Any]) -> None:
        with self._sending:
            self.channel.send(message)

    def prepare(self) -> dict[str, Any]:
        """Load the problem, make the plan; answer with the facts people want to see."""
        beforehand = self._compile_beforehand()
        try:
            if self.planning.device == "cuda":
                self.gpu_key = uuid_of(0)
                beforehand.share(functools.partial(self._lease, Mode.SHARED), functools.partial(awaited, self.gpu_key))
                self.planning.conditions.settle()
            self.plan = prepare_plan(self.spec, self.planning, lambda: self._gpu(Mode.SHARED))
            if self._times:
                self.clock = self._begin_clock(self.plan, beforehand)
        except BaseException as error:
            return reported(error)
        return {
            "card": self._card_facts(),
            "lent": [payload.identity() for payload in self.plan.payloads() if payload.file is not None],
            "facts": {
                **to_json(self.plan.facts),
                "torch": torch.__version__,
                "python": platform.python_version(),
                "device": torch.cuda.get_device_name(0) if self.planning.device == "cuda" else "cpu",
                "gpu": self.gpu_key,
                "target": _target(self.planning.device),
            },
        }

    def _card_facts(self) -> dict[str, Any]:
        """Properties of the GPU that host code is given."""
        name = _target(self.planning.device) or self.judging.target or DEFAULT_TARGET
        target = TARGETS.get(name) or TARGETS[DEFAULT_TARGET]
        return facts_of_device(target) if self.planning.device == "cuda" else facts_of_target(target)

    def _begin_clock(self, plan: Plan, beforehand: CompiledBeforehand) -> LateClock[Timekeeper]:
        """Made behind the answer, where the card's ceilings are known: they are measured on a machine at rest."""
        clock = LateClock(functools.partial(self._make_clock, plan, beforehand))
        if ceilings_known("cuda"):
            clock.begin()
        else:
            clock.wait(lambda: None)
        return clock

    def _make_clock(self, plan: Plan, beforehand: CompiledBeforehand) -> Timekeeper:
        with self._gpu(Mode.EXCLUSIVE):
            return Timekeeper(
                load(self.spec),
                plan,
                self.gpu_key,
                conditions=self.planning.conditions,
                baselines=self.baselines,
                beforehand=beforehand,
            )

    @property
    def _times(self) -> bool:
        """True if candidates are timed: on a GPU, for a problem with a reference."""
        return self.planning.device == "cuda" and self.spec.kind is not ProblemKind.VERIFIER

    def _compile_beforehand(self) -> CompiledBeforehand:
        """Start to compile the baselines."""
        names = tuple(name for name in self.baselines if self._times and name in COMPILED)
        train = self.planning.modes[0] == "train"
        return CompiledBeforehand(self.spec, names, self.planning.conditions, train=train)

    def audit(self) -> dict[str, Any]:
        """Try to pass the problem with wrong answers; progress goes out meanwhile."""
        try:
            report = audit(self.spec, on_progress=lambda tried, total: self.reply({"tried": tried, "answers": total}))
        except TritonAgentError as error:
            return {"error": error_to_json(error)}
        except BaseException:
            return {"bug": traceback.format_exc()}
        return {"report": report.to_json()}

    @contextlib.contextmanager
    def _gpu(self, mode: Mode) -> Iterator[None]:
        """The lease of the GPU this problem is checked on; nothing to hold on a CPU."""
        if not self.gpu_key:
            yield
        elif mode is Mode.EXCLUSIVE:
            with self._clock_room.alone():
                yield
        else:
            with self._lease(mode):
                yield

    def _lease(self, mode: Mode) -> contextlib.AbstractContextManager[None]:
        return lease(self.gpu_key, what=f"triton-agent: {self.spec.name}", mode=mode)

    def judge(self, message: dict[str, Any], fds: list[int]) -> None:
        """Judge one candidate and send exactly one answer, whatever happens."""
        kept: list[str] = []
        try:
            kinds = [str(role["kind"]) for role in message["roles"]]
            sessions = [self._session(fd, warm=bool(role["warm"])) for fd, role in zip(fds, message["roles"])]
            try:
                answer = self._verdict(message, sessions)
            finally:
                kept = [let_go(kind, session) for kind, session in zip(kinds, sessions)]
            self._require_memory(answer["verdict"])
        except BaseException as error:
            answer = reported(behind(error))
        with contextlib.suppress(ChannelClosed):  # the driver is gone, and with it whoever wanted to know
            self.reply({"job": message["job"], "kept": kept, **answer})
        if "error" in answer or "bug" in answer:
            end_if_broken()

    def _session(self, fd: int, *, warm: bool) -> Session:
        deadline = time.monotonic() + self.judging.total_timeout_s
        return Session(Channel.from_fd(fd), call_timeout_s=self.judging.call_timeout_s, deadline=deadline, ready=warm)

    def _require_memory(self, verdict: dict[str, Any]) -> None:
        """A verdict of too little memory does not stand where others had taken it; a call's own need was measured."""
        if self.plan is not None and verdict["finding"] in SHORT_OF_MEMORY and not verdict["measured"]:
            with self._gpu(Mode.SHARED):
                taken = memory_was_taken(self.plan)
            if taken is not None:
                raise taken

    def _verdict(self, message: dict[str, Any], sessions: list[Session]) -> dict[str, Any]:
        assert self.plan is not None
        tracer, runner, *compilers = sessions
        place = Place(self._gpu, waiting=runner.off_its_time, overdue=lambda: self._clock_room.is_overdue)
        on_gpu = self.judging.device == "cuda"
        job = Job(
            source=message["source"],
            plan=as_given(self.plan) if message.get("as_given") else self.plan,
            settings=self.judging,
            programs=Programs(message["source"], dataclasses.asdict(self.judging.conditions), tracer),
            runner=runner,
            file=str(message.get("file", "")),
            compiler=compilers[0] if compilers and not on_gpu else None,
            ahead=compilers if on_gpu else [],
            gpu=place,
            clock=self.clock,
            on_stage=lambda stage: self.reply({"job": message["job"], "stage": stage}),
        )
        try:
            if message.get("tapes"):
                return self._tapes(job)
            run(job, sorting.STAGES if message.get("sort") else STAGES)
        finally:
            place.leave()
        failure = job.failure
        record = {name: to_json(getattr(job, name)) for name in RECORDED}
        return {
            "verdict": {
                **record,
                "finding": failure.finding.value if failure else None,
                "message": failure.message if failure else "",
                "worker_died": bool(failure and failure.worker_died),
                "measured": bool(failure and failure.measured),
                "layers": list(tracer.layers),
            }
        }

    def _tapes(self, job: Job) -> dict[str, Any]:
        """The candidate's tapes as plain data, or why there are none."""
        modules: list[dict[str, Any]] = []
        collect = ("collect", lambda job: modules.extend(verified_tapes.tapes_of(job, self.spec)))
        run(job, (*verified_tapes.STAGES, collect))
        message = job.failure.message if job.failure else ""
        return {"verdict": {"modules": modules, "message": message, "finding": None}}


def let_go(kind: str, session: Session) -> str:
    """Return `new` or `warm` if the process may serve another candidate; else end its connection and return ""."""
    if kind in REUSED and session.is_sound:
        if session.phase == "start":  # it was not asked, and may not be ready yet
            session.channel.let_go()
            return "new"
        try:
            if kind == GPU:
                session.ask("forget", timeout_s=FORGET_TIMEOUT_S)
            session.channel.let_go()
            return "warm"
        except (Failed, InstrumentError):
            pass
    session.channel.close()
    return ""


def reported(error: BaseException) -> dict[str, Any]:
    """Return the error as the driver is told of it."""
    known = error if isinstance(error, TritonAgentError) else device_trouble(error)
    return {"error": error_to_json(known)} if known is not None else {"bug": traceback.format_exc()}


def behind(error: BaseException) -> BaseException:
    """Return the device error behind an error that was reported as the problem's, if there is one."""
    cause = error.__cause__ if isinstance(error, ProblemError) else None
    return cause if cause is not None and device_trouble(cause) is not None else error


def device_trouble(error: BaseException) -> InstrumentError | None:
    """Return an error of the GPU in this process as an InstrumentError; None for any other error."""
    text = (str(error).splitlines() or [""])[0][:200]
    if isinstance(error, torch.OutOfMemoryError):
        with contextlib.suppress(RuntimeError):  # not while the clock's thread records a graph
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


def _target(device: str) -> str:
    if device != "cuda":
        return ""
    major, minor = torch.cuda.get_device_capability(0)
    return f"cuda:{major}{minor}"

"""The evaluator: give it a problem once and candidates as they come; each gets exactly one `Evaluation`.

The driver lives here. It never imports a problem or a candidate, and needs no torch: it starts the zygotes, hands the
sockets of fresh workers to the checker, waits for the verdict and reaps what it started. Every method may be called
from any thread; candidates evaluated at once share the checker and run in workers of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import importlib.metadata
import os
import queue
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from triton_agent.tools import workspace
from triton_agent.tools.errors import InstrumentError, WorkerLost
from triton_agent.tools.isolate.cgroup import CgroupBox, delegated_group
from triton_agent.tools.isolate.processes import Child, Nursery
from triton_agent.tools.isolate.sandbox import ESSENTIAL, Confinement, Limits, probe
from triton_agent.tools.isolate.wire import Channel, ChannelClosed, ChannelTimeout, error_from_json
from triton_agent.tools.problem import ProblemSpec
from triton_agent.tools.results import DECISIONS, Environment, Evaluation, Finding, Status, to_json
from triton_agent.tools.verdict import evaluation_from

PREPARE_TIMEOUT_S = 300.0
VERDICT_SLACK_S = 60.0
"""Beyond the total time limit the checker keeps itself; then the checker is what is stuck."""
DEFAULT_TARGET = "cuda:90"
"""What the interpreter pretends to be where no target is named."""
GRADER = "1"
"""Version of the rules by which verdicts are reached; raised whenever an old verdict could come out otherwise."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSettings:
    """How candidates are judged. The defaults are what training and benchmarks use."""

    device: str = "cpu"
    """`cpu`: the interpreter; `cuda`: run and time on the first visible GPU."""
    target: str | None = "cuda:90"
    """Compile ahead of time for this target; None leaves that stage out."""
    allow_library: bool = False
    modes: tuple[str, ...] = ("eval", "train")
    screen: bool = True
    remedies: bool = True
    shapes: str = "family"
    """`family`: variants of the problem's sizes too; `given`: only the sizes as given (or scaled down)."""
    call_timeout_s: float = 20.0
    compile_timeout_s: float = 60.0
    total_timeout_s: float = 120.0
    memory_bytes: int = 4 << 30
    """What one candidate may use on the host."""
    confine: bool = True
    """Off only where the machine's owner runs kernels of their own; the verdict says so."""
    require_sandbox: bool = False
    """Refuse to go on where an essential layer of the sandbox is missing."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProblemFacts:
    """What is known of a problem once its original has run."""

    name: str
    digest: str
    variants: tuple[str, ...]
    cases: int
    fingerprint: str
    floor_bytes: int
    """Fewest bytes at the smallest sizes checked, where traffic is counted."""
    floor_flops: int
    scaled: str
    """How the problem was scaled down; empty when it was not."""
    notes: tuple[str, ...]
    floor_bytes_main: int
    """The same at the sizes as given (or as scaled down)."""
    floor_flops_main: int
    device: str
    torch: str
    python: str
    triton: str


class Evaluator:
    """Use as a context manager; `close` leaves no process and no file behind."""

    def __init__(
        self, spec: ProblemSpec, settings: EvaluatorSettings | None = None, *, nursery: Nursery | None = None
    ) -> None:
        """Give a `nursery` to share its processes with other evaluators; it stays open when this one closes."""
        self.spec = spec
        self.settings = settings or EvaluatorSettings()
        if self.settings.require_sandbox:
            _require_layers()
        self._folder = workspace.make()
        self._stack = contextlib.ExitStack()
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._jobs: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._next_job = 0
        self._lock = threading.Lock()
        self._lost = ""
        self._nursery = nursery
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise

    # -- life ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._nursery is None:
            self._nursery = self._stack.enter_context(Nursery(str(self._folder / "zygote.log")))
        target = self.settings.target or DEFAULT_TARGET
        self._checker, theirs = Channel.pair()
        child = self._nursery.base.fork("checker", theirs, checker_settings(self.spec, self.settings))
        self._stack.callback(_reap_if_possible, child)
        self._stack.callback(self._checker.close)
        self._checker.send({"op": "prepare"})
        self._modes = {mode: self._nursery.mode(mode, target) for mode in needed_modes(self.settings)}
        self.facts = self._await_facts()
        threading.Thread(target=self._listen, daemon=True).start()

    def _await_facts(self) -> ProblemFacts:
        try:
            reply, _ = self._checker.receive(PREPARE_TIMEOUT_S)
        except ChannelTimeout as error:
            raise InstrumentError(
                f"the original did not finish within {PREPARE_TIMEOUT_S:.0f} s", remedy="make the problem smaller"
            ) from error
        except ChannelClosed as error:
            raise WorkerLost(f"the checker died while it loaded the problem:\n{self._log_tail()}") from error
        _raise_reported(reply)
        facts: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in reply["facts"].items()}
        return ProblemFacts(**facts, triton=importlib.metadata.version("triton"))

    def _log_tail(self) -> str:
        return self._nursery.log_tail() if self._nursery else ""

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- evaluation ------------------------------------------------------------------------------------------------

    async def evaluate_async(self, source: str, on_stage: Callable[[str], None] | None = None) -> Evaluation:
        """`evaluate` for callers in an event loop."""
        return await asyncio.to_thread(self.evaluate, source, on_stage)

    def evaluate(self, source: str, on_stage: Callable[[str], None] | None = None) -> Evaluation:
        """The verdict on one candidate; raises `InstrumentError` where none could be reached."""
        with contextlib.ExitStack() as stack:
            job_id, answers = self._register(stack)
            workers = [_Worker(self, mode, stack) for mode in needed_modes(self.settings)]
            fds = tuple(worker.channel.fileno() for worker in workers)
            try:
                self._checker.send({"op": "judge", "job": job_id, "source": source}, fds=fds)
            except ChannelClosed as error:
                raise WorkerLost("the checker is gone", remedy="start the evaluator anew") from error
            for worker in workers:
                worker.channel.sock.close()
            verdict = self._await_verdict(answers, on_stage)
            for worker in workers:
                worker.end(gently=bool(verdict["worker_died"]))
            return self._conclude(source, verdict, workers)

    def _register(self, stack: contextlib.ExitStack) -> tuple[int, queue.SimpleQueue[dict[str, Any]]]:
        answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with self._lock:
            if self._lost:
                raise WorkerLost(self._lost, remedy="start the evaluator anew")
            self._next_job += 1
            job_id = self._next_job
            self._jobs[job_id] = answers
        stack.callback(self._jobs.pop, job_id, None)
        return job_id, answers

    def _listen(self) -> None:
        """Hand what the checker says to whoever waits for it."""
        while True:
            try:
                message, _ = self._checker.receive()
            except (ChannelClosed, OSError, ValueError):
                break
            waiting = self._jobs.get(message.get("job", 0))
            if waiting is not None:
                waiting.put(message)
        with self._lock:
            self._lost = f"the checker died:\n{self._log_tail()}"
            for waiting in self._jobs.values():
                waiting.put({"lost": self._lost})

    def _await_verdict(
        self, answers: queue.SimpleQueue[dict[str, Any]], on_stage: Callable[[str], None] | None
    ) -> dict[str, Any]:
        while True:
            try:
                message = answers.get(timeout=self.settings.total_timeout_s + VERDICT_SLACK_S)
            except queue.Empty as error:
                raise InstrumentError("the checker gave no verdict in time") from error
            if "lost" in message:
                raise WorkerLost(message["lost"])
            _raise_reported(message)
            if "verdict" in message:
                verdict: dict[str, Any] = message["verdict"]
                return verdict
            if on_stage is not None:
                on_stage(message["stage"])

    def _conclude(self, source: str, verdict: dict[str, Any], workers: list[_Worker]) -> Evaluation:
        environment = Environment(
            mode="gpu" if self.settings.device == "cuda" else "interpreter",
            device=self.facts.device,
            python=self.facts.python,
            torch=self.facts.torch,
            triton=self.facts.triton,
            target=self.settings.target,
            sandbox=tuple(verdict["layers"]),
            grader=GRADER,
        )
        finding = Finding(verdict["finding"]) if verdict["finding"] else None
        if finding is not None:
            workspace.require_room(self._folder)
        message = verdict["message"]
        if verdict["worker_died"]:
            finding, message = _how_it_died(message, workers)
        return evaluation_from(
            verdict,
            candidate=candidate_id(source),
            problem=self.spec.digest,
            status=DECISIONS[finding].status if finding else Status.PASSED,
            finding=finding,
            message=message,
            environment=environment,
            facts=self.facts,
        )


class _Worker:
    """One candidate worker seen from the driver: its end of the channel, its scratch folder, its end."""

    def __init__(self, evaluator: Evaluator, mode: str, stack: contextlib.ExitStack) -> None:
        settings = evaluator.settings
        self.scratch = tempfile.mkdtemp(prefix=f"{mode}-", dir=evaluator._folder)
        stack.callback(shutil.rmtree, self.scratch, ignore_errors=True)
        self.box = _box(settings, stack)
        confinement = Confinement(
            scratch=self.scratch,
            gpu=mode == "gpu",
            limits=Limits(memory_bytes=settings.memory_bytes, cpu_s=int(settings.total_timeout_s) + 30),
            cgroup=str(self.box.path) if self.box else "",
        )
        self.channel, theirs = Channel.pair()
        stack.callback(self.channel.sock.close)
        self.child: Child | None = evaluator._modes[mode].fork(
            "worker",
            theirs,
            {
                "scratch": self.scratch,
                "mode": mode,
                "target": settings.target or DEFAULT_TARGET,
                "confinement": to_json(confinement) if settings.confine else None,
            },
        )
        self.status: int | None = None
        stack.callback(self.end)

    def end(self, gently: bool = False) -> None:
        """Reap the process; `gently` lets one that is dying finish, so that its own exit status is seen."""
        if self.child is not None:
            self.status = self.child.reap(2.0 if gently else 0.0)
            self.child = None

    def ran_out_of_memory(self) -> bool:
        return self.box is not None and self.box.ran_out_of_memory()

    def output_tail(self) -> str:
        with contextlib.suppress(OSError), open(os.path.join(self.scratch, "output.txt"), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
            return file.read().decode(errors="replace")
        return ""


def _require_layers() -> None:
    missing = [layer for layer in probe() if layer.name in ESSENTIAL and not layer.available]
    if missing:
        said = "; ".join(f"{layer.name}: {layer.why}" for layer in missing)
        raise InstrumentError(
            f"the sandbox lacks {said}", remedy="see `triton-agent doctor`, or do without --require-sandbox"
        )


def _reap_if_possible(checker: Child) -> None:
    """A zygote that is gone takes nothing with it, but the checker ends by itself: its driver has hung up."""
    with contextlib.suppress(WorkerLost):
        checker.reap()


def needed_modes(settings: EvaluatorSettings) -> tuple[str, ...]:
    """The kinds of worker a candidate needs, the one that runs it first."""
    if settings.device == "cuda":
        return ("gpu",)
    return ("interpreter", "compiler") if settings.target else ("interpreter",)


def checker_settings(spec: ProblemSpec, chosen: EvaluatorSettings) -> dict[str, Any]:
    """What a checker must be told of a problem and of how to judge, as plain data."""
    judge = {
        "target": chosen.target,
        "allow_library": chosen.allow_library,
        "screen": chosen.screen,
        "call_timeout_s": chosen.call_timeout_s,
        "compile_timeout_s": chosen.compile_timeout_s,
        "total_timeout_s": chosen.total_timeout_s,
        "device": chosen.device,
    }
    plan = {"modes": list(chosen.modes), "remedies": chosen.remedies, "family": chosen.shapes == "family"}
    plan["device"] = chosen.device
    return {"spec": spec.to_json(), "judge": judge, "plan": plan}


def _box(settings: EvaluatorSettings, stack: contextlib.ExitStack) -> CgroupBox | None:
    """A control group for one worker, where this user may make one."""
    if not settings.confine or delegated_group()[0] is None:
        return None
    box = CgroupBox(memory_bytes=settings.memory_bytes + (1 << 30), processes=512)
    return stack.enter_context(box)


def _how_it_died(message: str, workers: list[_Worker]) -> tuple[Finding, str]:
    """Name the death of a candidate's process by how the operating system saw it end."""
    if any(worker.ran_out_of_memory() for worker in workers):
        return Finding.MEMORY, f"{message}: it used more memory than it may"
    codes = [worker.status for worker in workers if worker.status not in (None, -signal.SIGKILL)]
    code = codes[0] if codes else -signal.SIGKILL
    if code == -signal.SIGXCPU:
        return Finding.TOO_SLOW, f"{message}: its processor time was used up"
    how = f"by signal {signal.Signals(-code).name}" if code and code < 0 else f"with exit status {code}"
    tail = "\n".join(line for line in workers[0].output_tail().splitlines()[-4:])
    return Finding.CRASHED, f"{message}, {how}, without a verdict" + (f"\nits last words: {tail[:300]}" if tail else "")


def _raise_reported(message: dict[str, Any]) -> None:
    if "error" in message:
        raise error_from_json(message["error"])
    if "bug" in message:
        raise RuntimeError(f"a bug of ours in the checker:\n{message['bug']}")


def candidate_id(source: str) -> str:
    """A candidate's identity: the hash of its text."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()

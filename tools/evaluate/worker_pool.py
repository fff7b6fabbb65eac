"""The worker processes of candidates: forked, lent to the checker, then reused or ended.

A tracer runs a candidate's Python, so it is used once. Compile workers, and executors on a GPU, only handle checked
kernels: they serve one candidate after another, until something goes wrong in them. An executor without a GPU runs
checked kernels as Python, and is used once. Beside a GPU there is one as well: the interpreter sees the numbers that
kernels compute.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from triton_agent.tools.errors import WorkerLost
from triton_agent.tools.machine.lease import Mode, lease
from triton_agent.tools.processes.deaths import Exit
from triton_agent.tools.processes.holdings import MAPPINGS_AT_ONCE
from triton_agent.tools.processes.protocol import HandedOver, WorkerSettings, WorkerState
from triton_agent.tools.processes.watchdog import Lent, Watch, nothing, watchdog
from triton_agent.tools.processes.wire import Channel
from triton_agent.tools.processes.zygotes import Child, Zygote
from triton_agent.tools.sandbox.cgroup import CgroupBox, delegated_group
from triton_agent.tools.sandbox.sandbox import GIB, Confinement, Limits

TRACER, COMPILER, INTERPRETER, GPU = "tracer", "compiler", "interpreter", "gpu"
"""Kinds of process, which are also the modes of the zygotes that they are forked from."""
ROLES = {TRACER: "tracer", COMPILER: "compiler", INTERPRETER: "executor", GPU: "executor"}
REUSED = frozenset({COMPILER, GPU})
COMPILERS_OF_ONE = 4
"""Maximum number of compile workers for one candidate: few of its tapes need different kernels."""
CANDIDATES_OF_ONE = 200
"""Maximum number of candidates that a process serves: compiled kernels are never unloaded from a context."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """Settings of all processes of one evaluator."""

    executor: str
    """`interpreter` or `gpu`."""
    compiles: bool
    """True if kernels are compiled in separate processes."""
    target: str
    card: dict[str, object]
    """Properties of the GPU, as shown to host code."""
    folder: Path
    memory_bytes: int
    """Host memory that one candidate may use."""
    copies_bytes: int
    """Additional memory of an executor for inputs and outputs."""
    cpu_s: int
    confine: bool = True
    gpu: str = ""
    """UUID of the GPU on which executors create contexts; empty if they create none."""
    compilers: int = 1
    """Maximum number of processes that compile, in total."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """The processes of one candidate."""

    workers: list[Worker]

    def descriptors(self) -> tuple[int, ...]:
        return tuple(worker.channel.fileno() for worker in self.workers)

    def handed_over(self) -> tuple[HandedOver, ...]:
        """Return what the checker needs to know about each process, in the order of their descriptors."""
        return tuple(HandedOver(kind=worker.kind, is_warm=worker.is_warm) for worker in self.workers)

    def let_go(self) -> None:
        """Close the sockets that now belong to the checker."""
        for worker in self.workers:
            if worker.kind not in REUSED:
                worker.channel.sock.close()

    def keep(self, states: Sequence[WorkerState]) -> None:
        """Record which processes may serve another candidate."""
        for worker, state in zip(self.workers, states):
            worker.is_sound = state is not WorkerState.ENDED
            worker.is_warm = worker.is_warm or state is WorkerState.WARM


class WorkerPool:
    """All processes of one evaluator. Every method may be called from any thread."""

    def __init__(self, zygotes: dict[str, Zygote], settings: PoolSettings, lent: Lent = nothing) -> None:
        """`lent` returns the in-memory files that the checker shares with this process."""
        self._zygotes = zygotes
        self._settings = settings
        self._lent = lent
        self._idle: dict[str, list[Worker]] = {kind: [] for kind in REUSED}
        self._at_work = 0
        self._closed = False
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def team(self, *, reads: bool = False) -> Iterator[Team]:
        """Provide the processes for one candidate; those that cannot be reused end with the block.

        With `reads`, a GPU's executor gets the interpreter beside it, which a verdict needs.
        """
        with self._lock:
            self._at_work += 1
            share = max(1, min(COMPILERS_OF_ONE, self._settings.compilers // self._at_work))
        kinds = [TRACER, self._settings.executor]
        kinds += [INTERPRETER] if reads and self._settings.executor == GPU else []
        kinds += [COMPILER] * share if self._settings.compiles else []
        workers: list[Worker] = []
        try:
            for kind in kinds:
                workers.append(self._take(kind))
            yield Team(workers=workers)
        finally:
            with self._lock:
                self._at_work -= 1
            for worker in workers:
                self._give_back(worker)

    def _take(self, kind: str) -> Worker:
        with self._lock:
            idle = self._idle.get(kind)
            worker = idle.pop() if idle else None
        if worker is None:
            worker = Worker(self._zygotes[kind], kind, self._settings, self._lent)
        worker.is_sound = False
        return worker

    def _give_back(self, worker: Worker) -> None:
        worker.served += 1
        with self._lock:
            keeps = worker.kind in REUSED and worker.is_sound and worker.child is not None and not self._closed
            if keeps and worker.served < CANDIDATES_OF_ONE:
                self._idle[worker.kind].append(worker)
                return
        self._end(worker)

    def _end(self, worker: Worker) -> None:
        """End a process, but not during timing: destroying a context keeps the GPU's driver busy."""
        if worker.kind != GPU or worker.child is None:
            worker.end()
            return
        with lease(self._settings.gpu, what="triton-agent: ending a process", mode=Mode.SHARED):
            worker.end()

    def close(self) -> None:
        """End the idle processes."""
        with self._lock:
            self._closed = True
            idle = [worker for workers in self._idle.values() for worker in workers]
            for workers in self._idle.values():
                workers.clear()
        for worker in idle:
            self._end(worker)


class Worker:
    """One process, with its channel, scratch folder and exit status."""

    def __init__(self, zygote: Zygote, kind: str, settings: PoolSettings, lent: Lent = nothing) -> None:
        self.kind = kind
        self.exit: Exit | None = None
        """How it ended; known after `end`."""
        self.served = 0
        """Number of candidates served."""
        self.is_sound = False
        """True if it may serve another candidate."""
        self.is_warm = False
        """True once it has reported that it is ready."""
        self.watch: Watch | None = None
        with contextlib.ExitStack() as stack:
            self.scratch: str = tempfile.mkdtemp(prefix=f"{kind}-", dir=settings.folder)
            stack.callback(shutil.rmtree, self.scratch, ignore_errors=True)
            self.box = _box(settings, stack)
            self.channel, theirs = Channel.pair()
            stack.callback(self.channel.sock.close)
            self.child: Child | None = zygote.fork(ROLES[kind], theirs, self._told(settings, lent))
            stack.callback(self._reap)
            if self.box is None:
                limit = settings.memory_bytes + settings.copies_bytes
                watching = watchdog().watching(self.child.pid, scratch=self.scratch, limit_bytes=limit, lent=lent)
                self.watch = stack.enter_context(watching)
            self._stack = stack.pop_all()

    def _told(self, settings: PoolSettings, lent: Lent) -> WorkerSettings:
        mapped = MAPPINGS_AT_ONCE * sum(lent().values())
        cache = str(settings.folder / "kernels") if settings.gpu and self.kind in REUSED else ""
        if cache:
            os.makedirs(cache, exist_ok=True)
        cpu_s = settings.cpu_s * (CANDIDATES_OF_ONE if self.kind in REUSED else 1)
        confinement = Confinement(
            scratch=self.scratch,
            writable=(cache,) if cache else (),
            gpu=self.kind == GPU,
            limits=Limits(
                memory_bytes=settings.memory_bytes,
                mapped_bytes=mapped,
                file_bytes=GIB + settings.copies_bytes,
                cpu_s=cpu_s,
            ),
            cgroup=str(self.box.path) if self.box else "",
        )
        return WorkerSettings(
            kind=self.kind,
            scratch=self.scratch,
            target=settings.target,
            card=settings.card,
            cache=cache,
            gpu=settings.gpu if self.kind == GPU else "",
            confinement=confinement if settings.confine else None,
        )

    def end(self, gently: bool = False) -> None:
        """Reap the process and remove its files; a second call does nothing.

        `gently` lets a dying process finish, to get its own exit status.
        """
        if self.child is None:
            return
        status = self._reap(gently)
        if self.watch is not None:
            out_of_memory = self.watch.exceeded_bytes > 0
        else:
            out_of_memory = self.box is not None and self.box.ran_out_of_memory()
        words = b""
        with contextlib.suppress(OSError), open(os.path.join(self.scratch, "output.txt"), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
            words = file.read()
        self.exit = Exit(status=status, out_of_memory=out_of_memory, last_words=words.decode(errors="replace"))
        self._stack.close()

    def _reap(self, gently: bool = False) -> int | None:
        if self.child is None:
            return None
        if self.watch is not None:
            watchdog().forget(self.watch)
        child, self.child = self.child, None
        with contextlib.suppress(WorkerLost):  # its zygote ended, and the process with it
            return child.reap(2.0 if gently else 0.0)
        return None


def exits_of(workers: Iterable[Worker]) -> list[Exit]:
    """End processes that are dying, and return how they ended."""
    ended = list(workers)
    for worker in ended:
        worker.end(gently=True)
    return [worker.exit for worker in ended if worker.exit is not None]


def _box(settings: PoolSettings, stack: contextlib.ExitStack) -> CgroupBox | None:
    """Make a control group for one worker, if this user is allowed to."""
    if not settings.confine or delegated_group()[0] is None:
        return None
    return stack.enter_context(CgroupBox(memory_bytes=settings.memory_bytes + (1 << 30), processes=512))

"""The candidate workers as their driver sees them: forked, handed to the checker, ended; some of them ahead of time.

A worker is used for one candidate and never again. On a GPU it makes its context before it says READY, so spares are
forked while earlier candidates run, as many as were asked for at once. Ending a context keeps the GPU's driver busy as
well, so it happens behind the verdict's back, and never under the clock.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from triton_agent.tools.errors import WorkerLost
from triton_agent.tools.isolate.cgroup import CgroupBox, delegated_group
from triton_agent.tools.isolate.holdings import MAPPINGS_AT_ONCE
from triton_agent.tools.isolate.processes import Child, Zygote
from triton_agent.tools.isolate.sandbox import Confinement, Limits
from triton_agent.tools.isolate.watchdog import Lent, Watch, nothing, watchdog
from triton_agent.tools.isolate.wire import Channel
from triton_agent.tools.results import Finding, to_json
from triton_agent.tools.timing.lease import Mode, lease

COMPILER = "compiler"
COMPILERS_OF_ONE = 4
"""For one candidate at most: it is compiled for several sizes, of which few need other kernels."""
SPARES_AT_MOST = 8
"""Each holds some 400 MB of the GPU; more of them only stand in line for the driver."""
UNDERTAKERS = 4
FILES_A_VETERAN_RUNS = 200
"""Compiled kernels are never unloaded from a context."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CrewSettings:
    """What every worker of one evaluator is given."""

    modes: tuple[str, ...]
    """Of the workers that one candidate needs; the one that runs it first."""
    target: str
    folder: Path
    memory_bytes: int
    """What a candidate may use on the host."""
    copies_bytes: int
    """What we ourselves put into a worker, beside that."""
    cpu_s: int
    confine: bool = True
    gpu: str = ""
    """UUID of the GPU that workers make contexts on; empty where they make none."""
    compilers: int = 0
    """Processes that may compile ahead for candidates on that GPU, all together."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """The workers of one candidate."""

    judged: list[Worker]
    """What happens to these is the candidate's doing."""
    compilers: list[Worker]
    """Without a GPU: they fill the candidate's own cache of compiled kernels, before it has its turn on one."""

    def descriptors(self) -> tuple[int, ...]:
        return tuple(worker.channel.fileno() for worker in (*self.judged, *self.compilers))

    def let_go(self) -> None:
        """Of the sockets, which are another's now."""
        for worker in (*self.judged, *self.compilers):
            worker.channel.sock.close()


class Crew:
    """All workers of one evaluator. Every method may be called from any thread."""

    def __init__(self, zygotes: dict[str, Zygote], settings: CrewSettings, lent: Lent = nothing) -> None:
        """`lent`: the files in memory that the checker hands to workers."""
        self._zygotes = zygotes
        self._settings = settings
        self._lent = lent
        self._spares: list[Worker] = []
        self._veterans: list[Worker] = []
        self._busy = 0
        self._at_work = 0
        self._wanted = 0
        self._closed = False
        self._lock = threading.Lock()
        self._undertaking = concurrent.futures.ThreadPoolExecutor(UNDERTAKERS, thread_name_prefix="undertaker")

    @contextlib.contextmanager
    def team(self) -> Iterator[Team]:
        """Fresh workers for one candidate, one of each mode; ended with the block at the latest."""
        with self._lock:
            self._busy += 1
            self._wanted = min(max(self._wanted, self._busy), SPARES_AT_MOST if self._settings.gpu else 0)
        workers: list[Worker] = []
        try:
            workers += [self._spare(mode) for mode in self._settings.modes]
            self._top_up()
            with self._compilers(workers[0], COMPILERS_OF_ONE) as compilers:
                yield Team(judged=workers, compilers=compilers)
        finally:
            with self._lock:
                self._busy -= 1
            for worker in workers:
                self._dismiss(worker)

    @contextlib.contextmanager
    def veteran(self) -> Iterator[Team]:
        """A worker that may have run other files of a trusted author; another's next, unless it is found `spoiled`."""
        with self._lock:
            worker = self._veterans.pop() if self._veterans else None
        worker = worker or self._fork(self._settings.modes[0])
        try:
            with self._compilers(worker, 1) as compilers:
                yield Team(judged=[worker], compilers=compilers)
        except BaseException:
            worker.spoiled = True
            raise
        finally:
            worker.files_run += 1
            if worker.spoiled or worker.files_run >= FILES_A_VETERAN_RUNS or self._closed:
                self._dismiss(worker)
            else:
                with self._lock:
                    self._veterans.append(worker)

    @contextlib.contextmanager
    def _compilers(self, of: Worker, at_most: int) -> Iterator[list[Worker]]:
        """The candidate's share of those that compile ahead; ended with the block."""
        with self._lock:
            self._at_work += 1
            share = min(at_most, self._settings.compilers // self._at_work)
        compilers: list[Worker] = []
        try:
            compilers += [self._fork(COMPILER, of=of) for _ in range(share)]
            yield compilers
        finally:
            with self._lock:
                self._at_work -= 1
            for worker in compilers:
                worker.end()

    def _spare(self, mode: str) -> Worker:
        with self._lock:
            spare = self._spares.pop(0) if self._spares else None
        return spare or self._fork(mode)

    def _top_up(self) -> None:
        with self._lock:
            missing = 0 if self._closed else self._wanted - len(self._spares)
            self._spares += [self._fork(self._settings.modes[0]) for _ in range(missing)]

    def _fork(self, mode: str, of: Worker | None = None) -> Worker:
        return Worker(self._zygotes[mode], mode, self._settings, self._lent, of)

    def _dismiss(self, worker: Worker) -> None:
        """End it: at once, or behind our back where that takes the GPU's driver a while."""
        if not self._settings.gpu:
            worker.end()
        elif worker.child is not None:
            self._undertaking.submit(self._bury, worker)

    def _bury(self, worker: Worker) -> None:
        with lease(self._settings.gpu, what="triton-agent: ending a worker", mode=Mode.SHARED):
            worker.end()

    def close(self) -> None:
        """End those that stand by, and wait until the last worker has ended."""
        with self._lock:
            self._closed = True
            idle = [*self._spares, *self._veterans]
            self._spares, self._veterans = [], []
        for worker in idle:
            self._undertaking.submit(self._bury, worker)
        self._undertaking.shutdown(wait=True)


class Worker:
    """One candidate worker: its end of the channel, its scratch folder, its end."""

    def __init__(
        self, zygote: Zygote, mode: str, settings: CrewSettings, lent: Lent = nothing, of: Worker | None = None
    ) -> None:
        """One that compiles ahead is `of` the worker in whose folder the kernels are kept."""
        self.status: int | None = None
        """How it ended; this and the next two are known after `end`."""
        self.out_of_memory = False
        self.last_words = ""
        self.files_run = 0
        self.spoiled = False
        """Something went wrong in it, so it runs nothing more."""
        self.watch: Watch | None = None
        with contextlib.ExitStack() as stack:
            self.scratch: str = tempfile.mkdtemp(prefix=f"{mode}-", dir=of.scratch if of else settings.folder)
            self._reach = of.scratch if of else self.scratch
            stack.callback(shutil.rmtree, self.scratch, ignore_errors=True)
            self.box = _box(settings, stack)
            self.channel, theirs = Channel.pair()
            stack.callback(self.channel.sock.close)
            self.child: Child | None = zygote.fork("worker", theirs, self._told(mode, settings, lent))
            stack.callback(self._reap)
            if self.box is None:
                limit = settings.memory_bytes + settings.copies_bytes
                watching = watchdog().watching(self.child.pid, scratch=self.scratch, limit_bytes=limit, lent=lent)
                self.watch = stack.enter_context(watching)
            self._stack = stack.pop_all()

    def _told(self, mode: str, settings: CrewSettings, lent: Lent) -> dict[str, object]:
        mapped = MAPPINGS_AT_ONCE * sum(lent().values())
        confinement = Confinement(
            scratch=self._reach,
            gpu=mode == "gpu",
            limits=Limits(memory_bytes=settings.memory_bytes, mapped_bytes=mapped, cpu_s=settings.cpu_s),
            cgroup=str(self.box.path) if self.box else "",
        )
        return {
            "scratch": self.scratch,
            "mode": mode,
            "target": settings.target,
            "gpu": settings.gpu if mode != COMPILER else "",
            "confinement": to_json(confinement) if settings.confine else None,
        }

    def end(self, gently: bool = False) -> None:
        """Reap the process and remove what it left; nothing happens the second time.

        `gently` lets one that is dying finish, so that its own exit status is seen.
        """
        if self.child is None:
            return
        self._reap(gently)
        self.out_of_memory = self._ran_out_of_memory()
        self.last_words = self._output_tail()
        self._stack.close()

    def _reap(self, gently: bool = False) -> None:
        if self.child is None:
            return
        if self.watch is not None:
            watchdog().forget(self.watch)
        child, self.child = self.child, None
        with contextlib.suppress(WorkerLost):  # its zygote is gone, and took it along
            self.status = child.reap(2.0 if gently else 0.0)

    def _ran_out_of_memory(self) -> bool:
        if self.watch is not None:
            return self.watch.exceeded_bytes > 0
        return self.box is not None and self.box.ran_out_of_memory()

    def _output_tail(self) -> str:
        with contextlib.suppress(OSError), open(os.path.join(self.scratch, "output.txt"), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
            return file.read().decode(errors="replace")
        return ""


def how_it_died(message: str, workers: list[Worker]) -> tuple[Finding, str]:
    """Name the death of a candidate's process by how the operating system saw it end."""
    if any(worker.out_of_memory for worker in workers):
        return Finding.MEMORY, f"{message}: it used more memory than it may"
    codes = [worker.status for worker in workers if worker.status not in (None, -signal.SIGKILL)]
    code = codes[0] if codes else -signal.SIGKILL
    if code == -signal.SIGXCPU:
        return Finding.TOO_SLOW, f"{message}: its processor time was used up"
    how = f"by signal {signal.Signals(-code).name}" if code and code < 0 else f"with exit status {code}"
    tail = "\n".join(line for line in workers[0].last_words.splitlines()[-4:])
    return Finding.CRASHED, f"{message}, {how}, without a verdict" + (f"\nits last words: {tail[:300]}" if tail else "")


def _box(settings: CrewSettings, stack: contextlib.ExitStack) -> CgroupBox | None:
    """A control group for one worker, where this user may make one."""
    if not settings.confine or delegated_group()[0] is None:
        return None
    return stack.enter_context(CgroupBox(memory_bytes=settings.memory_bytes + (1 << 30), processes=512))

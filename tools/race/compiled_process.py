"""Compiles the reference with torch.compile in a separate process, and then times the result there.

It compiles while the checker prepares the cases, concurrently with other processes. It is stopped whenever a process
wants the GPU alone (`race/giving_way.py`), so that no race waits for the compiler. The compiler's own worker processes,
which do not use the GPU, continue meanwhile on the cores that are not reserved for the clock. After compiling, the
process waits for requests, and uses the GPU only while it answers one. It draws its own inputs, as many sets as the
candidates are timed on.

It is forked from the checker before the checker initialises CUDA, which does not survive a fork.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import mmap
import os
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from triton_agent.tools.cases.distributions import randomise
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.child import leave_cores_to_the_clock
from triton_agent.tools.processes.codec import from_plain, to_plain
from triton_agent.tools.processes.protocol import (
    BaselineRequest,
    CountSeries,
    Done,
    Entered,
    EnterRaces,
    LeaveRaces,
    ReadBaseline,
    Readings,
    SeriesCounted,
)
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.processes.wire import Channel, ChannelClosed, ChannelGarbled, ChannelTimeout
from triton_agent.tools.race.baselines import compiled, import_compiler
from triton_agent.tools.race.clock import Clock, ClockSettings, Subject, is_large_set, timing_sets
from triton_agent.tools.race.giving_way import GivingWay, Lease
from triton_agent.tools.race.late_value import TELL_EVERY_S
from triton_agent.tools.race.readings import Calibration, Sample
from triton_agent.tools.reference.input_tensors import map_tensors
from triton_agent.tools.reference.reference import Reference, load
from triton_agent.tools.sandbox import privileges

MOST_THREADS = 8
SEED = 1
"""Seed of the model and of the first inputs. Its value does not matter: compilation depends on shapes and dtypes."""
ANSWER_S = 120.0
LONGEST_CALLS = 60
"""An answer may take `ANSWER_S` plus the time of this many calls of the reference."""

Reply = TypeVar("Reply")


class CompiledLost(InstrumentError):
    """The process no longer answers. That does not count against any candidate."""


class CompiledProcess:
    """The checker's side. The process compiles from `share` on, and answers requests once `wait` has returned True."""

    def __init__(
        self,
        spec: ProblemSpec,
        names: tuple[str, ...],
        conditions: Conditions,
        *,
        train: bool,
        limit_s: float,
    ) -> None:
        """`limit_s`: time in which the process has to compile everything, not counting the time it is stopped."""
        self.limit_s = limit_s
        self.progress = Progress()
        self._keeper: GivingWay | None = None
        self._channel, theirs = Channel.pair()
        self._pid = os.fork() if names else 0
        if names and self._pid == 0:
            try:
                privileges.die_with_parent()
                os.setpgid(0, 0)  # own process group, so that Ctrl-Z and fg in the driver's terminal do not resume it
                self._channel.let_go()
                _work(spec, names, conditions, train, self.progress, theirs)
            except ChannelClosed:
                pass  # the checker has ended
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        theirs.let_go()

    def share(self, lease: Lease, awaited: Callable[[], bool]) -> None:
        """Let the process use the GPU under this lease while no process waits for the exclusive lease."""
        if self._pid:
            self._keeper = GivingWay(
                self._pid,
                lease,
                awaited,
                limit_s=self.limit_s,
                longest_call_s=self.progress.longest_call_s,
                uses_gpu=self.progress.uses_gpu,
                is_done=self.progress.is_done,
            )

    def wait(self, tell: Callable[[], None]) -> bool:
        """Wait until everything is compiled; return False on a timeout. `tell` is called periodically.

        The caller must not hold a lease of the GPU, since the process may need it.
        """
        if self._keeper is None:
            return True
        while not self._keeper.wait(TELL_EVERY_S):
            tell()
        return self._keeper.in_time

    def enter(self, calibration: Calibration) -> dict[str, str]:
        """Draw inputs and warm up the baselines; return the reason for each baseline that cannot be timed, else "".

        A shared lease is enough for this.
        """
        return self._ask(EnterRaces(calibration=calibration), Entered).troubles

    def leave(self) -> None:
        """Free large inputs until the next race."""
        self._ask(LeaveRaces(), Done)

    def series(self, name: str) -> int:
        """Return how many back-to-back calls are needed to measure the cost of one."""
        return self._ask(CountSeries(baseline=name), SeriesCounted).calls

    def read(self, name: str, turns: Sequence[int], series: int = 0, *, one_call: bool = False) -> list[Sample]:
        """Return a sample for each turn; see `Clock.read`."""
        request = ReadBaseline(baseline=name, turns=tuple(turns), series=series, one_call=one_call)
        return list(self._ask(request, Readings).samples)

    def end(self) -> None:
        """End the process."""
        self._channel.close()
        if self._keeper is not None:
            self._keeper.end()

    def _ask(self, request: BaselineRequest, answer: type[Reply]) -> Reply:
        limit_s = ANSWER_S + LONGEST_CALLS * self.progress.longest_call_s()
        try:
            self._channel.send(to_plain(request))
            plain, _ = self._channel.receive(limit_s)
        except (ChannelClosed, ChannelGarbled, ChannelTimeout) as error:
            why = f"gave no answer in {limit_s:.0f} s" if isinstance(error, ChannelTimeout) else "ended"
            raise CompiledLost(f"the process that runs torch.compile's baselines {why}") from error
        reply: Reply = from_plain(answer, plain)
        return reply


class Progress:
    """The process's progress, in shared memory: the longest call of the reference in seconds, and two flags."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 24)

    def longest_call_s(self) -> float:
        """Return 0 until the reference was called."""
        return float(struct.unpack_from("d", self._memory, 0)[0])

    def is_done(self) -> bool:
        """Return True once everything is compiled and nothing is queued on the GPU."""
        return bool(struct.unpack_from("d", self._memory, 8)[0])

    def uses_gpu(self) -> bool:
        """Return False while the compiler works on the processor and nothing is queued on the GPU."""
        return not struct.unpack_from("d", self._memory, 16)[0]

    @contextlib.contextmanager
    def off_gpu(self, *, off: bool = True) -> Iterator[None]:
        """Tell that nothing is queued on the GPU during the block; with `off` False, that something may be again."""
        before = self.uses_gpu()
        torch.cuda.synchronize()
        struct.pack_into("d", self._memory, 16, float(off))
        try:
            yield
        finally:
            torch.cuda.synchronize()
            struct.pack_into("d", self._memory, 16, float(not before))

    def finish(self) -> None:
        struct.pack_into("d", self._memory, 8, 1.0)

    def measured(self, original: torch.nn.Module, model: Any, args: list[Any]) -> Any:
        """Call a model and wait until the GPU has finished. Record the time if it is the reference."""
        began = time.monotonic()
        result = model(*args)
        torch.cuda.synchronize()
        if model is original:
            struct.pack_into("d", self._memory, 0, max(time.monotonic() - began, self.longest_call_s()))
        return result


# -- in the process ----------------------------------------------------------------------------------------------------


def _work(
    spec: ProblemSpec,
    names: tuple[str, ...],
    conditions: Conditions,
    train: bool,
    progress: Progress,
    channel: Channel,
) -> None:
    cores = os.sched_getaffinity(0)
    leave_cores_to_the_clock()
    import_compiler(min(MOST_THREADS, len(os.sched_getaffinity(0))))
    conditions.settle()
    os.kill(os.getpid(), signal.SIGSTOP)  # from here on the GPU is used, so wait until the parent holds a lease
    reference = load(spec)
    baselines = Baselines(reference, conditions)
    with reference.running("forward"), torch.no_grad(), conditions.calling("cuda"):
        for name in names:
            original = reference.make_model(SEED)
            randomise(original, SEED)
            baselines.compile(name, original.to("cuda").train(train), progress)
    baselines.drop_inputs()
    os.sched_setaffinity(0, cores)  # it runs timed calls from here on, so it may use the clock's cores
    progress.finish()
    while True:
        request: BaselineRequest = from_plain(BaselineRequest, channel.receive()[0])
        with reference.running("forward"):
            channel.send(to_plain(baselines.answer(request)))


class Baselines:
    """The compiled modules, by the name of the baseline."""

    def __init__(self, reference: Reference, conditions: Conditions) -> None:
        self._reference = reference
        self._conditions = conditions
        self._modules: dict[str, Any] = {}
        self._troubles: dict[str, str] = {}
        self._sets: list[list[Any]] = [self._drawn(SEED)]
        self._subjects: dict[str, Subject] = {}
        self._clock: Clock | None = None

    def compile(self, name: str, original: torch.nn.Module, progress: Progress) -> None:
        """Compile the reference in one of torch's modes, and compare the outputs before and after."""
        module, self._troubles[name] = compiled(
            name, original, self._sets[0], functools.partial(progress.measured, original), progress.off_gpu
        )
        if module is not None:
            self._modules[name] = module

    def drop_inputs(self) -> None:
        """Free all memory on the device except that of the modules."""
        self._subjects, self._sets = {}, []
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def answer(self, request: BaselineRequest) -> Entered | SeriesCounted | Readings | Done:
        """Execute one request."""
        if isinstance(request, EnterRaces):
            return self._enter(request.calibration)
        if isinstance(request, LeaveRaces):
            if any(map(is_large_set, self._sets)):
                self.drop_inputs()
            return Done()
        assert self._clock is not None, "no race was entered"
        subject = self._subjects[request.baseline]
        if isinstance(request, CountSeries):
            return SeriesCounted(calls=self._clock.series_for(subject))
        samples = self._clock.read(subject, request.turns, request.series, one_call=request.one_call)
        return Readings(samples=tuple(samples))

    def _enter(self, calibration: Calibration) -> Entered:
        if not self._sets:
            self._sets = list(timing_sets(lambda number: self._drawn(SEED + number)))
        if not self._subjects:
            self._clock = Clock("cuda", ClockSettings(warm_up_s=0.0), calibration)
            for name, module in self._modules.items():
                self._subjects[name] = Subject([functools.partial(self._call, module, args) for args in self._sets])
                self._clock.warm_up(self._subjects[name])
        return Entered(troubles=dict(self._troubles))

    def _drawn(self, seed: int) -> list[Any]:
        drawn = self._reference.make_inputs_on("cuda", seed)
        return [map_tensors(value, lambda tensor: tensor.to("cuda")) for value in drawn]

    def _call(self, module: Any, args: list[Any]) -> Any:
        with torch.no_grad(), self._conditions.calling("cuda"):
            return module(*args)

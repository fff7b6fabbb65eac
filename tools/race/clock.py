"""Reads how long one call takes on a GPU: its device time, its latency as the caller feels it, its share of a series.

A sample is two calls. For *device time* a spin kernel holds the GPU back until the whole call is queued, so that two
events around it see the work and not the pauses of Python between launches; whether that succeeded is checked and
kept. For *latency* the GPU is idle before and idle after, and the host's clock sees all: guards, launches, other
streams. Each call gets its turn of the input sets and, by default, a cold L2 cache, emptied before the timing. On
request many calls are made *back to back*, with the caches as they leave them: where the host takes longer to queue a
call than the GPU to make it, that shows what the host costs.

Not covered: hostile Python in this process, which could patch this module (no candidate's Python runs where a clock
does); work on another stream, which shows in the latency only, so demand a win in both figures; keeping others off the
GPU (`lease.py`, `health.py`). There is no fallback on the CPU: it would time another program.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import functools
import gc
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from triton_agent.tools.errors import NotJudgeableHere
from triton_agent.tools.processes.tensors import nested_tensors
from triton_agent.tools.race.pairing import PairingSettings, take_turns
from triton_agent.tools.race.readings import Calibration, Overheads, Sample
from triton_agent.tools.race.samples import PairedSamples

Call = Callable[[], object]
Inputs = TypeVar("Inputs")

REMEMBERED = 9
FIRST_GUESS_MS = 0.1
LONGEST_HEAD_START_MS = 20.0
"""A call that is not queued by then waits for the GPU itself, or overfills its queue; more patience would not help."""
LEAST_HEAD_START_MS = 0.05
SHORT_MS = 0.05
"""With a warm cache, calls below this are repeated between the events, which tick every half microsecond or so."""
REPEATED_MS = 0.2
"""How long the repeats of a short call should take together."""
MOST_REPEATS = 200
CALIBRATION_SAMPLES = 15
QUEUED_CALLS = 200
"""Calls back to back: enough that the first one, for which the GPU was idle, does not count."""
SERIES_MS = 30.0
"""Fewer where these would take longer: the host is then ahead of the GPU anyway."""
LEAST_QUEUED_CALLS = 2
TIMING_SETS = 3
"""Sets of inputs that timed calls take in turn. With a single set, data left in a cache could look like speed."""
LARGE_SET_BYTES = 1 << 30
"""A set larger than this is the only one: no cache keeps so much from one call to the next."""
SPIN_CYCLES = 2_000_000
"""About a millisecond: long against the cost of its launch."""
MULTIPLE = 3
"""Times the L2 size. One would do were replacement strictly by age, which it is not."""
SMALLEST_BYTES = 32 * 2**20
"""Where the driver reports no cache size, this covers caches up to about 10 MiB."""
_WRAP = 2**31 - 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClockSettings:
    """How each call is prepared."""

    cold_l2: bool = True
    warm_up_s: float = 0.1
    """Enough for a GPU to leave its idle clocks."""
    warm_up_calls: int = 3


class Subject:
    """What is timed: calls without arguments, one for each set of inputs, and what the clock has learned of them.

    A single set of inputs would let a cache look like speed. Two subjects to be compared should take the same inputs:
    where a buffer lies can make a difference of its own.
    """

    def __init__(self, calls: Sequence[Call], refresh: Callable[[int], None] | None = None) -> None:
        """`refresh` runs before each call, outside the timed region; it may overwrite inputs in place."""
        if not calls:
            raise ValueError("a subject needs at least one call")
        self.calls = tuple(calls)
        self.refresh = refresh
        self.queueing_ms: collections.deque[float] = collections.deque(maxlen=REMEMBERED)
        """How long the host took to queue one call, lately."""
        self.waits_for_gpu = False
        """Found to wait for the GPU itself; holding that back would be in vain."""
        self.repeats = 1
        """Calls to one reading of the device time."""

    def usual_queueing_ms(self) -> float:
        """How long the host takes to queue one call; hold-ups of the host do not count."""
        return statistics.median(self.queueing_ms) if self.queueing_ms else FIRST_GUESS_MS

    def prepared(self, turn: int) -> Call:
        """The call whose turn it is, its inputs renewed."""
        if self.refresh is not None:
            self.refresh(turn)
        return self.calls[turn % len(self.calls)]


class Flusher:
    """Empties the L2 cache, so that each call reads its inputs from memory as it would in a larger program.

    A buffer of several times the cache is overwritten with a value not used before. Lines that a kernel marked as
    persisting would survive that; they are released first, where the driver can. Cached instructions are pushed out as
    well. Not covered: the caches of the multiprocessors (gone with each kernel) and the TLBs (partly warm).
    """

    def __init__(self, device: torch.device, multiple: int = MULTIPLE) -> None:
        cache_bytes = int(torch.cuda.get_device_properties(device).L2_cache_size)
        self.buffer_bytes = max(multiple * cache_bytes, SMALLEST_BYTES)
        try:
            self._buffer = torch.empty(self.buffer_bytes // 4, dtype=torch.int32, device=device)
        except torch.cuda.OutOfMemoryError as error:
            raise NotJudgeableHere(
                f"no room for the {self.buffer_bytes / 2**20:.0f} MiB that empty the L2 cache",
                where=str(device),
                remedy="free memory on the GPU, use smaller inputs, or measure with a warm cache and say so",
            ) from error
        self._turn = 0
        self._driver = _driver()
        self.releases_persisting = self._release_persisting()

    def flush(self) -> None:
        """Queues the overwrite; each has other contents than the last, so no hardware may skip it."""
        if self.releases_persisting:
            self._release_persisting()
        self._turn = (self._turn + 1) % _WRAP
        self._buffer.fill_(self._turn)

    def _release_persisting(self) -> bool:
        """Return True if the driver did so. It refuses where there are no persisting lines, as under MIG."""
        if self._driver is None:
            return False
        return bool(self._driver.cuCtxResetPersistingL2Cache() == 0)


def timing_sets(draw: Callable[[int], Inputs]) -> Iterator[Inputs]:
    """Yield the sets of inputs to time on; `draw` takes the number of a set."""
    for number in range(TIMING_SETS):
        drawn = draw(number)
        large = is_large_set(drawn)
        yield drawn
        if large:
            return


def is_large_set(inputs: Any) -> bool:
    return sum(tensor.nbytes for tensor in nested_tensors(inputs)) > LARGE_SET_BYTES


def _driver() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return library if hasattr(library, "cuCtxResetPersistingL2Cache") else None


class Clock:
    """A calibrated clock for one GPU. Hold its lease from construction on."""

    def __init__(
        self,
        device: torch.device | str = "cuda",
        settings: ClockSettings | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        """`calibration`: that of another clock, taken while the GPU was quiet; else it is found here."""
        self.settings = settings or ClockSettings()
        self.device = cuda_device(device)
        with torch.cuda.device(self.device):
            self._flusher = Flusher(self.device) if self.settings.cold_l2 else None
            self._cycles_per_ms = calibration.cycles_per_ms if calibration else _cycles_per_ms()
            self.overheads = calibration.overheads if calibration else self._calibrate()
        self.calibration = Calibration(cycles_per_ms=self._cycles_per_ms, overheads=self.overheads)

    @property
    def method(self) -> str:
        """How a reading comes about, for a record."""
        return (
            "device time by CUDA events on the caller's stream, queued behind a spin (an empty region reads "
            f"{self.overheads.event_ms * 1e3:.1f} us, not subtracted); latency by the host's clock from idle to idle "
            f"(round trip {self.overheads.round_trip_ms * 1e3:.1f} us); {self._cache_state()}"
        )

    def warm_up(self, subject: Subject) -> None:
        """Compiles, loads and allocates what the first calls need, and learns how long the host takes to queue one."""
        with self._in_charge():
            begun_s, calls = time.monotonic(), 0
            while calls < self.settings.warm_up_calls or time.monotonic() - begun_s < self.settings.warm_up_s:
                subject.prepared(calls)()
                torch.cuda.synchronize()
                calls += 1
            for turn in range(3):
                subject.queueing_ms.append(self._latency_ms(subject, turn)[1])
            subject.repeats = self._repeats(subject)

    def read(self, subject: Subject, turns: Sequence[int], series: int = 0) -> list[Sample]:
        """Return a sample for each turn, with so many calls back to back."""
        return [self.time_once(subject, turn, series) for turn in turns]

    def time_once(self, subject: Subject, turn: int = 0, series: int = 0) -> Sample:
        """Take one sample: two calls, on neighbouring sets of inputs, and a series of calls if it is asked for."""
        with self._in_charge():
            device_ms, queued = self._device_ms(subject, turn)
            host_ms, enqueue_ms = self._latency_ms(subject, turn + 1)
            per_call_ms = self._back_to_back_ms(subject, series) if series else None
        return Sample(
            device_ms=device_ms, host_ms=host_ms, enqueue_ms=enqueue_ms, queued=queued, back_to_back_ms=per_call_ms
        )

    def series_for(self, subject: Subject) -> int:
        """Return how many calls back to back show what one of them costs, for this subject and what races it."""
        with self._in_charge():
            per_call_ms = self._back_to_back_ms(subject, LEAST_QUEUED_CALLS)
        return max(LEAST_QUEUED_CALLS, min(QUEUED_CALLS, math.ceil(SERIES_MS / per_call_ms)))

    def measure(self, subject: Subject, samples: int = 40, limit_s: float = 60.0) -> tuple[Sample, ...]:
        """A subject alone, warmed up; fewer samples only where the time limit cuts in."""
        self.warm_up(subject)
        taken: list[Sample] = []
        begun_s = time.monotonic()
        while len(taken) < samples and not (taken and time.monotonic() - begun_s > limit_s):
            taken.append(self.time_once(subject, len(taken)))
        return tuple(taken)

    def measure_pairs(
        self, baseline: Subject, candidate: Subject, settings: PairingSettings | None = None
    ) -> PairedSamples:
        """Two subjects in turns, warmed up; see `pairing.take_turns`."""
        self.warm_up(baseline)
        self.warm_up(candidate)
        # Equal for both: what surrounds a call must not differ between the sides.
        repeats = baseline.repeats = candidate.repeats = max(baseline.repeats, candidate.repeats)
        return take_turns(
            functools.partial(self.read, baseline),
            functools.partial(self.read, candidate),
            settings or PairingSettings(),
            cold_l2=self.settings.cold_l2,
            overheads=self.overheads,
            method=self.method + (f"; mean of {repeats} calls a reading" if repeats > 1 else ""),
        )

    def _device_ms(self, subject: Subject, turn: int) -> tuple[float, bool]:
        """Device time, and whether the call was queued before the GPU came to it; retried with more of a head start.

        More for this reading alone: the host is held up now and then, and would make every later reading wait for it.
        """
        head_start_ms = min(LEAST_HEAD_START_MS + 2 * subject.usual_queueing_ms(), LONGEST_HEAD_START_MS)
        while True:
            device_ms, queued = self._between_events(subject, turn, head_start_ms)
            if queued or subject.waits_for_gpu:
                return device_ms, queued
            subject.waits_for_gpu = head_start_ms >= LONGEST_HEAD_START_MS
            head_start_ms = min(2 * head_start_ms, LONGEST_HEAD_START_MS)

    def _between_events(self, subject: Subject, turn: int, head_start_ms: float) -> tuple[float, bool]:
        call = subject.prepared(turn)
        stream = torch.cuda.current_stream()
        start, end = timing_event(), timing_event()
        torch.cuda.synchronize()
        self.flush()
        if not subject.waits_for_gpu:
            _spin(int(head_start_ms * subject.repeats * self._cycles_per_ms))
        begun_ns = time.perf_counter_ns()
        start.record(stream)
        for _ in range(subject.repeats):
            # Kept until the clock has stopped, so that freeing it is not part of the call.
            result = call()
        end.record(stream)
        queued = not start.query()  # type: ignore[no-untyped-call]
        subject.queueing_ms.append((time.perf_counter_ns() - begun_ns) / 1e6 / subject.repeats)
        torch.cuda.synchronize()
        del result
        return float(start.elapsed_time(end)) / subject.repeats, queued

    def _latency_ms(self, subject: Subject, turn: int) -> tuple[float, float]:
        """Return the host's time from idle to idle, and until the call returned."""
        call = subject.prepared(turn)
        self.flush()
        torch.cuda.synchronize()
        begun_ns = time.perf_counter_ns()
        result = call()
        returned_ns = time.perf_counter_ns()
        torch.cuda.synchronize()
        idle_ns = time.perf_counter_ns()
        del result
        return (idle_ns - begun_ns) / 1e6, (returned_ns - begun_ns) / 1e6

    def _back_to_back_ms(self, subject: Subject, calls: int) -> float:
        """Return the time per call of a series over all sets of inputs; no result is kept beyond its call."""
        series = [subject.prepared(turn) for turn in range(len(subject.calls))]
        torch.cuda.synchronize()
        begun_ns = time.perf_counter_ns()
        for _, call in zip(range(calls), itertools.cycle(series)):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter_ns() - begun_ns) / 1e6 / calls

    def _calibrate(self) -> Overheads:
        tiny = torch.zeros(1, device=self.device)
        nothing, least = Subject([lambda: None]), Subject([lambda: tiny.fill_(1.0)])
        turns = range(CALIBRATION_SAMPLES)
        empty_ms = [self.time_once(nothing, turn).device_ms for turn in turns]
        least_samples = [self.time_once(least, turn) for turn in turns]
        trips_ms = [sample.host_ms - sample.enqueue_ms - sample.device_ms for sample in least_samples]
        return Overheads(event_ms=statistics.median(empty_ms), round_trip_ms=max(statistics.median(trips_ms), 0.0))

    def _repeats(self, subject: Subject) -> int:
        if self.settings.cold_l2:
            return 1  # the second call of a series would find the cache warm
        device_ms = statistics.median(self._device_ms(subject, turn)[0] for turn in range(3))
        if device_ms >= SHORT_MS:
            return 1
        return min(math.ceil(REPEATED_MS / max(device_ms, 1e-4)), MOST_REPEATS)

    def flush(self) -> None:
        """Queue the emptying of the L2 cache, if this clock reads with a cold one."""
        if self._flusher is not None:
            self._flusher.flush()

    def _cache_state(self) -> str:
        if self._flusher is None:
            return "warm L2"
        released = "" if self._flusher.releases_persisting else ", persisting lines not released"
        return f"cold L2 ({self._flusher.buffer_bytes / 2**20:.0f} MiB overwritten before each call{released})"

    @contextlib.contextmanager
    def _in_charge(self) -> Iterator[None]:
        """On the right device and stream, whatever the call leaves behind, and without pauses to collect garbage."""
        collected = gc.isenabled()
        gc.disable()
        try:
            with torch.cuda.device(self.device), torch.cuda.stream(torch.cuda.current_stream(self.device)):
                yield
        finally:
            if collected:
                gc.enable()


def cuda_device(device: torch.device | str) -> torch.device:
    """The device with its index, refused where it cannot be measured."""
    if not torch.cuda.is_available():
        raise NotJudgeableHere("no CUDA GPU, so no speed", remedy="measure on a machine with one; nothing is estimated")
    wanted = torch.device(device)
    if wanted.type != "cuda":
        raise NotJudgeableHere(f"the clock reads CUDA devices, not {wanted}", remedy="pass a device such as cuda:0")
    return torch.device("cuda", torch.cuda.current_device() if wanted.index is None else wanted.index)


def _cycles_per_ms() -> float:
    """How many cycles of the spin kernel make a millisecond at present; the first runs raise the clocks."""
    rates = []
    for _ in range(5):
        start, end = timing_event(), timing_event()
        start.record()
        _spin(SPIN_CYCLES)
        end.record()
        end.synchronize()
        rates.append(SPIN_CYCLES / start.elapsed_time(end))
    return float(max(rates))


def timing_event() -> torch.cuda.Event:
    """An event that keeps the time."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _spin(cycles: int) -> None:
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]

"""Reads how long a call takes on a GPU: device time, latency for the caller, and time per call in a long series.

A sample takes two calls. For *device time*, a spin kernel occupies the GPU until the whole call is queued. Two events
around the call then measure its work without the pauses of Python between launches. Whether the call was queued in
time is checked and recorded. For *latency*, the GPU is idle before and after, and the host's clock measures everything:
guards, launches, other streams. Each call gets the next set of inputs and, by default, a cold L2 cache, flushed before
the timing starts. A long call may be made once, with both figures read from it. On request, many calls are made *back
to back*, with the caches in whatever state they leave them. If the host takes longer to queue a call than the GPU to
run it, that time shows the host's cost.

Not covered: hostile Python in this process, which could patch this module (no candidate's Python runs in the processes
that time); work on another stream, which shows in the latency only, so a win requires both figures; other users of the
GPU (`lease.py`, `health.py`). There is no fallback on the CPU, since it would time a different program.
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
"""Number of recent queueing times that a subject keeps."""
FIRST_GUESS_MS = 0.1
"""Queueing time that is assumed before the first call."""
LONGEST_HEAD_START_MS = 20.0
"""Longest spin before a call. A call that is not queued by then waits for the GPU itself or fills the launch queue, so
a longer spin would not help."""
LEAST_HEAD_START_MS = 0.05
SHORT_MS = 0.05
"""Calls shorter than this are repeated between the events if the cache is warm, since events resolve only about half a
microsecond."""
REPEATED_MS = 0.2
"""Target for the total time of the repeats of a short call."""
MOST_REPEATS = 200
CALIBRATION_SAMPLES = 15
QUEUED_CALLS = 200
"""Calls in a back-to-back series: enough to make the first one, which finds the GPU idle, negligible."""
SERIES_MS = 30.0
"""A series gets fewer calls if it would take longer than this: with calls that long, the host is ahead of the GPU."""
LEAST_QUEUED_CALLS = 2
TIMING_SETS = 3
"""Number of input sets that timed calls use in turn. With only one, data left in a cache could speed up a call."""
LARGE_SET_BYTES = 1 << 30
"""If one set is larger than this, it is the only one: no cache keeps that much from one call to the next."""
SPIN_CYCLES = 2_000_000
"""About a millisecond, much longer than a launch takes."""
MULTIPLE = 3
"""The flush buffer's size as a multiple of the L2 size. One would be enough only if the L2 evicted the oldest lines."""
SMALLEST_BYTES = 32 * 2**20
"""Least size of the flush buffer, for drivers that report no cache size; enough for caches up to about 10 MiB."""
_WRAP = 2**31 - 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClockSettings:
    """How each call is prepared."""

    cold_l2: bool = True
    warm_up_s: float = 0.1
    """Least duration of the warm-up: long enough for a GPU to leave its idle clock rates."""
    warm_up_calls: int = 3


class Subject:
    """The calls that are timed, one for each set of inputs, and what the clock has learned about them.

    With a single set of inputs, a cache could speed up the calls. Two subjects that are compared should get the same
    inputs, since the address of a buffer alone can change the time.
    """

    def __init__(self, calls: Sequence[Call], refresh: Callable[[int], None] | None = None) -> None:
        """`refresh` runs before each call, outside the timed region; it may overwrite inputs in place."""
        if not calls:
            raise ValueError("a subject needs at least one call")
        self.calls = tuple(calls)
        self.refresh = refresh
        self.queueing_ms: collections.deque[float] = collections.deque(maxlen=REMEMBERED)
        """How long the host took to queue each of the last calls."""
        self.waits_for_gpu = False
        """True if the call itself waits for the GPU, so holding the GPU back with a spin would not help."""
        self.repeats = 1
        """Number of calls per reading of the device time."""

    def usual_queueing_ms(self) -> float:
        """Return the median time that the host takes to queue one call, which ignores occasional delays of the host."""
        return statistics.median(self.queueing_ms) if self.queueing_ms else FIRST_GUESS_MS

    def prepared(self, turn: int) -> Call:
        """Return the call for this turn, with its inputs refreshed."""
        if self.refresh is not None:
            self.refresh(turn)
        return self.calls[turn % len(self.calls)]


class Flusher:
    """Flushes the L2 cache, so that each call reads its inputs from memory, as it would in a larger program.

    A buffer of several times the cache size is overwritten with a new value. Lines that a kernel marked as persisting
    would survive this, so they are reset first if the driver can do so. Cached instructions are evicted as well. Not
    covered: the L1 caches of the multiprocessors (invalidated at each launch) and the TLBs (which stay partly warm).
    """

    def __init__(self, device: torch.device, multiple: int = MULTIPLE) -> None:
        cache_bytes = int(torch.cuda.get_device_properties(device).L2_cache_size)
        self.buffer_bytes = max(multiple * cache_bytes, SMALLEST_BYTES)
        try:
            self._buffer = torch.empty(self.buffer_bytes // 4, dtype=torch.int32, device=device)
        except torch.cuda.OutOfMemoryError as error:
            raise NotJudgeableHere(
                f"no room for the {self.buffer_bytes / 2**20:.0f} MiB buffer that flushes the L2 cache",
                where=str(device),
                remedy="free memory on the GPU, use smaller inputs, or measure with a warm cache and say so",
            ) from error
        self._turn = 0
        self._driver = _driver()
        self.releases_persisting = self._release_persisting()

    def flush(self) -> None:
        """Queue the overwrite. The value differs from the last one, so that no hardware can skip redundant writes."""
        if self.releases_persisting:
            self._release_persisting()
        self._turn = (self._turn + 1) % _WRAP
        self._buffer.fill_(self._turn)

    def _release_persisting(self) -> bool:
        """Reset persisting lines; return True on success. The driver refuses if there can be none, as under MIG."""
        if self._driver is None:
            return False
        return bool(self._driver.cuCtxResetPersistingL2Cache() == 0)


def timing_sets(draw: Callable[[int], Inputs]) -> Iterator[Inputs]:
    """Yield the input sets to time on. `draw` takes the number of a set."""
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
    """A calibrated clock for one GPU. Hold the GPU's exclusive lease from construction on."""

    def __init__(
        self,
        device: torch.device | str = "cuda",
        settings: ClockSettings | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        """`calibration`: taken by another clock while the GPU was quiet; without it, the clock calibrates itself."""
        self.settings = settings or ClockSettings()
        self.device = cuda_device(device)
        with torch.cuda.device(self.device):
            self._flusher = Flusher(self.device) if self.settings.cold_l2 else None
            self._cycles_per_ms = calibration.cycles_per_ms if calibration else _cycles_per_ms()
            self.overheads = calibration.overheads if calibration else self._calibrate()
        self.calibration = Calibration(cycles_per_ms=self._cycles_per_ms, overheads=self.overheads)

    @property
    def method(self) -> str:
        """Describe how a reading is made, for a record."""
        return (
            "device time by CUDA events on the caller's stream, queued behind a spin (an empty region reads "
            f"{self.overheads.event_ms * 1e3:.1f} us, not subtracted); latency by the host's clock from idle to idle "
            f"(round trip {self.overheads.round_trip_ms * 1e3:.1f} us); {self._cache_state()}"
        )

    def warm_up(self, subject: Subject) -> None:
        """Let the first calls compile, load and allocate, and learn how long the host takes to queue a call."""
        with self._on_device_without_gc():
            begun_s, calls = time.monotonic(), 0
            while calls < self.settings.warm_up_calls or time.monotonic() - begun_s < self.settings.warm_up_s:
                subject.prepared(calls)()
                torch.cuda.synchronize()
                calls += 1
            for turn in range(3):
                subject.queueing_ms.append(self._latency_ms(subject, turn)[1])
            subject.repeats = self._repeats(subject)

    def read(self, subject: Subject, turns: Sequence[int], series: int = 0, *, one_call: bool = False) -> list[Sample]:
        """Return a sample for each turn, each with `series` back-to-back calls; see `time_once`."""
        return [self.time_once(subject, turn, series, one_call=one_call) for turn in turns]

    def time_once(self, subject: Subject, turn: int = 0, series: int = 0, *, one_call: bool = False) -> Sample:
        """Take one sample: two calls, on neighbouring input sets, and `series` back-to-back calls if it is not 0.

        With `one_call`, both times are those of one call, which is meant for long calls.
        """
        with self._on_device_without_gc():
            if one_call:
                device_ms, host_ms, enqueue_ms, queued = self._both_ms(subject, turn)
            else:
                device_ms, queued = self._device_ms(subject, turn)
                host_ms, enqueue_ms = self._latency_ms(subject, turn + 1)
            per_call_ms = self._back_to_back_ms(subject, series) if series else None
        return Sample(
            device_ms=device_ms, host_ms=host_ms, enqueue_ms=enqueue_ms, queued=queued, back_to_back_ms=per_call_ms
        )

    def series_for(self, subject: Subject) -> int:
        """Return how many back-to-back calls are needed to measure the cost of one, for this subject and its rival."""
        with self._on_device_without_gc():
            per_call_ms = self._back_to_back_ms(subject, LEAST_QUEUED_CALLS)
        return max(LEAST_QUEUED_CALLS, min(QUEUED_CALLS, math.ceil(SERIES_MS / per_call_ms)))

    def measure(self, subject: Subject, samples: int = 40, limit_s: float = 60.0) -> tuple[Sample, ...]:
        """Warm up and measure one subject alone. Fewer samples are taken only if the time limit is reached."""
        self.warm_up(subject)
        taken: list[Sample] = []
        begun_s = time.monotonic()
        while len(taken) < samples and not (taken and time.monotonic() - begun_s > limit_s):
            taken.append(self.time_once(subject, len(taken)))
        return tuple(taken)

    def measure_pairs(
        self, baseline: Subject, candidate: Subject, settings: PairingSettings | None = None
    ) -> PairedSamples:
        """Warm up two subjects and measure them in turns; see `pairing.take_turns`."""
        self.warm_up(baseline)
        self.warm_up(candidate)
        # Use the same number of repeats for both sides, since it affects the overhead in each reading.
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
        """Return the device time, and whether the call was queued before the GPU reached it.

        If it was not queued in time, this reading is repeated with a longer spin. Later readings start with the usual
        spin again: the host is delayed only now and then, and a longer spin would slow down every reading.
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
            # Keep the result until the clock has stopped, so that freeing it is not timed.
            result = call()
        end.record(stream)
        queued = not start.query()  # type: ignore[no-untyped-call]
        subject.queueing_ms.append((time.perf_counter_ns() - begun_ns) / 1e6 / subject.repeats)
        torch.cuda.synchronize()
        del result
        return float(start.elapsed_time(end)) / subject.repeats, queued

    def _latency_ms(self, subject: Subject, turn: int) -> tuple[float, float]:
        """Return the host's time from idle GPU to idle GPU, and the part of it until the call returned."""
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

    def _both_ms(self, subject: Subject, turn: int) -> tuple[float, float, float, bool]:
        """Return device time and latency of one call, the time for queueing it, and whether it was queued in time.

        The spin's time is subtracted from the latency, and with it what the host did meanwhile. So the latency lacks
        part of the queueing time.
        """
        call = subject.prepared(turn)
        stream = torch.cuda.current_stream()
        before, start, end = timing_event(), timing_event(), timing_event()
        head_start_ms = min(LEAST_HEAD_START_MS + 2 * subject.usual_queueing_ms(), LONGEST_HEAD_START_MS)
        self.flush()
        torch.cuda.synchronize()
        begun_ns = time.perf_counter_ns()
        before.record(stream)
        _spin(int(head_start_ms * self._cycles_per_ms))
        start.record(stream)
        result = call()
        end.record(stream)
        enqueue_ms = (time.perf_counter_ns() - begun_ns) / 1e6
        queued = not start.query()  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        host_ms = (time.perf_counter_ns() - begun_ns) / 1e6 - float(before.elapsed_time(start))
        del result
        subject.queueing_ms.append(enqueue_ms)
        return float(start.elapsed_time(end)), host_ms, enqueue_ms, queued

    def _back_to_back_ms(self, subject: Subject, calls: int) -> float:
        """Return the time per call of a series that cycles over all input sets. Each result is freed at once."""
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
            return 1  # a second call would find the cache warm
        device_ms = statistics.median(self._device_ms(subject, turn)[0] for turn in range(3))
        if device_ms >= SHORT_MS:
            return 1
        return min(math.ceil(REPEATED_MS / max(device_ms, 1e-4)), MOST_REPEATS)

    def flush(self) -> None:
        """Queue a flush of the L2 cache, if this clock measures with a cold one."""
        if self._flusher is not None:
            self._flusher.flush()

    def _cache_state(self) -> str:
        if self._flusher is None:
            return "warm L2"
        released = "" if self._flusher.releases_persisting else ", persisting lines not released"
        return f"cold L2 ({self._flusher.buffer_bytes / 2**20:.0f} MiB overwritten before each call{released})"

    @contextlib.contextmanager
    def _on_device_without_gc(self) -> Iterator[None]:
        """Select the clock's device and that device's stream, restore both afterwards, and pause garbage collection."""
        collected = gc.isenabled()
        gc.disable()
        try:
            with torch.cuda.device(self.device), torch.cuda.stream(torch.cuda.current_stream(self.device)):
                yield
        finally:
            if collected:
                gc.enable()


def cuda_device(device: torch.device | str) -> torch.device:
    """Return the device with its index; raise if it is not a CUDA device."""
    if not torch.cuda.is_available():
        raise NotJudgeableHere(
            "no CUDA GPU, so speed cannot be measured", remedy="measure on a machine with a GPU; nothing is estimated"
        )
    wanted = torch.device(device)
    if wanted.type != "cuda":
        raise NotJudgeableHere(f"the clock times CUDA devices, not {wanted}", remedy="pass a device such as cuda:0")
    return torch.device("cuda", torch.cuda.current_device() if wanted.index is None else wanted.index)


def _cycles_per_ms() -> float:
    """Return how many cycles of the spin kernel take a millisecond. The maximum is of a run at full clock rate."""
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
    """Return a CUDA event that records its time."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _spin(cycles: int) -> None:
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]

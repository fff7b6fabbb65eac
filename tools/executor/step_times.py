"""Times each step of a tape on a GPU, with CUDA events around the steps of a few calls.

Each call is queued behind a spin kernel, so that the GPU does not wait for the host between steps, and starts with a
cold L2 cache. The time of an empty pair of events is subtracted. No profiler is used: torch's takes seconds to load,
and afterwards slows down launches that are timed in the same process.

Not covered: single kernels within one torch operator, and steps that overlap on several streams (a tape has one).
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from triton_agent.tools.executor.memory import Fresh
from triton_agent.tools.executor.program import Bound, Program, Run
from triton_agent.tools.kernel_profile import StepTime
from triton_agent.tools.race.clock import timing_event
from triton_agent.tools.tape.tape import Launch, Operate

SPIN_CYCLES_PER_MS = 2_000_000
"""At least the clock rate of any card. With a slower clock the spin takes longer, which is harmless."""
HEAD_START_MS = 0.2
LONGEST_HEAD_START_MS = 200.0
EMPTY_PAIRS = 16


def step_times(program: Program, bound: Bound, calls: int, flush: Callable[[], None]) -> tuple[StepTime, ...]:
    """Return the median device time of each launch and operator of a tape; `flush` empties the L2 cache."""
    readings: dict[int, list[float]] = defaultdict(list)
    pairs: list[tuple[int, torch.cuda.Event, torch.cuda.Event]] = []

    def between_events(number: int, step: Callable[[Any], None], frame: Any) -> None:
        start, end = timing_event(), timing_event()
        start.record()
        step(frame)
        end.record()
        pairs.append((number, start, end))

    run = Run(fresh=Fresh(device=program.device), around=between_events)
    program.call(bound, run)  # the first call prepares launches
    torch.cuda.synchronize()
    head_start_ms = HEAD_START_MS
    for _ in range(calls + 1):
        pairs.clear()
        torch.cuda.synchronize()
        flush()
        torch.cuda._sleep(int(head_start_ms * SPIN_CYCLES_PER_MS))  # type: ignore[no-untyped-call]
        for _ in range(EMPTY_PAIRS):
            between_events(-1, lambda frame: None, None)
        begun_s = time.perf_counter()
        outputs = program.call(bound, run)
        queueing_ms = 1e3 * (time.perf_counter() - begun_s)
        torch.cuda.synchronize()
        del outputs
        if head_start_ms == HEAD_START_MS:  # this call only measures the host's time; its readings are dropped
            head_start_ms = min(2 * HEAD_START_MS + 2 * queueing_ms, LONGEST_HEAD_START_MS)
            continue
        for number, start, end in pairs:
            readings[number].append(start.elapsed_time(end))
    empty_ms = statistics.median(readings.pop(-1))
    prologue = len(program.tape.prologue)
    timed = [number for number, step in enumerate(program.tape.steps) if isinstance(step, (Launch, Operate))]
    return tuple(
        StepTime(
            step=number,
            choice=program.chosen.get(prologue + number, 0),
            device_ms=max(0.0, statistics.median(readings[number]) - empty_ms),
        )
        for number in timed
    )

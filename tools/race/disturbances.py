"""Watches a GPU during timing: used by no one else, cool, free of errors, and as fast as before?

A disturbed measurement is repeated once. If it is disturbed again, it ends as an `InstrumentError`. A failure of the
candidate during a disturbance (being too slow, for example) does not count against the candidate.

Disturbances are found in two ways. The driver reports other processes, throttled clocks and memory errors, if it can
(`health.py`). And the reference is timed in every measurement: if it takes much longer than its best time, something
else is using the card.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.machine import health
from triton_agent.tools.machine.health import Health

ATTEMPTS = 2
SETTLE_S = 1.0
"""Pause between attempts, about as long as the period over which the driver averages its readings."""
SLOWER_FACTOR = 1.5
"""Limit as a multiple of the reference's best median. Clock rates that drop under a power limit stay below it, while
another process on the card doubles the time."""
SLOWER_MS = 0.01
"""Least difference that counts, since the relative noise of very short calls is larger."""
LOOKS_FOR_QUIET = 3
"""Tries before an attempt, since the driver may still report load that has just ended."""
STILL_QUIET_S = 0.05
"""The check after one measurement also counts for the next measurement if that begins within this time. A check takes
4 ms."""

ZYGOTE = b"triton_agent.tools.processes.zygote"
"""The module that runs in zygotes, by which their processes are recognised."""

T = TypeVar("T")


class GpuWatch:
    """Watches one GPU for the process that times on it."""

    def __init__(self, gpu: str, look: Callable[[str], Health] = health.health) -> None:
        self._gpu = gpu
        self._look = look
        self._errors_before: int | None = None
        self._best_ms: dict[str, float] = {}
        self._quiet_s = -math.inf
        self.blind = ""
        """Why the card's state cannot be read; empty if it can."""
        self.clocks_mhz: tuple[int, ...] = ()
        """Clock rates at the last check."""

    def disturbances(self) -> tuple[str, ...]:
        """Return what would disturb a measurement at present."""
        try:
            seen = self._look(self._gpu)
        except InstrumentError as error:
            self.blind = error.what
            return ()
        self.clocks_mhz = seen.clocks_mhz
        found = health.disturbances(self._without_old_errors(seen), ours(seen))
        self._quiet_s = -math.inf if found else time.monotonic()
        return found

    @property
    def is_still_quiet(self) -> bool:
        """True if the last check, a moment ago, found nothing."""
        return time.monotonic() - self._quiet_s < STILL_QUIET_S

    def _without_old_errors(self, seen: Health) -> Health:
        """Return `seen` with only the new memory errors, and without the card's utilization, which may be our own."""
        told = seen.uncorrected_ecc_errors
        if self._errors_before is None:
            self._errors_before = told
        fresh = None if told is None or self._errors_before is None else max(0, told - self._errors_before)
        return dataclasses.replace(seen, uncorrected_ecc_errors=fresh, utilization_percent=None)

    def slower_than_usual(self, device_ms: Mapping[str, float | None]) -> tuple[str, ...]:
        """Return a text for each baseline that is much slower than its best time; update the best times.

        A time of None, for a baseline that waited for the host, tells nothing about the GPU.
        """
        return tuple(filter(None, itertools.starmap(self.compare, device_ms.items())))

    def compare(self, baseline: str, now_ms: float | None) -> str:
        """Describe how much slower `now_ms` is than the best time so far; return "" if the difference is small."""
        if now_ms is None:
            return ""
        best_ms = self._best_ms[baseline] = min(now_ms, self._best_ms.get(baseline, now_ms))
        if now_ms > SLOWER_FACTOR * best_ms and now_ms > best_ms + SLOWER_MS:
            return f"{baseline} takes {now_ms:.4f} ms and took {best_ms:.4f} ms before"
        return ""


def undisturbed(
    measure: Callable[[], T],
    watch: GpuWatch,
    *,
    after: Callable[[T], tuple[str, ...]],
    probe: Callable[[], str] = str,
    settle_s: float = SETTLE_S,
) -> T:
    """Return the result of `measure`, or raise its exception, from an attempt without disturbances.

    `after` checks the result for disturbances. If `measure` raises, `probe` says whether the card has become slower.
    """
    found: tuple[str, ...] = ()
    for attempt in range(1, ATTEMPTS + 1):
        found = _until_quiet(watch, settle_s)
        if not found:
            try:
                result = measure()
            except InstrumentError:
                raise
            except Exception:
                found = watch.disturbances() or tuple(filter(None, [probe()]))
                if not found:
                    raise
            else:
                found = watch.disturbances() + after(result)
                if not found:
                    return result
        if attempt < ATTEMPTS:
            time.sleep(settle_s)
    raise InstrumentError(
        f"the GPU was disturbed during timing: {'; '.join(found)}",
        remedy="measure when it is free and cool, or on another card",
    )


def _until_quiet(watch: GpuWatch, settle_s: float) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    if watch.is_still_quiet:
        return found
    for _ in range(LOOKS_FOR_QUIET):
        found = watch.disturbances()
        if not found:
            return ()
        time.sleep(settle_s)
    return found


def ours(seen: Health) -> set[int]:
    """Return the processes on the card that run this project's code. They respect the lease, so they do not disturb.

    They are forks of a zygote (of this or another driver), and therefore have its command line.
    """
    listed = {process.pid for process in seen.processes} | {process.pid for process, _ in seen.loads}
    return {os.getpid(), *filter(_is_ours, listed)}


def _is_ours(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as text:
            return ZYGOTE in text.read().split(b"\0")
    except OSError:
        return False

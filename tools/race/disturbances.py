"""Watches a GPU while the clock runs: was it ours alone, cool, sound, and as fast as before?

A measurement that was disturbed is repeated; disturbed again, it ends as an `InstrumentError`. A failure of the
candidate during a disturbance (too slow, for example) does not count against it.

There are two sources. The driver reports other processes, throttled clocks and errors, as far as it can (`health.py`).
And the reference is timed in every measurement: if it takes much longer than at its best, something else uses the card.
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
"""Pause between attempts: about as far back as the driver's readings reach."""
SLOWER_FACTOR = 1.5
"""Times the reference's best median. Clocks that step under a power limit stay below; sharing a card doubles it."""
SLOWER_MS = 0.01
"""And at least this much slower: very short calls vary by more than their share."""
LOOKS_FOR_QUIET = 3
"""Before the first attempt the driver may still report load of a moment ago."""
STILL_QUIET_S = 0.05
"""A look after one measurement counts for the next one that begins within this time; a look takes 4 ms."""

ZYGOTE = b"triton_agent.tools.processes.zygote"
"""The module that zygotes are started as."""

T = TypeVar("T")


class GpuWatch:
    """Watches one GPU for the process that owns the clock."""

    def __init__(self, gpu: str, look: Callable[[str], Health] = health.health) -> None:
        self._gpu = gpu
        self._look = look
        self._errors_before: int | None = None
        self._best_ms: dict[str, float] = {}
        self._quiet_s = -math.inf
        self.blind = ""
        """Why nothing can be told of the card; empty where it can."""
        self.clocks_mhz: tuple[int, ...] = ()
        """At the last look."""

    def disturbances(self) -> tuple[str, ...]:
        """Return what would disturb a measurement now."""
        try:
            seen = self._look(self._gpu)
        except InstrumentError as error:
            self.blind = error.what
            return ()
        self.clocks_mhz = seen.clocks_mhz
        found = health.disturbances(self._only_news(seen), ours(seen))
        self._quiet_s = -math.inf if found else time.monotonic()
        return found

    @property
    def is_still_quiet(self) -> bool:
        """True if nothing disturbed a moment ago."""
        return time.monotonic() - self._quiet_s < STILL_QUIET_S

    def _only_news(self, seen: Health) -> Health:
        """Without memory errors of the past, and the whole card's load, which may be our own of a moment ago."""
        told = seen.uncorrected_ecc_errors
        if self._errors_before is None:
            self._errors_before = told
        fresh = None if told is None or self._errors_before is None else max(0, told - self._errors_before)
        return dataclasses.replace(seen, uncorrected_ecc_errors=fresh, utilization_percent=None)

    def slower_than_usual(self, device_ms: Mapping[str, float]) -> tuple[str, ...]:
        """Baselines that took much longer than they did at their best; remembers the best."""
        return tuple(filter(None, itertools.starmap(self.compare, device_ms.items())))

    def compare(self, baseline: str, now_ms: float) -> str:
        """Describe how much slower this is than the best so far; return "" if it is not much."""
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
    """Return what `measure` returns, or raise what it raises, taken while nothing disturbed.

    `after` looks at the result, too; where there is none, `probe` says in words what seems wrong with the card.
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
        f"the GPU was not quiet while the clock ran: {'; '.join(found)}",
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
    """Processes on the card that run this project's code: they ask for the lease, and hold still while we have it.

    They are forks of a zygote, this driver's or another's, and so are still called what it was started as.
    """
    listed = {process.pid for process in seen.processes} | {process.pid for process, _ in seen.loads}
    return {os.getpid(), *filter(_is_ours, listed)}


def _is_ours(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as text:
            return ZYGOTE in text.read().split(b"\0")
    except OSError:
        return False

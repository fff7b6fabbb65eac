"""A reading of the clock, and the clock's calibration. Both are sent between processes.

Needs neither torch nor numpy.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A reading of a subject: device time of one call, latency of another, time per call of a series; or a mean of
    such readings. A long call may have been timed once for both.
    """

    device_ms: float
    """Time between two events around the call. The GPU was occupied by a spin kernel until the call was queued."""
    host_ms: float
    """Time by the host's clock from an idle GPU until it is idle again after the call. It covers all streams. If one
    long call was timed for both, it is without the time of the spin, and so without queueing during the spin."""
    enqueue_ms: float
    """The part of `host_ms` until the call returned."""
    queued: bool
    """False if the call was not queued in time, so that `device_ms` includes gaps caused by the host."""
    back_to_back_ms: float | None = None
    """Time per call of many calls that are queued without waiting in between, from an idle GPU to an idle GPU; None if
    it was not measured."""


def steady_ms(samples: Iterable[Sample]) -> float | None:
    """Return the median device time of readings without gaps caused by the host; None if all of them have some."""
    without_gaps = [sample.device_ms for sample in samples if sample.queued]
    return statistics.median(without_gaps) if without_gaps else None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """Overheads of a measurement, on the same GPU. They are not subtracted from readings."""

    event_ms: float
    """Time between two events with nothing between them."""
    round_trip_ms: float
    """For a minimal launch: time from its return until the host knows that the kernel has finished."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Constants of a GPU and its host. Another process on the same machine and GPU can use them without measuring."""

    cycles_per_ms: float
    """Clock cycles of the spin kernel per millisecond."""
    overheads: Overheads

"""A reading of the clock, and what the clock needs to know of the machine; both cross between processes.

Needs neither torch nor numpy.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A reading of a subject: one call for each of two clocks, many for the third; or the mean of several readings."""

    device_ms: float
    """Time between two events around the call; the GPU was kept waiting until the whole call was queued."""
    host_ms: float
    """From an idle GPU through the call to an idle GPU again, by the host's clock. No stream or queue escapes it."""
    enqueue_ms: float
    """The part of `host_ms` until the call returned."""
    queued: bool
    """False if the call was not queued in time; `device_ms` then includes gaps that the host caused."""
    back_to_back_ms: float | None = None
    """Time per call of many that are queued without waiting in between, from an idle GPU to an idle GPU; None where it
    was not read."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """Cost of measuring, on the same GPU. It is not subtracted from readings."""

    event_ms: float
    """Time between two events with nothing in between."""
    round_trip_ms: float
    """From the return of a launch of next to nothing until the host knows that it is done."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Constants of a GPU and its host. Another process on the same two can use them without measuring again."""

    cycles_per_ms: float
    """Speed of the spin kernel."""
    overheads: Overheads

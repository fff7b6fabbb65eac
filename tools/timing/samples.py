"""What the clock read, as values: one call, a run of calls, and two subjects that took turns.

Needs neither torch nor a GPU, so a reading can cross to a process that has neither.
"""

from __future__ import annotations

import dataclasses
import statistics

from triton_agent.tools.results import Timing
from triton_agent.tools.timing import intervals

HIDDEN_FLOOR_MS = 0.05
"""Host clocks and wake-ups differ by this much between honest calls; less unexplained time proves nothing. One in some
200 honest kernels of a few microseconds reached 0.03 on a host that is busy compiling. The latency holds it anyhow."""
HIDDEN_SHARE = 0.2
"""Cold caches and clock steps let two calls of one kernel differ; unexplained time counts from this share upwards."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A reading of a subject: one call for its device time and one for its latency; or the mean of several readings."""

    device_ms: float
    """Between two events around the call, the GPU kept waiting until the whole call was queued."""
    host_ms: float
    """From an idle GPU through the call to an idle GPU again, by the host's clock. No stream or queue escapes it."""
    enqueue_ms: float
    """The part of `host_ms` until the call returned."""
    late_ms: float
    """Work that turned up after the GPU had gone idle: launched by a thread that outlived the call."""
    queued: bool
    """Whether the whole call was queued in time; else `device_ms` has gaps in it that the host caused."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """What the instrument itself costs, measured on the same GPU. Nothing is subtracted from a reading."""

    event_ms: float
    """What two events read with nothing between them."""
    round_trip_ms: float
    """From the return of a launch of next to nothing until the host knows that it is done."""
    late_ms: float = 0.0
    """To look for late work where there is none."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PairedSamples:
    """Two subjects measured in turns; sample `i` of both makes one pair, taken ABBA or BAAB."""

    baseline: tuple[Sample, ...]
    candidate: tuple[Sample, ...]
    cold_l2: bool
    overheads: Overheads
    method: str

    def __post_init__(self) -> None:
        if not self.baseline or len(self.baseline) != len(self.candidate):
            raise ValueError(f"not pairs: {len(self.baseline)} of the baseline, {len(self.candidate)} of the candidate")

    def times_ms(self, kind: str) -> tuple[list[float], list[float]]:
        """Baseline and candidate of every pair: `device` time or call `latency`."""
        return milliseconds(self.baseline, kind), milliseconds(self.candidate, kind)

    def is_faster(self, kind: str, margin: float = intervals.MARGIN) -> bool:
        """Whether the candidate wins; see `intervals.is_faster`."""
        return intervals.is_faster(*self.times_ms(kind), margin=margin)

    def timing(self, baseline_name: str, kind: str, clocks_mhz: tuple[int, ...] = ()) -> Timing:
        """The measurement as a result to keep."""
        baseline_ms, candidate_ms = self.times_ms(kind)
        return Timing(
            baseline=baseline_name,
            kind=kind,
            candidate_ms=intervals.median_interval(candidate_ms),
            baseline_ms=intervals.median_interval(baseline_ms),
            speedup=intervals.paired_ratio(baseline_ms, candidate_ms),
            pairs=len(baseline_ms),
            cold_l2=self.cold_l2,
            method=self.method,
            clocks_mhz=clocks_mhz,
        )


def milliseconds(samples: tuple[Sample, ...], kind: str) -> list[float]:
    """One figure of every sample: `device` or `latency`."""
    if kind == "device":
        return [sample.device_ms for sample in samples]
    if kind == "latency":
        return [sample.host_ms for sample in samples]
    raise ValueError(f"a time is of kind 'device' or 'latency', not {kind!r}")


def hidden_ms(samples: tuple[Sample, ...], overheads: Overheads) -> float:
    """Time on the GPU that the events did not see, at the median; near zero for honest work.

    After a call has returned, the GPU has at most the whole of its device time left to work. What the host still
    waits beyond that ran where the events do not look: on another stream, or launched by a thread.
    """
    unexplained = [sample.host_ms - sample.enqueue_ms - sample.device_ms + sample.late_ms for sample in samples]
    instrument_ms = overheads.round_trip_ms + overheads.late_ms
    return max(statistics.median(unexplained) - instrument_ms, 0.0)


def contradiction(samples: tuple[Sample, ...], overheads: Overheads, beside_ms: float = 0.0) -> str:
    """Why the device times cannot be believed, in words for a finding; empty where they can.

    `beside_ms`: unexplained time of an honest call at the same hour. A busy host wakes late, and not for one alone; but
    hidden work can hold up others, too, so no more of it is granted than what is granted anyhow.
    """
    hidden = hidden_ms(samples, overheads)
    device = statistics.median(milliseconds(samples, "device"))
    if hidden <= max(HIDDEN_FLOOR_MS, HIDDEN_SHARE * device) + min(beside_ms, HIDDEN_FLOOR_MS):
        return ""
    return (
        f"events read {device:.4f} ms, but the host waits {hidden:.4f} ms longer for the GPU than that explains: "
        "work ran on another stream or was launched by a thread without the caller's stream waiting for it"
    )

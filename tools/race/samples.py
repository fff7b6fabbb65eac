"""Paired readings of two subjects that were timed in turns.

Needs neither torch nor a GPU.
"""

from __future__ import annotations

import dataclasses

from triton_agent.tools.race import intervals
from triton_agent.tools.race.readings import Overheads, Sample
from triton_agent.tools.results import KINDS_OF_TIME, Timing


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PairedSamples:
    """Readings of two subjects timed in turns; sample `i` of both is one pair."""

    baseline: tuple[Sample, ...]
    candidate: tuple[Sample, ...]
    cold_l2: bool
    overheads: Overheads
    method: str

    def __post_init__(self) -> None:
        if not self.baseline or len(self.baseline) != len(self.candidate):
            raise ValueError(
                f"not pairs: {len(self.baseline)} baseline readings, {len(self.candidate)} of the candidate"
            )

    def times_ms(self, kind: str) -> tuple[list[float], list[float]]:
        """Return the times of baseline and candidate by one of `KINDS_OF_TIME`."""
        return milliseconds(self.baseline, kind), milliseconds(self.candidate, kind)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The `KINDS_OF_TIME` that were measured."""
        known = [sample.back_to_back_ms is not None for sample in (*self.baseline, *self.candidate)]
        return tuple(KINDS_OF_TIME) if all(known) else ("device", "latency")

    def is_faster(self, kind: str, margin: float = intervals.MARGIN) -> bool:
        """Return True if the candidate wins; see `intervals.is_faster`."""
        return intervals.is_faster(*self.times_ms(kind), margin=margin)

    def timing(self, baseline_name: str, kind: str, clocks_mhz: tuple[int, ...] = ()) -> Timing:
        """Return the measurement as a result for the record."""
        baseline_ms, candidate_ms = self.times_ms(kind)
        return Timing(
            baseline=baseline_name,
            kind=kind,
            candidate_ms=intervals.median_interval(candidate_ms),
            baseline_ms=intervals.median_interval(baseline_ms),
            speedup=intervals.paired_ratio(baseline_ms, candidate_ms),
            pairs=len(baseline_ms),
            cold_l2=self.cold_l2 and kind != "back_to_back",
            method=self.method,
            clocks_mhz=clocks_mhz,
        )


def milliseconds(samples: tuple[Sample, ...], kind: str) -> list[float]:
    """Return the time of each sample by one of `KINDS_OF_TIME`."""
    if kind == "device":
        return [sample.device_ms for sample in samples]
    if kind == "latency":
        return [sample.host_ms for sample in samples]
    if kind == "back_to_back":
        return [sample.back_to_back_ms for sample in samples if sample.back_to_back_ms is not None]
    raise ValueError(f"a time is of kind 'device', 'latency' or 'back_to_back', not {kind!r}")

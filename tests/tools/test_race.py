"""The results of a race for given readings, and when a short race is continued."""

from __future__ import annotations

import dataclasses

import pytest

from triton_agent.tools.race.readings import Overheads, Sample
from triton_agent.tools.race.samples import PairedSamples
from triton_agent.tools.race.speed import Race, is_long, may_win

OVERHEADS = Overheads(event_ms=0.002, round_trip_ms=0.005)


def sample(device_ms: float, waits_ms: float = 0.0) -> Sample:
    """Return a consistent reading, except that the latency is longer by an unexplained wait of the host."""
    host_ms = 0.02 + device_ms + OVERHEADS.round_trip_ms + waits_ms
    return Sample(device_ms=device_ms, host_ms=host_ms, enqueue_ms=0.02, queued=True)


def paired(original_ms: list[float], candidate_ms: list[float]) -> PairedSamples:
    return PairedSamples(
        baseline=tuple(map(sample, original_ms)),
        candidate=tuple(map(sample, candidate_ms)),
        cold_l2=True,
        overheads=OVERHEADS,
        method="given",
    )


@pytest.mark.parametrize(
    ("candidate_ms", "worth_more"),
    [
        ([0.5] * 8, True),
        ([0.99] * 8, False),  # ahead, and never by the margin
        ([0.9, 0.9, 0.9, 0.999, 0.999, 0.999, 0.999, 0.999], True),  # cannot be told yet
        ([0.9, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 0.9], False),
    ],
)
def test_a_long_race_follows_where_a_win_is_possible(candidate_ms: list[float], worth_more: bool) -> None:
    assert may_win(paired([1.0] * 8, candidate_ms)) is worth_more


@pytest.mark.parametrize(
    ("first", "second", "long"),
    [
        ((20.0, 9.0), (20.0, 0.1), True),  # the first call allocates memory
        ((20.0, 0.1), (20.0, 9.0), False),
        ((1.0, 0.001), (1.0, 0.001), False),
    ],
)
def test_a_call_is_long_if_queueing_it_hardly_matters(
    first: tuple[float, float], second: tuple[float, float], long: bool
) -> None:
    readings = [
        Sample(device_ms=device_ms, host_ms=device_ms + 0.1, enqueue_ms=enqueue_ms, queued=True)
        for device_ms, enqueue_ms in (first, second)
    ]
    assert is_long(lambda turns: readings) is long


def test_a_race_tells_of_the_device_and_of_a_call() -> None:
    race = Race(opponent="eager", samples=paired([1.0] * 12, [0.5] * 12), clocks_mhz=(1980, 3201))
    assert race.original_ms() == 1.0
    late = tuple(dataclasses.replace(it, queued=False) for it in race.samples.baseline)
    assert dataclasses.replace(race, samples=dataclasses.replace(race.samples, baseline=late)).original_ms() is None
    device, latency = race.timings()
    assert (device.baseline, device.kind, latency.kind) == ("eager", "device", "latency")
    assert device.speedup.median == pytest.approx(2) and 1 < latency.speedup.median < 2
    assert device.clocks_mhz == (1980, 3201)

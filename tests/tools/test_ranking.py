"""Which of two candidates is better, when each was timed in its own process."""

from __future__ import annotations

import dataclasses

import pytest
from tests import verdicts

from triton_agent.tools.ranking import Standing, standing
from triton_agent.tools.results import KernelLaunch


def timed(device: float, latency: float, launches: int = 1, *, spread: float = 0.01) -> Standing:
    """Return the standing of an evaluation with these speed-ups over the reference, in device time and latency."""
    figures = [(device, "device"), (latency, "latency")]
    timings = [verdicts.timing(ratio, spread=spread, kind=kind) for ratio, kind in figures]
    launched = KernelLaunch(kernel="k", launches=launches, programs=1, bytes_loaded=None, bytes_stored=None)
    return standing(verdicts.passed(*timings, diagnosis=verdicts.diagnosis(launches=(launched,))))


@pytest.mark.parametrize(
    ("challenger", "incumbent", "wins"),
    [
        ((5.0, 2.6), (6.7, 2.4), False),  # a quieter process, and the slower kernel
        ((6.7, 2.4), (5.0, 2.6), True),
        ((5.0, 2.6), (5.0, 2.4), True),  # as fast on the GPU, and quicker to call
        ((5.0, 2.4), (5.0, 2.4), False),
        ((1.16, 0.42), (0.9, 0.7), True),  # as measured on a busy host, of four launches each
        ((0.9, 0.7), (1.16, 0.42), False),
        ((5.2, 1.5, 4), (5.0, 2.4, 1), False),  # a little less on the GPU for many launches more
        ((5.0, 2.4, 1), (5.2, 1.5, 4), True),
        ((6.7, 2.1, 2), (5.0, 2.4, 1), True),
        ((5.3, 0.9), (5.0, 2.4), False),  # that much is no noise
        ((1.5, 0.95), (1.2, 1.1), False),  # what gains goes before what does not
        ((1.2, 1.1), (1.5, 0.95), True),
    ],
)
def test_the_kernel_counts_before_the_quiet_of_its_process(
    challenger: tuple[float, ...], incumbent: tuple[float, ...], wins: bool
) -> None:
    assert timed(*challenger).surpasses(timed(*incumbent)) is wins


def test_two_do_not_surpass_one_another() -> None:
    latencies = (0.9, 1.1, 1.5, 2.0, 2.2, 2.4, 2.9)
    devices = (0.9, 1.2, 4.8, 5.0, 5.3, 6.7)
    figures = [(device, latency, n) for device in devices for latency in latencies for n in (1, 3)]
    for one in figures:
        for other in figures:
            assert not (timed(*one).surpasses(timed(*other)) and timed(*other).surpasses(timed(*one))), (one, other)


def test_whether_it_gains_at_all_is_asked_of_the_lesser_figure() -> None:
    assert not timed(6.7, 0.9).faster_than_reference
    assert timed(6.7, 1.2).faster_than_reference


def test_what_is_not_known_apart_changes_nothing() -> None:
    assert not timed(5.3, 2.6, spread=0.2).surpasses(timed(5.0, 2.4, spread=0.2))


@pytest.mark.parametrize(
    ("back_to_back", "ships"), [(1.2, True), (1.011, True), (1.0, False), (0.9, False), (None, True)]
)
def test_a_file_is_shipped_only_if_it_is_surely_no_slower_back_to_back(back_to_back: float | None, ships: bool) -> None:
    figures = [(1.5, "device"), (1.4, "latency"), *([(back_to_back, "back_to_back")] if back_to_back else [])]
    timings = [verdicts.timing(ratio, spread=0.01, kind=kind) for ratio, kind in figures]
    of_a_set = [dataclasses.replace(item, input_set="short") for item in timings]
    for measured in (timings, of_a_set):
        found = standing(verdicts.passed(*measured))
        assert found.faster_than_reference is ships
        assert found.speedup is not None and (found.speedup.median > 1.3 or measured is of_a_set)

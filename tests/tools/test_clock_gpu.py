"""The clock on a real GPU: what it must measure, and how it must not be misled."""

from __future__ import annotations

import functools
import itertools
import statistics
import time
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("the clock reads CUDA devices, and there is none", allow_module_level=True)

from triton_agent.tools.machine import hardware
from triton_agent.tools.race import rates
from triton_agent.tools.race.clock import Clock, ClockSettings, Flusher, Subject
from triton_agent.tools.race.pairing import PairingSettings
from triton_agent.tools.race.readings import Sample

pytestmark = pytest.mark.gpu

MIB = 2**20


@pytest.fixture(scope="module")
def cold() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def warm() -> Clock:
    return Clock(settings=ClockSettings(cold_l2=False))


def copy(mebibytes: float, sets: int = 3) -> Subject:
    """Return a call that copies random data between fresh buffers."""
    sources = [torch.randn(int(mebibytes * MIB) // 4, device="cuda") for _ in range(sets)]
    return Subject([functools.partial(torch.empty_like(source).copy_, source) for source in sources])


def device_ms(samples: tuple[Sample, ...]) -> float:
    return statistics.median(sample.device_ms for sample in samples)


def test_equal_copies_do_not_beat_each_other(cold: Clock) -> None:
    wins = 0
    for seed in range(10):
        one = copy(64)
        measured = cold.measure_pairs(one, Subject(one.calls), PairingSettings(pairs=24, seed=seed))
        wins += measured.is_faster("device") + measured.is_faster("latency")
    assert wins == 0


def test_half_the_work_wins_and_the_ratio_says_by_how_much(cold: Clock) -> None:
    measured = cold.measure_pairs(copy(512), copy(256), PairingSettings(pairs=20))
    timing = measured.timing("itself", "device")
    assert measured.is_faster("device")
    assert timing.speedup.median == pytest.approx(2, rel=0.1)
    assert timing.cold_l2 and "cold L2" in timing.method


def test_two_readings_of_one_kernel_agree(cold: Clock) -> None:
    first, second = (device_ms(cold.measure(copy(256), 20)) for _ in range(2))
    assert first == pytest.approx(second, rel=0.05)


def test_a_cold_cache_is_slower_than_a_warm_one_for_data_that_would_fit(cold: Clock, warm: Clock) -> None:
    table = torch.randn(4 * MIB, device="cuda")  # 16 MiB, within the L2 of any recent data-centre card
    reads = Subject([table.sum])
    assert device_ms(cold.measure(reads, 20)) > 1.1 * device_ms(warm.measure(Subject([table.sum]), 20))


def test_the_flush_is_larger_than_the_cache_and_changes_every_time() -> None:
    flusher = Flusher(torch.device("cuda", torch.cuda.current_device()))
    assert flusher.buffer_bytes >= 2 * torch.cuda.get_device_properties(0).L2_cache_size
    flusher.flush()
    first = int(flusher._buffer[0])
    flusher.flush()
    assert int(flusher._buffer[-1]) != first


def test_pauses_of_the_host_between_launches_are_not_device_time(cold: Clock) -> None:
    tiny = torch.zeros(16, device="cuda")

    def slow_python() -> None:
        for _ in range(4):
            begun_s = time.perf_counter()
            while time.perf_counter() - begun_s < 0.0002:
                pass
            tiny.add_(1)

    samples = cold.measure(Subject([slow_python]), 10)
    assert all(sample.queued for sample in samples)
    assert device_ms(samples) < 0.1
    assert statistics.median(sample.host_ms for sample in samples) > 0.8


def test_a_call_that_waits_for_the_gpu_is_marked_and_ends(cold: Clock) -> None:
    table = torch.randn(MIB, device="cuda")
    samples = cold.measure(Subject([lambda: table.sum().item()]), 5)
    assert not samples[-1].queued


def test_a_hold_up_of_the_host_costs_one_reading_and_not_all_that_follow(cold: Clock) -> None:
    tiny = torch.zeros(16, device="cuda")
    calls = itertools.count()

    def held_up_once() -> None:
        if next(calls) == 60:
            time.sleep(0.005)
        tiny.add_(1)

    subject = Subject([held_up_once])
    samples = cold.measure(subject, 60)
    assert all(sample.queued for sample in samples)
    assert next(calls) > 60
    assert subject.usual_queueing_ms() < 1


def test_host_time_bounds_device_time(cold: Clock) -> None:
    for sample in cold.measure(copy(512), 10):
        assert sample.host_ms > 0.8 * sample.device_ms
        assert sample.host_ms >= sample.enqueue_ms


def test_one_long_call_gives_the_times_of_two(cold: Clock) -> None:
    large = torch.randn(8192, 8192, device="cuda")
    subject = Subject([lambda: large @ large])
    cold.warm_up(subject)
    apart, once = ([cold.time_once(subject, turn, one_call=flag) for turn in range(9)] for flag in (False, True))
    for figure in ("device_ms", "host_ms"):
        one, other = (statistics.median(getattr(sample, figure) for sample in samples) for samples in (apart, once))
        assert other == pytest.approx(one, rel=0.02)


def test_calls_back_to_back_cost_what_the_host_costs_where_that_is_more(cold: Clock) -> None:
    tiny = torch.zeros(16, device="cuda")

    def slow_python() -> None:
        begun_s = time.perf_counter()
        while time.perf_counter() - begun_s < 0.0002:
            pass
        tiny.add_(1)

    small, large = Subject([slow_python]), copy(512)
    cold.warm_up(small)
    cold.warm_up(large)
    small_series, large_series = cold.series_for(small), cold.series_for(large)
    assert 0.2 < (cold.time_once(small, series=small_series).back_to_back_ms or 0.0) < 2
    sample = cold.time_once(large, series=large_series)
    assert sample.back_to_back_ms is not None and sample.back_to_back_ms > 0.5 * sample.device_ms
    assert cold.time_once(large).back_to_back_ms is None


def test_a_side_stream_that_the_caller_waits_for_is_honest(cold: Clock) -> None:
    side = torch.cuda.Stream()
    source = torch.randn(256 * MIB // 4, device="cuda")
    target = torch.empty_like(source)

    def joined() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            target.copy_(source)
        torch.cuda.current_stream().wait_stream(side)

    samples = cold.measure(Subject([joined]), 10)
    assert device_ms(samples) > 0.05


def test_a_call_that_changes_the_current_stream_does_not_keep_it(cold: Clock) -> None:
    before = torch.cuda.current_stream()
    other = torch.cuda.Stream()
    cold.measure(Subject([lambda: torch.cuda.set_stream(other)]), 3)
    assert torch.cuda.current_stream() == before


def test_every_set_of_inputs_gets_its_turn_and_is_renewed_before(cold: Clock) -> None:
    seen: list[int] = []
    renewed: list[int] = []
    table = torch.zeros(16, device="cuda")
    calls = [lambda which=which: (seen.append(which), table.add_(1)) for which in range(3)]
    cold.measure(Subject(calls, refresh=renewed.append), 6)
    assert set(seen) == {0, 1, 2}
    assert [turn % 3 for turn in renewed] == seen


def test_short_calls_are_repeated_only_with_a_warm_cache(cold: Clock, warm: Clock) -> None:
    cold_subject = copy(0.01)
    cold.measure(cold_subject, 3)
    assert cold_subject.repeats == 1
    warm_subject = copy(0.01)
    warm.measure(warm_subject, 3)
    assert warm_subject.repeats > 1


def test_an_error_of_the_call_comes_through_and_the_clock_still_works(cold: Clock) -> None:
    def broken() -> None:
        raise RuntimeError("from the call")

    with pytest.raises(RuntimeError, match="from the call"):
        cold.measure(Subject([broken]), 3)
    assert device_ms(cold.measure(copy(1), 3)) > 0


def test_overheads_are_small_and_said(cold: Clock) -> None:
    assert 0 < cold.overheads.event_ms < 0.05
    assert 0 <= cold.overheads.round_trip_ms < 0.2
    assert "not subtracted" in cold.method


def test_the_card_is_described_and_torch_agrees() -> None:
    uuid = hardware.uuid_of(torch.cuda.current_device())
    (gpu,) = [found for found in hardware.gpus() if found.uuid == uuid]
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    assert gpu.sm_count == properties.multi_processor_count
    assert gpu.l2_bytes == properties.L2_cache_size
    assert gpu.compute_capability == f"{properties.major}.{properties.minor}"


def test_a_copy_comes_near_the_measured_ceiling_and_never_far_above(cold: Clock) -> None:
    rate = rates.copy_bytes_per_s(torch.device("cuda", torch.cuda.current_device()))
    achieved = 2 * 1024 * MIB / (device_ms(cold.measure(copy(1024), 10)) / 1e3)
    assert 0.8 * rate < achieved < 1.1 * rate


def test_ceilings_are_measured_once_and_kept(tmp_path: Path) -> None:
    first = rates.ceilings(folder=tmp_path)
    begun_s = time.monotonic()
    assert rates.ceilings(folder=tmp_path) == first
    assert time.monotonic() - begun_s < 3
    assert first.flops_per_s["bf16"] > first.flops_per_s["fp32"]
    assert first.empty_kernel_ms < first.launch_ms < 1
    sizes, taken_ms = zip(*first.copies_ms, strict=True)
    assert len(sizes) >= 8 and taken_ms[-1] > taken_ms[0] > first.empty_kernel_ms
    assert 0.7 < (sizes[-1] / first.copy_bytes_per_s * 1e3) / taken_ms[-1] < 1.1

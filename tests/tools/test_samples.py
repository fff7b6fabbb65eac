"""The order of turns, readings, and the conclusions from them; with a scripted clock, so no GPU is needed."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from triton_agent.tools.errors import NotJudgeableHere
from triton_agent.tools.race.pairing import (
    LEAST_PAIRS,
    PairingSettings,
    Readings,
    candidate_first,
    take_turns,
)
from triton_agent.tools.race.readings import Overheads, Sample
from triton_agent.tools.race.samples import PairedSamples

OVERHEADS = Overheads(event_ms=0.002, round_trip_ms=0.008)
SELFCHECK = Path(__file__).parents[2] / "benchmarks" / "clock_selfcheck.py"


def sample(
    device_ms: float = 1.0,
    host_ms: float = 1.02,
    enqueue_ms: float = 0.02,
    queued: bool = True,
    back_to_back_ms: float | None = None,
) -> Sample:
    return Sample(
        device_ms=device_ms, host_ms=host_ms, enqueue_ms=enqueue_ms, queued=queued, back_to_back_ms=back_to_back_ms
    )


def scripted(name: str, log: list[str], reading: Sample) -> Readings:
    def read(turns: Sequence[int]) -> list[Sample]:
        log.extend(f"{name}{turn}" for turn in turns)
        return [reading for _ in turns]

    return read


def turns(settings: PairingSettings, baseline: Sample, candidate: Sample) -> tuple[PairedSamples, list[str]]:
    log: list[str] = []
    measured = take_turns(
        scripted("b", log, baseline),
        scripted("c", log, candidate),
        settings,
        cold_l2=True,
        overheads=OVERHEADS,
        method="scripted",
    )
    return measured, log


def test_each_pair_is_measured_together_in_an_order_drawn_by_the_seed() -> None:
    measured, log = turns(PairingSettings(pairs=30, seed=5), sample(), sample())
    fours = ["".join(call[0] for call in log[start : start + 4]) for start in range(0, len(log), 4)]
    assert fours == ["cbbc" if first else "bccb" for first in candidate_first(30, 5)]
    assert set(fours) == {"cbbc", "bccb"}
    assert candidate_first(30, 5) != candidate_first(30, 6)
    assert "seed 5" in measured.method


def test_long_calls_form_pairs_of_two_in_an_order_drawn_by_the_seed() -> None:
    measured, log = turns(PairingSettings(pairs=30, samples_of_pair=1, seed=5), sample(), sample())
    expected = [f"c{n} b{n}" if first else f"b{n} c{n}" for n, first in enumerate(candidate_first(30, 5))]
    assert [" ".join(two) for two in zip(log[::2], log[1::2])] == expected
    assert len(measured.baseline) == 30 and "AB or BA" in measured.method


def test_both_subjects_meet_the_same_inputs() -> None:
    _, log = turns(PairingSettings(pairs=5), sample(), sample())
    for subject in "bc":
        assert [call for call in log if call.startswith(subject)] == [f"{subject}{turn}" for turn in range(10)]


def test_a_measurement_goes_on_where_a_shorter_one_ended() -> None:
    log: list[str] = []
    sides = scripted("b", log, sample()), scripted("c", log, sample())
    short = take_turns(*sides, PairingSettings(pairs=4, seed=5), cold_l2=True, overheads=OVERHEADS, method="")
    settings = PairingSettings(pairs=10, seed=5)
    longer = take_turns(*sides, settings, cold_l2=True, overheads=OVERHEADS, method="", before=short)
    _, at_once = turns(settings, sample(), sample())
    assert log == at_once and len(longer.baseline) == 10


def test_an_order_nobody_asked_for_is_another_each_time() -> None:
    methods = {turns(PairingSettings(pairs=3), sample(), sample())[0].method for _ in range(5)}
    assert len(methods) > 1


def test_what_going_first_costs_falls_on_both_sides_alike() -> None:
    times_ms = itertools.cycle([2.0, 1.0])

    def first_of_two_is_slow(turns: Sequence[int]) -> list[Sample]:
        return [sample(device_ms=next(times_ms)) for _ in turns]

    measured = take_turns(
        first_of_two_is_slow,
        first_of_two_is_slow,
        PairingSettings(pairs=9),
        cold_l2=True,
        overheads=OVERHEADS,
        method="",
    )
    assert measured.times_ms("device") == ([1.5] * 9, [1.5] * 9)


def test_the_time_limit_keeps_the_pairs_so_far_and_the_record_says_so() -> None:
    measured, _ = turns(PairingSettings(pairs=30, limit_s=0.0), sample(), sample())
    assert 1 <= len(measured.baseline) < 30
    assert f"{len(measured.baseline)} of 30 pairs" in measured.method


def test_slow_calls_get_the_least_number_of_pairs() -> None:
    measured, _ = turns(PairingSettings(pairs=30, enough_s=0.0), sample(), sample())
    assert len(measured.baseline) == LEAST_PAIRS
    limited, _ = turns(PairingSettings(pairs=30, enough_s=0.0, limit_s=-1.0), sample(), sample())
    assert len(limited.baseline) == 1


def test_a_measurement_ends_early_only_once_both_figures_are_precise() -> None:
    settings = PairingSettings(pairs=30, precision=(0.02, 0.05))
    steady, _ = turns(settings, sample(), sample())
    assert len(steady.baseline) == LEAST_PAIRS
    readings = itertools.cycle([1.0, 1.3, 0.8])

    def unsteady(turns: Sequence[int]) -> list[Sample]:
        return [sample(host_ms=next(readings)) for _ in turns]

    steadily = scripted("b", [], sample())
    measured = take_turns(
        steadily, unsteady, settings, cold_l2=True, overheads=OVERHEADS, method="only the latency scatters"
    )
    assert len(measured.baseline) > LEAST_PAIRS


def scattering(name: str, values: Sequence[float], scale: float = 1.0) -> Readings:
    readings = itertools.cycle(values)

    def read(turns: Sequence[int]) -> list[Sample]:
        return [sample(**{name: scale * next(readings)}) for _ in turns]  # type: ignore[arg-type]

    return read


def pairs_taken(baseline: Readings, candidate: Readings) -> int:
    settings = PairingSettings(pairs=30, precision=(0.02, 0.05))
    return len(take_turns(baseline, candidate, settings, cold_l2=True, overheads=OVERHEADS, method="").baseline)


def test_a_latency_that_scatters_is_enough_once_it_is_settled() -> None:
    wild = [1.0, 1.4, 0.9, 1.2, 1.1]
    assert pairs_taken(scattering("host_ms", wild), scattering("host_ms", wild[::-1])) == 30
    assert pairs_taken(scattering("host_ms", wild), scattering("host_ms", wild[::-1], 0.5)) == LEAST_PAIRS
    assert pairs_taken(scattering("host_ms", wild), scattering("host_ms", wild[::-1], 2.0)) == LEAST_PAIRS


def test_no_device_time_is_asked_for_finer_than_the_clock_ticks() -> None:
    ticks = [1.0, 1.1, 1.0, 1.1, 1.1]
    taken = [
        pairs_taken(scattering("device_ms", ticks, scale), scattering("device_ms", ticks[::-1], scale))
        for scale in (1.0, 0.005)
    ]
    assert taken[1] == LEAST_PAIRS < taken[0]


def test_readings_with_gaps_of_the_host_are_counted_in_the_record() -> None:
    measured, _ = turns(PairingSettings(pairs=4), sample(), sample(queued=False))
    assert "4 of 8 device readings include waiting for the host" in measured.method


def test_a_timing_keeps_both_figures_apart() -> None:
    measured, _ = turns(
        PairingSettings(pairs=10), sample(device_ms=2.0, host_ms=3.0), sample(device_ms=1.0, host_ms=3.0)
    )
    device, latency = measured.timing("eager", "device", (1980,)), measured.timing("eager", "latency")
    assert (device.speedup.median, latency.speedup.median) == (2.0, 1.0)
    assert (device.pairs, device.cold_l2, device.clocks_mhz) == (10, True, (1980,))
    assert measured.is_faster("device") and not measured.is_faster("latency")
    with pytest.raises(ValueError, match="'device', 'latency' or 'back_to_back'"):
        measured.timing("eager", "wall")


def test_calls_back_to_back_are_a_third_time_where_they_were_read() -> None:
    measured, _ = turns(PairingSettings(pairs=8), sample(back_to_back_ms=0.5), sample(back_to_back_ms=0.6))
    assert measured.kinds == ("device", "latency", "back_to_back")
    timing = measured.timing("eager", "back_to_back")
    assert timing.speedup.median == pytest.approx(0.5 / 0.6) and timing.pairs == 8 and not timing.cold_l2
    without, _ = turns(PairingSettings(pairs=8), sample(), sample())
    assert without.kinds == ("device", "latency")


def test_a_measurement_goes_on_while_calls_back_to_back_scatter() -> None:
    assert pairs_taken(scattering("back_to_back_ms", [1.0]), scattering("back_to_back_ms", [1.0])) == LEAST_PAIRS
    wild = [1.0, 1.4, 0.9, 1.2, 1.1]
    assert pairs_taken(scattering("back_to_back_ms", wild), scattering("back_to_back_ms", wild[::-1])) == 30


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_without_a_gpu_the_clock_refuses_and_invents_nothing() -> None:
    from triton_agent.tools.race.clock import Clock

    with pytest.raises(NotJudgeableHere, match="no CUDA GPU"):
        Clock()


def test_the_selfcheck_explains_itself_without_importing_torch() -> None:
    program = (
        "import runpy, sys\n"
        f"sys.argv = ['clock_selfcheck.py', '--help']\n"
        "try:\n"
        f"    runpy.run_path({str(SELFCHECK)!r}, run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    assert not end.code and 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "--out" in done.stdout

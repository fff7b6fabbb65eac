"""Checks that the clock finds no difference between equal things. Run it on a GPU before trusting a speed-up there.

Times one copy against itself many times and counts false wins; measures one kernel repeatedly and shows the spread of
the ratio of medians; does both with a cold and a warm cache; prints the card's ceilings. Needs CUDA, some minutes, and
the card to itself.

    python benchmarks/clock_selfcheck.py --out selfcheck.json
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triton_agent.tools.race.clock import Clock, Subject

KIB = 2**10


def main() -> None:
    """Run every check; name what is missing if none can run."""
    options = _options()
    # Later than --help, which needs no torch.
    from triton_agent.tools.errors import InstrumentError

    try:
        check(options)
    except InstrumentError as error:
        print(error, file=sys.stderr)
        sys.exit(3)


def check(options: argparse.Namespace) -> None:
    """Print a line for each finding and write them all."""
    from triton_agent.tools.machine import hardware, health
    from triton_agent.tools.machine.lease import lease
    from triton_agent.tools.race.clock import cuda_device

    device = cuda_device(options.device)
    uuid = hardware.uuid_of(device.index)
    with lease(uuid, what="clock self-check"):
        before = health.health(uuid)
        if found := health.disturbances(before, [os.getpid()]):
            raise SystemExit(f"the GPU is not quiet: {'; '.join(found)}")
        report = {"machine": dataclasses.asdict(hardware.describe()), "before": dataclasses.asdict(before)}
        report |= _measured(options, str(device))
        report["after"] = dataclasses.asdict(health.health(uuid))
    if options.out:
        options.out.write_text(json.dumps(report, indent=2))
        print(f"written to {options.out}")


def _measured(options: argparse.Namespace, device: str) -> dict[str, Any]:
    from triton_agent.tools.race.clock import Clock, ClockSettings
    from triton_agent.tools.race.rates import ceilings

    report: dict[str, Any] = {}
    for state, cold in (("cold", True), ("warm", False)):
        clock = Clock(device, ClockSettings(cold_l2=cold))
        print(f"{state}: {clock.method}")
        report[state] = {
            "method": clock.method,
            "overheads": dataclasses.asdict(clock.overheads),
            "false_wins": false_wins(clock, options),
            "spread": spread(clock, options),
        }
    found = ceilings(device, renew=True) if options.renew else ceilings(device)
    report["ceilings"] = {**dataclasses.asdict(found), "flops_per_s": dict(found.flops_per_s)}
    _print_ceilings(report["ceilings"])
    return report


def false_wins(clock: Clock, options: argparse.Namespace) -> dict[str, Any]:
    """Return how often one copy beats another copy just like it, by each figure."""
    from triton_agent.tools.race.pairing import PairingSettings

    wins = {"device": 0, "latency": 0}
    begun_s = time.monotonic()
    done = 0
    for seed in range(options.comparisons):
        measured = clock.measure_pairs(
            *_equal_copies(clock, options.kib), PairingSettings(pairs=options.pairs, seed=seed)
        )
        for kind in wins:
            wins[kind] += measured.is_faster(kind, options.margin)
        done += 1
        if time.monotonic() - begun_s > options.limit_s:
            break
    seconds = time.monotonic() - begun_s
    print(f"  false wins of {done} at {options.margin:.0%}: {wins}  ({seconds:.1f} s)")
    return {"comparisons": done, "pairs": options.pairs, "margin": options.margin, "wins": wins, "seconds": seconds}


def spread(clock: Clock, options: argparse.Namespace) -> dict[str, Any]:
    """Return how far the ratio of medians is from 1 when a kernel is repeatedly measured against itself."""
    from triton_agent.tools.race.pairing import PairingSettings

    ratios: dict[str, list[float]] = {"device": [], "latency": []}
    medians = []
    for seed in range(options.repeats):
        measured = clock.measure_pairs(
            *_equal_copies(clock, options.kib), PairingSettings(pairs=options.pairs, seed=seed)
        )
        for kind, found in ratios.items():
            found.append(measured.timing("itself", kind).speedup.median)
        medians.append(statistics.median(measured.times_ms("device")[0]))
    for kind, found in ratios.items():
        print(f"  {kind} ratio over {len(found)} runs: {min(found):.4f} to {max(found):.4f}")
    print(f"  device median {min(medians):.4f} to {max(medians):.4f} ms")
    return {"ratios": ratios, "device_median_ms": medians}


def _equal_copies(clock: Clock, kib: int) -> tuple[Subject, Subject]:
    """Return two subjects that do the same with the same four sets of buffers; a buffer's address can make a
    difference.
    """
    import torch

    from triton_agent.tools.race.clock import Subject

    sources = [torch.randn(kib * KIB // 4, device=clock.device) for _ in range(4)]
    sets = [(torch.empty_like(source), source) for source in sources]
    first, second = (Subject([functools.partial(target.copy_, source) for target, source in sets]) for _ in range(2))
    return first, second


def _print_ceilings(found: dict[str, Any]) -> None:
    print(f"{found['gpu']}, driver {found['driver']}, torch {found['torch']}, {found['measured_at']}")
    print(f"  copy {found['copy_bytes_per_s'] / 1e12:.2f} TB/s (read plus written)")
    for unit, rate in found["flops_per_s"].items():
        print(f"  {unit} {rate / 1e12:.1f} TFLOP/s")
    launch_us = [found[name] * 1e3 for name in ("launch_ms", "launch_enqueue_ms", "empty_kernel_ms")]
    print("  empty launch {:.1f} us to idle, {:.1f} us in the host, {:.1f} us on the device".format(*launch_us))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Checks the clock on this GPU against itself.")
    parser.add_argument("--device", default="cuda", help="the GPU to check (default: the current one)")
    parser.add_argument("--comparisons", type=int, default=200, help="comparisons of equals, counting false wins")
    parser.add_argument(
        "--repeats", type=int, default=20, help="measurements of one kernel, for the spread of the ratio"
    )
    parser.add_argument("--pairs", type=int, default=24, help="pairs (of four calls) in each measurement")
    parser.add_argument("--margin", type=float, default=0.02, help="what counts as a win")
    parser.add_argument("--kib", type=int, default=64 * KIB, help="size of the copied buffer in KiB")
    parser.add_argument(
        "--limit-s", type=float, default=120.0, help="time limit for the comparisons, cold and warm each"
    )
    parser.add_argument("--renew", action="store_true", help="measure the ceilings even where they are known")
    parser.add_argument("--out", type=Path, help="where to write everything as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()

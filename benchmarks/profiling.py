"""Verdicts per second with profiles of the fastest candidates, with profiles of all, and without any.

For each problem, right kernels of the test suite are judged again and again, each time as a text of its own. The three
ways take turns, so that whatever else the machine does affects them all. Every way has an evaluator of its own; the
first verdicts, which wait for clocks and compilers, are not counted. Rows in a CSV file, written as soon as a problem
is measured; see `rows.py`. A problem that fails is told of at the end and keeps no other from being measured.

It says nothing without a GPU, where no profile is taken. It does not measure several processes on one card.

    python benchmarks/profiling.py --at-once 4
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import itertools
import math
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parent / "tests" / "kernels"
MOST_LOST = 0.10
"""Share of the verdicts per second that profiles of the fastest may cost."""


def main() -> None:
    """Measure every problem; exit code 1 where profiles of the fastest cost more than the bar, or one is missing."""
    options = _options()
    # Later than --help, which needs no torch.
    import rows

    from triton_agent.tools.errors import InstrumentError

    shared = rows.provenance()
    kept, missing = [], []
    for name in options.problem:
        try:
            rates = measured(KERNELS / name, options)
        except (InstrumentError, Refused) as error:
            print(f"{name}: not measured: {error}", flush=True)
            missing.append(name)
            continue
        found = [{"problem": name, "at_once": options.at_once, "profile": way, **row} for way, row in rates.items()]
        rows.append(options.out, shared, found)
        for row in found:
            print(f"{name}: profile {row['profile']:8} {row['verdicts_per_s']} verdicts/s", flush=True)
        kept.append(rates["leaders"]["verdicts_per_s"] / rates["none"]["verdicts_per_s"])
    lost = 1 - statistics.geometric_mean(kept) if kept else math.nan
    print(f"profiles of the fastest cost {100 * lost:.1f}% of the verdicts per second over {len(kept)} problems")
    if missing or lost > MOST_LOST:
        sys.exit(f"above the bar of {100 * MOST_LOST:.0f}%, or not measured: {', '.join(missing) or 'none'}")


class Refused(Exception):
    """A right kernel was refused."""


def measured(problem: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the verdicts per second of each way, and how many of the verdicts have a profile."""
    from triton_agent.tools.evaluate.evaluator import Evaluator
    from triton_agent.tools.problem.problem import parse_problem
    from triton_agent.tools.settings import EvaluatorSettings, Profiling

    sources = _distinct_sources(problem)
    spec = parse_problem(str(problem / "problem.py"))
    ways = [way.value for way in Profiling]
    seconds, verdicts, profiled = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0), dict.fromkeys(ways, 0)
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:

        def start(way: str) -> Evaluator:
            settings = EvaluatorSettings(device=options.device, profile=Profiling(way), waits_for_memory=False)
            return stack.enter_context(Evaluator(spec, settings))

        with concurrent.futures.ThreadPoolExecutor(len(ways)) as starters:
            judges = dict(zip(ways, starters.map(start, ways)))
        for judge in judges.values():
            list(pool.map(judge.evaluate, itertools.islice(sources, options.at_once)))
        ends_s = time.monotonic() + options.seconds
        for turn in range(options.turns):
            if turn > 1 and time.monotonic() > ends_s:
                break
            for way in ways[:: -1 if turn % 2 else 1]:
                texts = list(itertools.islice(sources, options.candidates))
                began_s = time.perf_counter()
                found = list(pool.map(judges[way].evaluate, texts))
                seconds[way] += time.perf_counter() - began_s
                verdicts[way] += len(found)
                profiled[way] += sum(bool(one.diagnosis and one.diagnosis.profile) for one in found)
                if refused := [one for one in found if one.finding is not None]:
                    raise Refused(f"a right kernel was refused ({refused[0].finding}): {refused[0].message}")
    return {
        way: {
            "verdicts": verdicts[way],
            "profiled": profiled[way],
            "verdicts_per_s": round(verdicts[way] / seconds[way], 3),
        }
        for way in ways
    }


def _distinct_sources(problem: Path) -> Iterator[str]:
    """Yield the problem's right kernels in turn, each time with another comment."""
    kernels = [path.read_text() for path in sorted(problem.glob("right_*.py"))]
    for number, kernel in enumerate(itertools.cycle(kernels)):
        yield f"{kernel}\n# {number}\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What profiles cost in verdicts per second.")
    names = sorted(path.parent.name for path in KERNELS.glob("*/problem.py"))
    parser.add_argument("--problem", action="append", choices=names, help="may be repeated; default: three of them")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=40.0, help="for a problem; two turns are always made")
    parser.add_argument("--candidates", type=int, default=12, help="judged in each turn of each way")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "profiling.csv", help="the CSV file for rows")
    options = parser.parse_args()
    options.problem = options.problem or ["layer_norm_f32", "matmul_f16", "softmax_f32"]
    return options


if __name__ == "__main__":
    main()

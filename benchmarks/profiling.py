"""Verdicts per second with profiles of the fastest candidates, with profiles of all, and without any.

For each problem, right kernels of the test suite are judged again and again, each time as a text of its own. The three
ways take turns, so that whatever else the machine does affects them all. Every way has an evaluator of its own; the
first verdicts, which wait for clocks and compilers, are not counted. Rows in a CSV file; see `rows.py`.

It says nothing without a GPU, where no profile is taken. It does not measure several processes on one card.

    python benchmarks/profiling.py --at-once 4
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import itertools
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
    """Measure every problem; exit code 1 where profiles of the fastest cost more than the bar."""
    options = _options()
    # Later than --help, which needs no torch.
    import rows

    shared = rows.provenance()
    missed = []
    for name in options.problem:
        rates = measured(KERNELS / name, options)
        lost = 1 - rates["leaders"]["verdicts_per_s"] / rates["none"]["verdicts_per_s"]
        missed += [name] if lost > MOST_LOST else []
        found = [{"problem": name, "at_once": options.at_once, "profile": way, **row} for way, row in rates.items()]
        rows.append(options.out, shared, found)
        for row in found:
            print(
                f"{name}: profile {row['profile']:8} {row['verdicts_per_s']} verdicts/s, {row['stage_ms']} ms of stage"
            )
        print(f"{name}: profiles of the fastest cost {100 * lost:.1f}% of the verdicts per second", flush=True)
    if missed:
        sys.exit(f"above the bar of {100 * MOST_LOST:.0f}%: {', '.join(missed)}")


def measured(problem: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return, for each way, verdicts per second and the median time of the stage where a profile was taken."""
    from triton_agent.tools.evaluate.evaluator import Evaluator
    from triton_agent.tools.problem.problem import parse_problem
    from triton_agent.tools.settings import EvaluatorSettings, Profiling

    sources = _distinct_sources(problem)
    spec = parse_problem(str(problem / "problem.py"))
    seconds = {way.value: 0.0 for way in Profiling}
    stages: dict[str, list[float]] = {way.value: [] for way in Profiling}
    counts = dict.fromkeys(seconds, 0)
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        judges = {}
        for way in Profiling:
            settings = EvaluatorSettings(device=options.device, profile=way)
            judges[way.value] = stack.enter_context(Evaluator(spec, settings))
            list(pool.map(judges[way.value].evaluate, itertools.islice(sources, options.at_once)))
        for turn in range(options.turns):
            for way, judge in list(judges.items())[:: 1 if turn % 2 else -1]:
                texts = list(itertools.islice(sources, options.candidates))
                began_s = time.perf_counter()
                verdicts = list(pool.map(judge.evaluate, texts))
                seconds[way] += time.perf_counter() - began_s
                counts[way] += len(verdicts)
                for verdict in verdicts:
                    if verdict.finding is not None:
                        raise SystemExit(f"a right kernel was refused ({verdict.finding}): {verdict.message}")
                    if verdict.diagnosis is not None and verdict.diagnosis.profile is not None:
                        stages[way] += [stage.wall_ms for stage in verdict.stages if stage.stage == "profile"]
    return {
        way: {
            "verdicts": counts[way],
            "profiled": len(stages[way]),
            "verdicts_per_s": round(counts[way] / seconds[way], 3),
            "stage_ms": round(statistics.median(stages[way]), 1) if stages[way] else "",
        }
        for way in seconds
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
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--candidates", type=int, default=12, help="judged in each turn of each way")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "profiling.csv", help="the CSV file for rows")
    options = parser.parse_args()
    options.problem = options.problem or ["layer_norm_f32", "matmul_f16", "softmax_f32"]
    return options


if __name__ == "__main__":
    main()

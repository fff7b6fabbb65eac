"""Measures verdicts per second: the evaluator against a new process for every candidate, with the same checks.

For each problem, right kernels of the test suite are judged again and again, each time as a new text (a comment is
added, so that no two have one hash). Everything that a verdict takes counts: fork, sandbox, screen, compilation with an
empty cache, first call, every case, clean-up. Start-up, until the first verdict, is reported separately. The
arrangements take turns, so that other load on the machine affects all of them; `fresh_process.py` describes the
baseline. One table, and rows in a CSV file; see `rows.py`.

With `--together` the problems share the device, as they do in training: candidates of all of them are judged at the
same time, each by its own problem's evaluator.

Not measured: wrong candidates (most fail early, so they take less), and problems of realistic size, where the
interpreter's own time dominates. On a GPU, the sketches that sort a trusted author's variants are measured after the
verdicts.

    python benchmarks/evaluator.py --quick
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triton_agent.tools.evaluate.evaluator import Evaluator

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parent / "tests" / "kernels"
BAR = 5.0
"""The evaluator must give at least this many times the verdicts of the best arrangement of fresh processes."""
ALONE_AT_MOST = 24
"""Candidates judged one at a time at most: that arrangement is for latencies."""
TOTAL = "total"
SORTING = "sorting"
"""Sketches of a trusted author's variants, in reused workers; no verdicts."""
IDLE_BELOW_MS = 0.1
"""A stage that never takes longer returned at once: timing, where there is no GPU."""
FRESH_ATTEMPTS = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Time of one verdict, in total and by stage."""

    total_ms: float
    stages_ms: dict[str, float]


@dataclasses.dataclass(slots=True, kw_only=True)
class Arrangement:
    """A way to judge candidates, a number of them at a time, and its results so far."""

    name: str
    workers: int
    judge: Callable[[Any], Verdict]
    chunk: int
    """Candidates judged in one turn."""
    verdicts: list[Verdict] = dataclasses.field(default_factory=list)
    wall_s: float = 0.0

    def take_turn(self, sources: Iterator[Any]) -> None:
        chunk = list(itertools.islice(sources, self.chunk))
        began = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            self.verdicts += pool.map(self.judge, chunk)
        self.wall_s += time.perf_counter() - began

    @property
    def per_second(self) -> float:
        return len(self.verdicts) / self.wall_s

    def times_ms(self) -> dict[str, list[float]]:
        """Per stage that does something on this device, in order, and in total."""
        found = {name: [v.stages_ms[name] for v in self.verdicts] for name in self.verdicts[0].stages_ms}
        busy = {name: times for name, times in found.items() if max(times) > IDLE_BELOW_MS}
        return busy | {TOTAL: [v.total_ms for v in self.verdicts]}


def main() -> None:
    """Measure every problem asked for; exit code 1 if the bar is missed."""
    options = _options()
    # Later than --help, which needs no torch.
    import rows

    shared = rows.provenance()
    ratios: list[float] = []
    for name in [" and ".join(options.problem)] if options.together else options.problem:
        start_s, arrangements = measure_together(options) if options.together else measure(KERNELS / name, options)
        ratios += filter(None, [_ratio(arrangements)])
        show(name, start_s, arrangements)
        rows.append(options.out, shared, list(_rows(name, options.device, start_s, arrangements)))
    print(f"rows added to {options.out}")
    if ratios and min(ratios) < BAR:
        print(f"below the bar of {BAR:g} times the verdicts of fresh processes", file=sys.stderr)
        sys.exit(1)


def measure(problem: Path, options: argparse.Namespace) -> tuple[float, list[Arrangement]]:
    """Return seconds to the evaluator's first verdict, and all arrangements after their turns."""
    from triton_agent.tools.evaluate.evaluator import Evaluator
    from triton_agent.tools.problem.problem import parse_problem
    from triton_agent.tools.settings import EvaluatorSettings

    settings = EvaluatorSettings(device=options.device)
    sources = _distinct_sources(problem)
    spec = parse_problem(str(problem / "problem.py"))
    began = time.perf_counter()
    with Evaluator(spec, settings) as evaluator, tempfile.TemporaryDirectory() as folder:
        _judge_in(evaluator, next(sources))
        start_s = time.perf_counter() - began
        arrangements = list(_arrangements(evaluator, problem, Path(folder), options))
        for turn in range(options.turns):
            for arrangement in arrangements:
                if time.perf_counter() - began > options.limit_s:
                    break
                arrangement.take_turn(sources)
                done = f"{arrangement.name} x {arrangement.workers}, {arrangement.per_second:.2f} a second"
                _say(f"{problem.name}: turn {turn + 1} of {options.turns}, {done}")
    return start_s, [arrangement for arrangement in arrangements if arrangement.verdicts]


def measure_together(options: argparse.Namespace) -> tuple[float, list[Arrangement]]:
    """Return seconds to the last problem's first verdict, and the arrangements after their turns."""
    from triton_agent.tools.evaluate.evaluator import Evaluator
    from triton_agent.tools.problem.problem import parse_problem
    from triton_agent.tools.processes.zygotes import own_nursery
    from triton_agent.tools.settings import EvaluatorSettings

    settings = EvaluatorSettings(device=options.device)
    began = time.perf_counter()
    with own_nursery(many_problems=True) as nursery, contextlib.ExitStack() as stack:

        def first_verdict(name: str) -> Iterator[tuple[Evaluator, str]]:
            spec = parse_problem(str(KERNELS / name / "problem.py"))
            evaluator = stack.enter_context(Evaluator(spec, settings, nursery=nursery))
            line = zip(itertools.repeat(evaluator), _distinct_sources(KERNELS / name))
            _judge_in(*next(line))
            return line

        with concurrent.futures.ThreadPoolExecutor(len(options.problem)) as pool:
            lines = list(pool.map(first_verdict, options.problem))
        start_s = time.perf_counter() - began
        sources = (next(line) for line in itertools.cycle(lines))
        arrangements = []
        for workers in options.at_once or sorted({1, 4, min(len(os.sched_getaffinity(0)), 16)}):
            arrangement = Arrangement(
                name="evaluators together",
                workers=workers,
                judge=lambda given: _judge_in(*given),
                chunk=max(workers, options.candidates // options.turns),
            )
            for _ in range(options.turns):
                arrangement.take_turn(sources)
            _say(f"{arrangement.name} x {workers}, {arrangement.per_second:.2f} a second")
            arrangements.append(arrangement)
    return start_s, arrangements


def _arrangements(
    evaluator: Evaluator, problem: Path, folder: Path, options: argparse.Namespace
) -> Iterator[Arrangement]:
    cores = len(os.sched_getaffinity(0))
    numbers = itertools.count()
    yield from _fresh_arrangements(problem, folder, options, cores, numbers)

    at_once = options.at_once or sorted({1, 4, min(cores, 8)} if options.device == "cuda" else {1, 2, cores})
    ways = [("evaluator", _judge_in)]
    if options.device == "cuda":
        ways.append((SORTING, _sketch_in))  # last: its workers stay, with a context each
    for (name, judge), workers in itertools.product(ways, at_once):
        asked = options.candidates if workers > 1 else min(options.candidates, ALONE_AT_MOST)
        chunk = max(workers, asked // options.turns)
        yield Arrangement(name=name, workers=workers, judge=functools.partial(judge, evaluator), chunk=chunk)


def _fresh_arrangements(
    problem: Path, folder: Path, options: argparse.Namespace, cores: int, numbers: Iterator[int]
) -> Iterator[Arrangement]:
    def judge_fresh(source: str) -> Verdict:
        return _judge_afresh(problem / "problem.py", source, folder / f"candidate_{next(numbers)}.py", options.device)

    if options.fresh == 0:
        return
    for workers in sorted({1, 2, 4} if options.device == "cuda" else {1, max(1, cores // 2), cores}):
        chunk = max(workers, options.fresh // options.turns)
        yield Arrangement(name="fresh process", workers=workers, judge=judge_fresh, chunk=chunk)


def _judge_in(evaluator: Evaluator, source: str) -> Verdict:
    began = time.perf_counter()
    evaluation = evaluator.evaluate(source)
    total_ms = (time.perf_counter() - began) * 1e3
    if evaluation.finding is not None:
        raise SystemExit(f"a right kernel was refused ({evaluation.finding}): {evaluation.message}")
    return Verdict(total_ms=total_ms, stages_ms={stage.stage: stage.wall_ms for stage in evaluation.stages})


def _sketch_in(evaluator: Evaluator, source: str) -> Verdict:
    began = time.perf_counter()
    sketch = evaluator.sketch(source)
    total_ms = (time.perf_counter() - began) * 1e3
    if sketch.finding is not None:
        raise SystemExit(f"a right kernel was refused ({sketch.finding}): {sketch.message}")
    return Verdict(total_ms=total_ms, stages_ms={stage.stage: stage.wall_ms for stage in sketch.stages})


def _judge_afresh(problem: Path, source: str, candidate: Path, device: str) -> Verdict:
    candidate.write_text(source)
    argv = [sys.executable, str(HERE / "fresh_process.py"), str(problem), str(candidate), "--device", device]
    began = time.perf_counter()
    for _ in range(FRESH_ATTEMPTS):
        done = subprocess.run(argv, capture_output=True, text=True)
        answer = json.loads(done.stdout) if done.returncode == 0 else {}
        if answer.get("error", {}).get("kind") != "InstrumentError":  # they disturb one another's clocks at times
            break
    total_ms = (time.perf_counter() - began) * 1e3
    if answer.get("evaluation", {"finding": "none"})["finding"] is not None:
        raise SystemExit(f"a fresh process did not pass a right kernel: {done.stdout[-500:]} {done.stderr[-1500:]}")
    return Verdict(
        total_ms=total_ms, stages_ms={stage["stage"]: stage["wall_ms"] for stage in answer["evaluation"]["stages"]}
    )


def _distinct_sources(problem: Path) -> Iterator[str]:
    """Yield the problem's right kernels in turn, each time with another comment."""
    kernels = [path.read_text() for path in sorted(problem.glob("right_*.py"))]
    for number, kernel in enumerate(itertools.cycle(kernels)):
        yield f"{kernel}\n# candidate {number}\n"


def _best_fresh(arrangements: list[Arrangement]) -> float | None:
    fresh = (arrangement.per_second for arrangement in arrangements if arrangement.name == "fresh process")
    return max(fresh, default=None)


def _ratio(arrangements: list[Arrangement]) -> float | None:
    """Compare the best arrangements, each with the number of workers that suits it; None without fresh processes."""
    fresh = _best_fresh(arrangements)
    if not fresh:
        return None
    return max(arrangement.per_second for arrangement in arrangements if arrangement.name == "evaluator") / fresh


def _rows(
    problem: str, device: str, start_s: float, arrangements: list[Arrangement]
) -> Iterator[dict[str, str | int | float]]:
    for arrangement in arrangements:
        base = {
            "problem": problem,
            "device": device,
            "arrangement": arrangement.name,
            "workers": arrangement.workers,
            "candidates": len(arrangement.verdicts),
        }
        figures: dict[str, tuple[float, str]] = {"throughput": (arrangement.per_second, "verdicts/s")}
        if arrangement.name.startswith("evaluator"):
            figures["start to first verdict"] = (start_s, "s")
            if fresh := _best_fresh(arrangements):
                figures["throughput over best fresh"] = (arrangement.per_second / fresh, "x")
        for name, times_ms in arrangement.times_ms().items():
            figures[f"{name} p50"] = (statistics.median(times_ms), "ms")
            figures[f"{name} p95"] = (_p95(times_ms), "ms")
        for figure, (value, unit) in figures.items():
            yield {**base, "figure": figure, "value": float(f"{value:.4g}"), "unit": unit}


def _p95(values: list[float]) -> float:
    """Return the smallest value that 95% do not exceed; of fewer than twenty, the largest."""
    ordered = sorted(values)
    return ordered[-(-95 * len(ordered) // 100) - 1]


def show(problem: str, start_s: float, arrangements: list[Arrangement]) -> None:
    """Print one table with a row for each arrangement."""
    from rich.console import Console
    from rich.table import Table

    fresh, ratio = _best_fresh(arrangements), _ratio(arrangements)
    stages = list(arrangements[0].times_ms())
    against = f", then {ratio:.1f} times the fresh processes" if ratio else ""
    table = Table(title=f"{problem}: {start_s:.1f} s to the first verdict{against}")
    for heading in ("arrangement", "at once", "candidates", "verdicts/s", "over fresh"):
        table.add_column(heading, justify="left" if heading == "arrangement" else "right")
    for stage in stages:
        table.add_column(f"{stage}\np50 / p95 ms", justify="right")
    for arrangement in arrangements:
        cells = [arrangement.name, str(arrangement.workers), str(len(arrangement.verdicts))]
        cells += [f"{arrangement.per_second:.2f}", f"{arrangement.per_second / fresh:.1f}x" if fresh else ""]
        times_ms = arrangement.times_ms()
        cells += [
            f"{statistics.median(times_ms[s]):.0f} / {_p95(times_ms[s]):.0f}" if s in times_ms else "" for s in stages
        ]
        table.add_row(*cells)
    console = Console()
    console.print(table) if console.is_terminal else Console(width=160).print(table)


def _say(text: str) -> None:
    """Progress, for people who wait: one line that changes, or in a file a line each."""
    ends = {"end": ""} if sys.stderr.isatty() else {}
    print(f"\r\033[K{text}" if ends else text, file=sys.stderr, flush=True, **ends)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Verdicts per second, against a fresh process per candidate.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cpu: the interpreter")
    parser.add_argument(
        "--problem",
        action="append",
        choices=sorted(path.parent.name for path in KERNELS.glob("*/problem.py")),
        metavar="NAME",
        help="a folder of tests/kernels; may be repeated (default: add_bf16 and softmax_f32)",
    )
    parser.add_argument("--together", action="store_true", help="candidates of all problems in turn, at the same time")
    parser.add_argument("--at-once", type=int, nargs="+", help="candidates that the evaluator judges at once")
    parser.add_argument("--candidates", type=int, default=40, help="for each arrangement of the evaluator")
    parser.add_argument("--fresh", type=int, default=8, help="for each arrangement of fresh processes; 0: none")
    parser.add_argument("--turns", type=int, default=4, help="turns that the arrangements take")
    parser.add_argument("--quick", action="store_true", help="a short look: few candidates, one turn, one problem")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="no arrangement takes a turn after this")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "evaluator.csv", help="the CSV file for rows")
    options = parser.parse_args()
    if options.quick:
        options.candidates, options.fresh, options.turns = 6, 2, 1
    options.problem = options.problem or (["add_bf16"] if options.quick else ["add_bf16", "softmax_f32"])
    return options


if __name__ == "__main__":
    main()

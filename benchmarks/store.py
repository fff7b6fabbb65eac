"""How fast the store takes attempts in and finds them again, and how much room they take.

Attempts are of the size that language models give them: an answer of 6 KB that holds a kernel, 1,500 tokens with their
log-probabilities, a verdict for each; eight answers a turn, 200 turns a run, one in four of a problem that other runs
have too. Measured are single commits, a commit for each of four threads, group commits by one process (a tenth of the
attempts) and by two (the rest), then what a person waits for (`runs list`, a page of it filtered, a run with its
attempts, an attempt, recall, a look for an earlier verdict), each from a store opened for it, as a command would. Rates
count everything from records to the disk: nothing is acknowledged before its commit. Making the texts is left out, but
for the two processes.

It does not measure how the network to a PostgreSQL server behaves: give its URL with --store to see.

    python benchmarks/store.py --attempts 20000
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import datetime
import multiprocessing
import random
import shutil
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triton_agent.memory.observation import ProblemView
    from triton_agent.memory.records import Attempt, Grading, Run
    from triton_agent.memory.store import Store

HERE = Path(__file__).resolve().parent
TEXT_CHARACTERS = 6_000
SOURCE_CHARACTERS = 5_000
TOKENS = 1_500
VOCABULARY = 152_000
ANSWERS = 8
"""Of one turn: siblings that saw the same."""
TURNS = 200
SINGLES = 300
"""Attempts of the measurements without group commit."""
THREADS = 4
PROCESSES = 2
REPEATS = 15
BEGAN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
BARS = {f"group commit, {PROCESSES} processes": 2_000.0, "runs show": 100.0, "recall": 100.0, "runs list": 300.0}
"""Attempts a second at least, and milliseconds at most (median)."""
OPERATORS = ("_softmax", "mm", "addmm", "native_layer_norm", "gelu", "mul", "add", "sum", "exp", "max", "convolution")


class Material:
    """Texts, tokens and problems to make attempts of, from a seed."""

    def __init__(self, seed: int = 0) -> None:
        self._draw = random.Random(seed)
        words = (HERE.parent / "tools" / "evaluate" / "evaluator.py").read_text().split(" ")
        self._pool = " ".join(self._draw.choice(words) for _ in range(60_000))
        self._ids = [self._some_ids() for _ in range(256)]
        self._chances = [self._some_chances() for _ in range(256)]

    def _some_ids(self) -> tuple[int, ...]:
        """Few tokens are frequent, many rare."""
        return tuple(min(int(self._draw.paretovariate(0.5)), VOCABULARY - 1) for _ in range(TOKENS))

    def _some_chances(self) -> tuple[float, ...]:
        """In single precision, as servers give them."""
        drawn = [-(abs(self._draw.gauss(0, 0.7)) ** 3) for _ in range(TOKENS)]
        return struct.unpack(f"{TOKENS}f", struct.pack(f"{TOKENS}f", *drawn))

    def runs(self, attempts: int) -> list[Run]:
        """Return as many runs as the attempts fill."""
        from triton_agent.memory.records import Run

        count = max(1, attempts // (ANSWERS * TURNS))
        return [
            Run(
                id=f"{BEGAN + datetime.timedelta(minutes=number):%Y%m%d-%H%M%S}-{number:06x}",
                problem=problem(self._draw.randrange(max(1, 3 * count // 4))),
                policy=("author", "vllm:some/model")[number % 2],
                settings={"turns": TURNS, "answers": ANSWERS},
                started_at=BEGAN + datetime.timedelta(minutes=number),
            )
            for number in range(count)
        ]

    def turns(self, run: Run) -> Iterator[list[tuple[Attempt, Grading]]]:
        """Yield the attempts of a run turn by turn, each with its own text and source."""
        from triton_agent.memory.observation import BudgetLeft, Observation, Rules
        from triton_agent.memory.records import attempt_key

        parent = None
        for turn in range(TURNS):
            seen = Observation(problem=run.problem, rules=Rules(), turn=turn, seed=turn, budget=BudgetLeft(turns=TURNS))
            yield [self._judged(run, turn, index, parent, seen) for index in range(ANSWERS)]
            parent = attempt_key(run.id, turn, self._draw.randrange(ANSWERS))

    def _judged(self, run: Run, turn: int, index: int, parent: str | None, seen: Any) -> tuple[Attempt, Grading]:
        from triton_agent.memory.records import Attempt, Completion

        start = self._draw.randrange(len(self._pool) - TEXT_CHARACTERS)
        source = f"# {run.id} {turn} {index}\n{self._pool[start : start + SOURCE_CHARACTERS]}"
        beside = self._pool[start + SOURCE_CHARACTERS : start + TEXT_CHARACTERS]
        completion = Completion(
            text=f"{beside}\n```python\n{source}\n```\n",
            policy=run.policy,
            policy_version="7",
            prompt_version="2",
            token_ids=self._draw.choice(self._ids),
            log_probabilities=self._draw.choice(self._chances),
        )
        plan = self._draw.choice(("use split-k", "more warps", "fuse the two kernels", "larger blocks", "try 7 things"))
        attempt = Attempt(
            run=run.id,
            turn=turn,
            index=index,
            parent=parent,
            observation=seen,
            completion=completion,
            plan=plan,
            source=source,
            created_at=run.started_at + datetime.timedelta(seconds=turn),
        )
        return attempt, _verdict(attempt, self._draw)


def problem(number: int) -> ProblemView:
    """Return a chain of operators; every fourth differs from others in its sizes only."""
    from triton_agent.memory.observation import ProblemView

    draw = random.Random(number // 4)
    operators = [f"aten.{draw.choice(OPERATORS)}" for _ in range(draw.randrange(1, 6))]
    rows = 256 << (number % 4)
    meta = {"shape": [rows, 1024], "dtype": "float32", "strides": [1024, 1], "offset": 0}
    nodes = [{"index": k, "operator": name, "outputs": [meta]} for k, name in enumerate(operators)]
    graph = {"inputs": {"x0": meta}, "parameters": {}, "nodes": nodes, "outputs": [f"n{len(nodes) - 1}"]}
    structure = "-".join(operators)
    return ProblemView(
        digest=f"{number:064x}",
        name=f"problem_{number}",
        spec={"path": f"problem_{number}.py"},
        source=f"# problem {number}\n" + "import torch\n" * 100,
        fingerprint=structure,
        signature=f"{structure}/{rows}",
        graphs=(graph,),
    )


def _verdict(attempt: Attempt, draw: random.Random) -> Grading:
    """Two in five pass and are timed; the rest fail in one of a hundred ways."""
    from triton_agent.memory.records import Grading, GradingMachine
    from triton_agent.tools import results

    environment = results.Environment(
        mode="gpu", device="NVIDIA H200", python="3.12.3", torch="2.11.0", triton="3.6.0", target="cuda:90",
        sandbox=("namespaces", "seccomp", "landlock"), grader="1",
    )  # fmt: skip
    common: dict[str, Any] = {
        "candidate": "",
        "problem": attempt.observation.problem.digest,
        "environment": environment,
    }
    if draw.random() < 0.4:
        speedup = draw.lognormvariate(0.2, 0.4)
        interval = results.Interval(median=speedup, low=speedup * 0.97, high=speedup * 1.03)
        timing = results.Timing(
            baseline="eager", kind="device", candidate_ms=interval, baseline_ms=interval, speedup=interval, pairs=50,
            cold_l2=True, method="events",
        )  # fmt: skip
        case = results.CaseAccuracy(
            variant="as given", distribution="as given", output="out", metric="max", error=1e-7, original_error=2e-7,
            limit=1e-6, ok=True,
        )  # fmt: skip
        status = results.Status.PASSED
        evaluation = results.Evaluation(
            status=status, finding=None, message="", accuracy=(case,) * 6, timings=(timing,), **common
        )
    else:
        way = draw.randrange(100)
        message = f"case ROWS={way}: wrong in output_{chr(97 + way % 26)} of way {'abcd'[way // 26]}"
        evaluation = results.Evaluation(
            status=results.Status.WRONG_VALUES, finding=results.Finding.VALUES, message=message, **common
        )
    return Grading(
        attempt=attempt.key, evaluation=evaluation, machine=GradingMachine(gpu="NVIDIA H200"), grader="1",
        graded_at=attempt.created_at,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A row of the results."""

    figure: str
    value: float
    unit: str
    attempts: int
    """In the store when it was measured."""


# Writing


def write_singly(store: Store, material: Material, run: Run) -> float:
    """Attempts a second, each waited for before the next."""
    pairs = _some(material, run, SINGLES)
    began = time.perf_counter()
    for attempt, grading in pairs:
        store.add_attempt(attempt, grading)
    return len(pairs) / (time.perf_counter() - began)


def write_from_threads(store: Store, material: Material, run: Run) -> float:
    """Attempts a second of several threads, each waiting for its own."""
    pairs = _some(material, run, SINGLES)
    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(store.add_attempt, *pair) for pair in pairs]:
            done.result()
    return len(pairs) / (time.perf_counter() - began)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What one process wrote, and when, by the clock that all processes share."""

    attempts: int
    spent_s: float
    """Without making the texts."""
    began_s: float
    ended_s: float


def write_grouped(where: str, runs: list[Run], seed: int) -> Written:
    """Through a GroupWriter, run after run, each until its last attempt is acknowledged."""
    from triton_agent.memory.sql.commits import GroupWriter
    from triton_agent.memory.store import Store

    material = Material(seed)
    written, spent_s, first_s = 0, 0.0, time.monotonic()
    with Store.open(where) as store, GroupWriter(store) as writer:
        for run in runs:
            pairs = [pair for turn in material.turns(run) for pair in turn]
            began = time.perf_counter()
            for future in [writer.add(*pair) for pair in pairs]:
                future.result()
            spent_s += time.perf_counter() - began
            written += len(pairs)
            _say(f"{written:,} attempts, {written / spent_s:,.0f}/s")
    return Written(attempts=written, spent_s=spent_s, began_s=first_s, ended_s=time.monotonic())


def write_from_processes(where: str, runs: list[Run], processes: int) -> float:
    """Attempts a second of several processes together, each with runs of its own; making the texts counts, too."""
    with concurrent.futures.ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        shares = [pool.submit(write_grouped, where, runs[k::processes], k + 1) for k in range(processes)]
        done = [share.result() for share in shares]
    wall_s = max(one.ended_s for one in done) - min(one.began_s for one in done)
    return sum(one.attempts for one in done) / wall_s


def _some(material: Material, run: Run, count: int) -> list[tuple[Attempt, Grading]]:
    pairs = [pair for _, turn in zip(range(-(-count // ANSWERS)), material.turns(run)) for pair in turn]
    return pairs[:count]


# Reading


def reading(where: str, runs: list[Run]) -> dict[str, Callable[[Store], object]]:
    """Return the queries by name; their arguments differ from one time to the next."""
    from triton_agent.memory.listing import RunFilter
    from triton_agent.memory.recall import recall

    draw = random.Random(1)

    def show(store: Store) -> object:
        run = draw.choice(runs)
        return store.run(run.id), store.headers(run.id), store.end(run.id), store.events(run.id)

    def verdict(store: Store) -> object:
        return store.find_graded(draw.choice(runs).problem.digest, f"{draw.getrandbits(256):064x}")

    return {
        "runs list": lambda store: store.runs(),
        "runs list, filtered": lambda store: store.runs(RunFilter(problem=draw.choice(runs).problem.name)),
        "runs list, a later page": lambda store: store.runs(RunFilter(policy="author", before=draw.choice(runs).id)),
        "runs show": show,
        "attempt in full": lambda store: store.attempt(f"{draw.choice(runs).id}/{draw.randrange(TURNS)}.0"),
        "recall": lambda store: recall(store, draw.choice(runs).problem),
        "recall for a new problem": lambda store: recall(store, problem(10**6 + draw.randrange(1_000))),
        "earlier verdict": verdict,
    }


def read(where: str, runs: list[Run], attempts: int) -> Iterator[Figure]:
    """Medians and the worst, each time from a store that was just opened."""
    from triton_agent.memory.store import Store

    for name, ask in reading(where, runs).items():
        times_ms = []
        for _ in range(REPEATS):
            with Store.open(where, read_only=True) as store:
                began = time.perf_counter()
                ask(store)
                times_ms.append((time.perf_counter() - began) * 1e3)
        _say(f"{name}: {statistics.median(times_ms):.1f} ms")
        yield Figure(figure=f"{name} p50", value=statistics.median(times_ms), unit="ms", attempts=attempts)
        yield Figure(figure=f"{name} worst", value=max(times_ms), unit="ms", attempts=attempts)


# Together


def measure(where: str, path: Path | None, attempts: int) -> Iterator[Figure]:
    """Everything, in a store that is empty so far."""
    from triton_agent.memory.store import Store

    material = Material()
    runs = material.runs(attempts)
    extra = [dataclasses.replace(runs[0], id=f"{runs[0].id}-{name}") for name in ("single", "threads")]
    with Store.open(where) as store:
        for run in (*runs, *extra):
            store.add_run(run)
        written = len(runs) * ANSWERS * TURNS + 2 * SINGLES
        yield Figure(
            figure="single commit", value=write_singly(store, material, extra[0]), unit="attempts/s", attempts=0
        )
        rate = write_from_threads(store, material, extra[1])
        yield Figure(figure=f"commits of {THREADS} threads", value=rate, unit="attempts/s", attempts=SINGLES)
    one_in_ten, others = runs[: -(-len(runs) // 10)], runs[-(-len(runs) // 10) :]
    done = write_grouped(where, one_in_ten, 0)
    yield Figure(figure="group commit", value=done.attempts / done.spent_s, unit="attempts/s", attempts=done.attempts)
    if others:
        rate = write_from_processes(where, others, PROCESSES)
        yield Figure(figure=f"group commit, {PROCESSES} processes", value=rate, unit="attempts/s", attempts=written)
    if path is not None:
        room = sum(file.stat().st_size for file in path.parent.iterdir())
        yield Figure(figure="room", value=room / written, unit="bytes/attempt", attempts=written)
    yield from read(where, runs, written)


def show(title: str, figures: list[Figure]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for heading in ("measured", "value", "unit", "bar"):
        table.add_column(heading, justify="right" if heading in ("value", "bar") else "left")
    for figure in figures:
        bar = BARS.get(figure.figure.removesuffix(" p50"))
        table.add_row(figure.figure, f"{figure.value:,.1f}", figure.unit, f"{bar:,.0f}" if bar else "")
    console = Console()
    console.print(table) if console.is_terminal else Console(width=100).print(table)


def missed(figures: list[Figure]) -> list[str]:
    """Bars that were not reached."""
    bad = []
    for figure in figures:
        bar = BARS.get(figure.figure.removesuffix(" p50"))
        if bar is not None and (figure.value < bar if figure.unit.endswith("/s") else figure.value > bar):
            bad.append(f"{figure.figure}: {figure.value:,.0f} {figure.unit}, the bar is {bar:,.0f}")
    return bad


def main() -> None:
    """Measures, shows, appends rows; exit code 1 where a bar is missed."""
    options = _options()
    import rows

    shared = rows.provenance()
    folder = Path(tempfile.mkdtemp(prefix="store-benchmark-", dir=options.folder))
    path = folder / "store.db" if options.store is None else None
    try:
        figures = list(measure(options.store or str(path), path, options.attempts))
    finally:
        shutil.rmtree(folder)
    database = "sqlite" if path else "postgresql"
    show(f"{database}, {figures[-1].attempts:,} attempts", figures)
    rows.append(options.out, shared, [_row(database, figure) for figure in figures])
    print(f"rows added to {options.out}")
    if bad := missed(figures):
        print("\n".join(bad), file=sys.stderr)
        sys.exit(1)


def _row(database: str, figure: Figure) -> dict[str, object]:
    return {
        "database": database,
        "attempts": figure.attempts,
        "figure": figure.figure,
        "value": float(f"{figure.value:.4g}"),
        "unit": figure.unit,
    }


def _say(text: str) -> None:
    """Progress, for people who wait; not where output goes into a file."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Rates, waiting times and room of the store.")
    parser.add_argument("--attempts", type=int, default=20_000, help="to fill the store with (default 20,000)")
    parser.add_argument("--store", metavar="URL", help="an empty PostgreSQL database instead of a SQLite file")
    parser.add_argument("--folder", type=Path, help="where the SQLite file is made and removed (15 KB an attempt)")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "store.csv", help="the CSV file for rows")
    return parser.parse_args()


if __name__ == "__main__":
    main()

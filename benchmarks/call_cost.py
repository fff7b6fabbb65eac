"""Measures what a call of a shipped file costs the host, compared with the reference and the reference compiled.

Each file is measured with six arms, in turns, in a process of its own: `eager`, `compile`, `reduce-overhead`,
`shipped`, `replayed` (where the file was made with --cuda-graph), and `plan` (the shipped file's kernels without its
guard). `until_return_us` is the time until a call of an
idle GPU returns; `back_to_back_us` is the time per call of 200 queued calls until the GPU is done (fewer where 200 take
long). Medians of the repeats, one row for each file and arm. Some files compile side by side, then they measure one
after the other; their rows are written at once. Files that have rows of this commit and this GPU are skipped, so a
benchmark that was ended is continued by the same command.

Kernels run as if asked for (`use_kernels = "always"`), so drafts can be measured, too. With --drafts the examples and
every other quick problem of the suite are optimized first, each for one turn without the GPU. Back to back only files
that were measured before they were shipped have to be as fast as eager; the slower drafts are named.

With --guard, which needs no GPU, the guard alone is measured instead: all that a call does before its plan begins, for
a model of one module and for one of 50.

    python benchmarks/call_cost.py optimized.py=problem.py other_optimized.py=other.py
    python benchmarks/call_cost.py shipped_folder=problems_folder
    python benchmarks/call_cost.py --drafts build/drafts
    python benchmarks/call_cost.py --guard
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import csv
import functools
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
SUITE = HERE / "problems"
QUEUED = 200
SERIES_US = 30_000
"""Fewer calls are queued if they would take longer than this."""
REPEATS = 15
ARMS = ("eager", "compile", "reduce-overhead", "shipped", "replayed", "plan")
GUARD_BARS_US = {1: 5.0, 50: 15.0}
COMPILE_SHARE = 0.9
"""Share of the files that may cost the host no more than the compiled reference does."""
COMPILE_GEOMEAN = 0.8
SLOWER_AT_MOST = 1.03
"""A ratio above this counts as slower; two arms of the same code differ by as much."""
ERROR_AT_MOST = 0.05
"""Of a result against eager's; shows kernels that do not run at all, no more."""
DRAFT_S = 150.0


def main() -> None:
    """Measure what is named and not measured yet; exit code 1 if a bar is missed."""
    options = _options()
    if options.worker:
        _work(*map(Path, options.pairs[0].split("=")))
        return
    sys.path.insert(0, str(HERE))
    import rows

    shared = rows.provenance()
    if options.guard:
        found = [_guard_row(count) for count in GUARD_BARS_US]
        missed = [row["file"] for row in found if row["until_return_us"] > GUARD_BARS_US[row["modules"]]]
        _print(found)
        rows.append(options.out, shared, found)
    else:
        until = time.monotonic() + options.timeout
        pairs = [pair for text in options.pairs for pair in _pairs(text)]
        pairs += _drafts(options.drafts, until) if options.drafts else []
        known = {key for path in options.known for key in _measured_before(path, shared)}
        left = [pair for pair in pairs if (_name(pair), ARMS[-1]) not in known]
        missed = []
        for pair, measured, trouble in _measured_in_turns(left, options.at_once, until):
            found = [{"file": _name(pair), "arm": arm, **row, "modules": ""} for arm, row in measured.items()]
            _print(found)
            rows.append(options.out, shared, found)
            missed += [f"{_name(pair)}: {trouble}"] if trouble else []
        before = {
            key: row for path in (*options.known, options.out) for key, row in _measured_before(path, shared).items()
        }
        missed += _below_the_bars(pairs, before)
    for text in missed:
        print(f"below the bar: {text}", file=sys.stderr)
    sys.exit(1 if missed else 0)


def _name(pair: str) -> str:
    return Path(pair.split("=")[0]).stem


def _print(found: Sequence[Mapping[str, Any]]) -> None:
    for row in found:
        print(*(f"{key}={value}" for key, value in row.items()), flush=True)


def _measured_before(path: Path, shared: Mapping[str, str]) -> dict[tuple[str, str], dict[str, str]]:
    """Return the rows of this commit and this GPU by file and arm."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if all(row[key] == shared[key] for key in ("commit", "gpu"))]
    return {(row["file"], row["arm"]): row for row in rows}


def _below_the_bars(pairs: Sequence[str], rows: Mapping[tuple[str, str], Mapping[str, str]]) -> list[str]:
    """Say over all files what the host's cost is beside torch.compile's; return what misses a bar."""
    ratios: dict[str, float] = {}
    missed = []
    for pair in pairs:
        row = {arm: rows.get((_name(pair), arm)) for arm in ARMS}
        if row["shipped"] is None or row["compile"] is None or row["eager"] is None:
            missed.append(f"{_name(pair)}: not measured")
            continue
        ratios[_name(pair)] = float(row["shipped"]["until_return_us"]) / float(row["compile"]["until_return_us"])
        slower = float(row["shipped"]["back_to_back_us"]) / float(row["eager"]["back_to_back_us"])
        if slower > SLOWER_AT_MOST:
            said = f"{_name(pair)}: {slower:.2f} times eager's time back to back"
            if "\nMEASURED = {}" in Path(pair.split("=")[0]).read_text(encoding="utf-8"):
                print(f"a draft, {said}")
            else:
                missed.append(said)
    if ratios:
        share = sum(ratio <= 1 for ratio in ratios.values()) / len(ratios)
        geomean = math.exp(statistics.fmean(map(math.log, ratios.values())))
        told = f"until return {geomean:.2f} times torch.compile's time at the geomean, at most its time for {share:.0%}"
        print(f"{told} of {len(ratios)} files")
        missed += [told] if share < COMPILE_SHARE or geomean > COMPILE_GEOMEAN else []
    return missed


def _pairs(text: str) -> list[str]:
    """Return a pair of files as it is; of two folders each `NAME_optimized.py` with its problem, `NAME.py`."""
    shipped, _, problem = text.partition("=")
    if not Path(shipped).is_dir():
        return [text]
    found = []
    for path in sorted(Path(shipped).rglob("*_optimized.py")):
        name = f"{path.stem.removesuffix('_optimized')}.py"
        problems = sorted(Path(problem).rglob(name))
        if len(problems) != 1:
            raise SystemExit(f"{path}: {len(problems)} files in {problem} are called {name}")
        found.append(f"{path}={problems[0]}")
    return found


def _drafts(folder: Path, until: float) -> list[str]:
    """Optimize the examples and problems of the suite that have no draft in the folder; return the pairs."""
    table = tomllib.loads((SUITE / "suite.toml").read_text(encoding="utf-8"))["problems"]
    quick = [name for name, row in table.items() if row["quick"]]
    problems = [path for path in sorted(EXAMPLES.glob("*.py")) if "class Model(" in path.read_text(encoding="utf-8")]
    problems += [SUITE / f"{name}.py" for name in quick[::2]]
    cores = len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(max(1, cores // 2)) as threads:
        made = list(threads.map(functools.partial(_draft, folder, until), problems))
    return [f"{draft}={problem}" for draft, problem in zip(made, problems) if draft is not None]


def _draft(folder: Path, until: float, problem: Path) -> Path | None:
    """Return a problem's draft, made if it is not there; None, with a word, where there is none."""
    path = folder / f"{problem.stem}_optimized.py"
    limit_s = min(DRAFT_S, until - time.monotonic())
    if path.exists() or limit_s <= 0:
        return path if path.exists() else None
    with tempfile.TemporaryDirectory() as scratch:
        argv = [sys.executable, "-m", "triton_agent", "optimize", str(problem), "--device", "cpu", "--turns", "1"]
        argv += ["--cuda-graph", "--parallel", "2", "--out", scratch, "--store", f"{scratch}/runs.db"]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=limit_s)
            said = done.stderr
        except subprocess.TimeoutExpired:
            said = f"not done after {limit_s:.0f} s"
        made = Path(scratch) / path.name
        if not made.exists():
            print(f"{problem.stem}: no draft: {(said.strip().splitlines() or ['no word'])[-1]}", file=sys.stderr)
            return None
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(made.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def _measured_in_turns(pairs: Sequence[str], at_once: int, until: float) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Give each pair with its rows by arm, and with what went wrong."""
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    for first in range(0, len(pairs), at_once):
        with contextlib.ExitStack() as stack:
            workers = []
            for pair in pairs[first : first + at_once]:
                said = stack.enter_context(tempfile.TemporaryFile("w+"))
                argv = [sys.executable, __file__, "--worker", pair]
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": said}
                worker = subprocess.Popen(argv, text=True, env=environment, **pipes)
                stack.callback(worker.kill)
                workers.append((pair, worker, said))
            ready = {pair: _line_of(worker, until) for pair, worker, _ in workers}  # nothing is timed before
            for pair, worker, said in workers:
                try:
                    told, _ = worker.communicate("go\n" if ready[pair] else None, max(1.0, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    yield pair, {}, "it ran out of time"
                    continue
                if worker.returncode:
                    said.seek(0)
                    yield pair, {}, (said.read().strip().splitlines() or ["it ran out of time"])[-1]
                    continue
                yield pair, json.loads(told.splitlines()[-1]), ""


def _line_of(worker: Any, until: float) -> str:
    """Return the first line that a worker prints; nothing if it ends or time is over."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        line = thread.submit(worker.stdout.readline)
        try:
            return str(line.result(max(1.0, until - time.monotonic())))
        except concurrent.futures.TimeoutError:
            worker.kill()
            return ""


def _work(shipped: Path, problem: Path) -> None:
    """Prepare all arms, say so, and measure them once told to."""
    import torch
    from torch.utils import _pytree

    torch.set_grad_enabled(False)
    file, given = _imported(shipped), _imported(problem)
    inputs = _pytree.tree_map_only(torch.Tensor, torch.Tensor.cuda, list(given.get_inputs()))
    arguments = given.get_init_inputs() if hasattr(given, "get_init_inputs") else []
    reference, model = file.OriginalModel(*arguments).cuda(), _switched_on(file, arguments)
    model.load_state_dict(reference.state_dict())
    arms: dict[str, Callable[[], Any]] = {
        "eager": lambda: reference(*inputs),
        "compile": torch.compile(lambda: reference(*inputs)),
        "reduce-overhead": torch.compile(lambda: reference(*inputs), mode="reduce-overhead"),
        "shipped": lambda: model(*inputs),
    }
    if hasattr(file, "_replayed"):
        with_graphs = _switched_on(_imported(shipped), arguments)
        with_graphs.load_state_dict(reference.state_dict())
        arms["replayed"] = lambda: with_graphs(*inputs)
        file._replayed = lambda watch, plan, state, tensors: plan(state, *tensors)
    for name in arms.keys() & {"shipped", "replayed"}:
        for _ in range(3):  # the third call is the first that is replayed
            _require_alike(arms[name](), reference(*inputs))
    admitted = file._admitted(model, tuple(inputs), {})
    if admitted is None:
        raise SystemExit("the guard does not let the kernels run in this call")
    plan, state, tensors = admitted
    arms["plan"] = lambda: plan(state, *tensors)
    for arm in arms.values():
        for _ in range(5):
            arm()
    print("ready", flush=True)
    if not sys.stdin.readline():
        raise SystemExit("it was not told to measure")
    readings: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    calls = max(2, min(QUEUED, int(SERIES_US / _back_to_back_us(arms["eager"], 2))))
    for _ in range(REPEATS):
        for name in arms:
            readings[name].append((_until_return_us(arms[name]), _back_to_back_us(arms[name], calls)))
    found = {
        name: {
            "until_return_us": round(statistics.median(reading for reading, _ in pairs), 2),
            "back_to_back_us": round(statistics.median(reading for _, reading in pairs), 2),
        }
        for name, pairs in readings.items()
    }
    print(json.dumps(found))


def _switched_on(file: ModuleType, arguments: Sequence[Any]) -> Any:
    model = file.ModelNew(*arguments).cuda()
    model.use_kernels = "always"
    return model


def _require_alike(result: Any, expected: Any) -> None:
    import torch
    from torch.utils import _pytree

    for one, other in zip(_pytree.tree_leaves(result), _pytree.tree_leaves(expected), strict=True):
        if isinstance(other, torch.Tensor) and other.numel() and other.is_floating_point():
            error = ((one.double() - other.double()).norm() / other.double().norm().clamp(min=1e-6)).item()
            if error > ERROR_AT_MOST:
                raise SystemExit(f"the kernels' result differs from eager's by {error:.2g}")


def _until_return_us(call: Callable[[], Any]) -> float:
    import torch

    readings = []
    for _ in range(10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        readings.append(time.perf_counter() - start)
    return statistics.median(readings) * 1e6


def _back_to_back_us(call: Callable[[], Any], calls: int) -> float:
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls * 1e6


def _guard_row(modules: int) -> dict[str, Any]:
    """Measure the guard's text as it is in shipped files, with a plan that does nothing."""
    import torch
    from torch import nn

    from triton_agent.runs.ship.copied import machinery

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.act, self.down = nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)

    torch.set_grad_enabled(False)
    model = machinery.ModelNew()
    if modules == 1:
        model.weight = nn.Parameter(torch.ones(8))
    else:
        for number in range(modules // 5):
            model.add_module(f"block_{number}", Block())
    state = {name: ("parameter", t.shape, t.dtype, t.stride()) for name, t in model.named_parameters()}
    x = torch.ones(4, 8)

    def plan_for(training: bool, x: Any = ...) -> Any:
        if isinstance(x, torch.Tensor) and x.shape == (4, 8) and x.stride() == (8, 1) and x.dtype is torch.float32:
            return _nothing, (x,)
        return None

    machinery.STATE, machinery.plan_for = state, plan_for
    machinery.known["cpu"] = True
    model.use_kernels, model._watch = "always", machinery.Watch(model, True)
    if machinery._admitted(model, (x,), {}) is None:
        raise SystemExit("the guard does not let the plan run")
    guarded, plain = (statistics.median(_reading_us(call, x) for _ in range(25)) for call in (model, nn.Identity()))
    return {
        "file": f"guard of {modules}",
        "arm": "guard",
        "until_return_us": round(guarded - plain, 2),
        "back_to_back_us": "",
        "modules": modules,
    }


def _nothing(state: Any, x: Any) -> Any:
    return x


def _reading_us(call: Callable[[Any], Any], x: Any) -> float:
    """Return the processor time of one of many calls, which other processes do not disturb."""
    start = time.process_time()
    for _ in range(2000):
        call(x)
    return (time.process_time() - start) / 2000 * 1e6


def _imported(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    specification.loader.exec_module(module)
    return module


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "pairs", nargs="*", metavar="SHIPPED=PROBLEM", help="a shipped file and its problem, or folders of both"
    )
    parser.add_argument("--guard", action="store_true", help="measure the guard alone; needs no GPU")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "call_cost.csv", help="CSV file of the rows")
    parser.add_argument("--drafts", type=Path, metavar="FOLDER", help="measure drafts, which are made where missing")
    parser.add_argument("--known", type=Path, action="append", default=[], help="another CSV file with rows to keep")
    parser.add_argument("--at-once", type=int, default=14, help="files that compile side by side (default 14)")
    parser.add_argument("--timeout", type=float, default=400.0, help="seconds for all files (default 400)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.guard and not options.pairs and not options.drafts:
        parser.error("name pairs of a shipped file and its problem, --drafts or --guard")
    options.known.append(options.out)
    return options


if __name__ == "__main__":
    main()

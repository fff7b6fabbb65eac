"""Measures what a call of a shipped file costs the host, compared with the reference and the reference compiled.

Each file is measured with five arms, in turns, in a process of its own: `eager`, `compile`, `reduce-overhead`,
`shipped`, and `plan` (the shipped file's kernels without its guard). `until_return_us` is the time until a call of an
idle GPU returns; `back_to_back_us` is the time per call of 200 queued calls until the GPU is done (fewer where 200 take
long). Medians of the repeats, one row for each file and arm. All processes compile at the same time; then they measure
one after the other.

Kernels run as if asked for (`use_kernels = "always"`), so drafts can be measured, too. With --guard, which needs no
GPU, the guard alone is measured instead: all that a call does before its plan begins, for a model of one module and for
one of 50.

    python benchmarks/call_cost.py optimized.py=problem.py other_optimized.py=other.py
    python benchmarks/call_cost.py shipped_folder=problems_folder
    python benchmarks/call_cost.py --guard
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
QUEUED = 200
SERIES_US = 30_000
"""Fewer calls are queued if they would take longer than this."""
REPEATS = 15
ARMS = ("eager", "compile", "reduce-overhead", "shipped", "plan")
GUARD_BARS_US = {1: 5.0, 50: 15.0}


def main() -> None:
    """Measure every pair named; exit code 1 if a bar is missed."""
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
    else:
        found, missed = _measured_in_turns([pair for text in options.pairs for pair in _pairs(text)], options.timeout)
    for row in found:
        print(*(f"{key}={value}" for key, value in row.items()), flush=True)
    rows.append(options.out, shared, [{**row, "modules": row.get("modules", "")} for row in found])
    if missed:
        print(f"below the bar: {', '.join(missed)}", file=sys.stderr)
        sys.exit(1)


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


def _measured_in_turns(pairs: Sequence[str], timeout_s: float) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows, and the pairs that could not be measured or are slower than eager back to back."""
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    rows: list[dict[str, Any]] = []
    missed: list[str] = []
    with contextlib.ExitStack() as stack:
        workers = []
        for pair in pairs:
            errors = stack.enter_context(tempfile.TemporaryFile("w+"))
            argv = [sys.executable, __file__, "--worker", pair]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            workers.append((pair, subprocess.Popen(argv, text=True, env=environment, **pipes), errors))
        timer = threading.Timer(timeout_s, lambda: [worker.kill() for _, worker, _ in workers])
        timer.start()
        stack.callback(timer.cancel)
        ready = [worker.stdout.readline() for _, worker, _ in workers]  # nothing is timed until all have compiled
        for (pair, worker, errors), said in zip(workers, ready):
            told, _ = worker.communicate("go\n" if said else None)
            if worker.returncode:
                errors.seek(0)
                reason = (errors.read().strip().splitlines() or ["it ran out of time"])[-1]
                print(f"{pair}: {reason}", file=sys.stderr)
                missed.append(pair)
                continue
            measured = json.loads(told.splitlines()[-1])
            rows += [{"file": Path(pair.split("=")[0]).stem, "arm": arm, **row} for arm, row in measured.items()]
            if measured["shipped"]["back_to_back_us"] > measured["eager"]["back_to_back_us"]:
                missed.append(pair)
    return rows, missed


def _work(shipped: Path, problem: Path) -> None:
    """Prepare all arms, say so, and measure them once told to."""
    import torch

    torch.set_grad_enabled(False)
    file, given = _imported(shipped), _imported(problem)
    inputs = [value.cuda() if isinstance(value, torch.Tensor) else value for value in given.get_inputs()]
    arguments = given.get_init_inputs() if hasattr(given, "get_init_inputs") else []
    model, reference = file.ModelNew(*arguments).cuda(), file.OriginalModel(*arguments).cuda()
    model.use_kernels = "always"
    admitted = file._admitted(model, tuple(inputs), {})
    if admitted is None:
        raise SystemExit("the guard does not let the kernels run in this call")
    plan, state, tensors = admitted
    arms: dict[str, Callable[[], Any]] = {
        "eager": lambda: reference(*inputs),
        "compile": torch.compile(lambda: reference(*inputs)),
        "reduce-overhead": torch.compile(lambda: reference(*inputs), mode="reduce-overhead"),
        "shipped": lambda: model(*inputs),
        "plan": lambda: plan(state, *tensors),
    }
    for arm in arms.values():
        for _ in range(5):
            arm()
    print("ready", flush=True)
    if not sys.stdin.readline():
        raise SystemExit("it was not told to measure")
    readings: dict[str, list[tuple[float, float]]] = {name: [] for name in ARMS}
    calls = max(2, min(QUEUED, int(SERIES_US / _back_to_back_us(arms["eager"], 2))))
    for _ in range(REPEATS):
        for name in ARMS:
            readings[name].append((_until_return_us(arms[name]), _back_to_back_us(arms[name], calls)))
    found = {
        name: {
            "until_return_us": round(statistics.median(reading for reading, _ in pairs), 2),
            "back_to_back_us": round(statistics.median(reading for _, reading in pairs), 2),
        }
        for name, pairs in readings.items()
    }
    print(json.dumps(found))


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

    from triton_agent.runs.ship import machinery

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
    parser.add_argument("--timeout", type=float, default=400.0, help="seconds for all files (default 400)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.guard and not options.pairs:
        parser.error("name pairs of a shipped file and its problem, or --guard")
    return options


if __name__ == "__main__":
    main()

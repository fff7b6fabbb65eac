"""What a call of a shipped file costs the host, beside the reference and what torch.compile makes of it.

Each file is measured with five arms, in turns, in a process of its own: `eager`, `compile`, `reduce-overhead`,
`shipped`, and `plan` (the shipped file's kernels without its guard). `until_return_us` is the time until a call of an
idle GPU returns; `back_to_back_us` is the time per call of 200 queued calls until the GPU is done. Medians of the
repeats, one row for each file and arm.

Kernels run as if asked for (`use_kernels = "always"`), so drafts can be measured, too. With --guard, which needs no
GPU, the guard alone is measured instead: all that a call does before its plan begins, for a model of one module and for
one of 50.

    python benchmarks/call_cost.py optimized.py=problem.py other_optimized.py=other.py
    python benchmarks/call_cost.py --guard
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
QUEUED = 200
REPEATS = 15
ARMS = ("eager", "compile", "reduce-overhead", "shipped", "plan")
GUARD_BARS_US = {1: 5.0, 50: 15.0}


def main() -> None:
    """Measure every pair named; exit code 1 where a bar is missed."""
    options = _options()
    if options.worker:
        print(json.dumps(_measured(*map(Path, options.pairs[0].split("=")))))
        return
    sys.path.insert(0, str(HERE))
    import rows

    shared, found = rows.provenance(), []
    if options.guard:
        found = [_guard_row(count) for count in GUARD_BARS_US]
        missed = [row["file"] for row in found if row["until_return_us"] > GUARD_BARS_US[row["modules"]]]
    else:
        missed = []
        for pair in options.pairs:
            argv = [sys.executable, __file__, "--worker", pair]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=options.timeout)
            if done.returncode:
                print(f"{pair}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                missed.append(pair)
                continue
            measured = json.loads(done.stdout.splitlines()[-1])
            found += [{"file": Path(pair.split("=")[0]).stem, "arm": arm, **row} for arm, row in measured.items()]
            if measured["shipped"]["back_to_back_us"] > measured["eager"]["back_to_back_us"]:
                missed.append(pair)
    for row in found:
        print(*(f"{key}={value}" for key, value in row.items()), flush=True)
    rows.append(options.out, shared, [{**row, "modules": row.get("modules", "")} for row in found])
    if missed:
        print(f"below the bar: {', '.join(missed)}", file=sys.stderr)
        sys.exit(1)


def _measured(shipped: Path, problem: Path) -> dict[str, dict[str, float]]:
    import torch

    torch.set_grad_enabled(False)
    file, given = _imported(shipped), _imported(problem)
    inputs = [value.cuda() if isinstance(value, torch.Tensor) else value for value in given.get_inputs()]
    arguments = given.get_init_inputs() if hasattr(given, "get_init_inputs") else []
    model, reference = file.ModelNew(*arguments).cuda(), file.OriginalModel(*arguments).cuda()
    model.use_kernels = "always"
    admitted = file._admitted(model, tuple(inputs))
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
    readings: dict[str, list[tuple[float, float]]] = {name: [] for name in ARMS}
    for _ in range(REPEATS):
        for name in ARMS:
            readings[name].append((_until_return_us(arms[name]), _back_to_back_us(arms[name])))
    return {
        name: {
            "until_return_us": round(statistics.median(reading for reading, _ in pairs), 2),
            "back_to_back_us": round(statistics.median(reading for _, reading in pairs), 2),
        }
        for name, pairs in readings.items()
    }


def _until_return_us(call: Callable[[], Any]) -> float:
    import torch

    readings = []
    for _ in range(10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        readings.append(time.perf_counter() - start)
    return statistics.median(readings) * 1e6


def _back_to_back_us(call: Callable[[], Any]) -> float:
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(QUEUED):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / QUEUED * 1e6


def _guard_row(modules: int) -> dict[str, Any]:
    """Measure the guard's text as it stands in shipped files, with a plan that does nothing."""
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
    model.use_kernels, model._watch = "always", machinery.Watch(model, True)
    if machinery._admitted(model, (x,)) is None:
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
    """Processor time for one of many calls, so that what else runs does not count."""
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
    parser.add_argument("pairs", nargs="*", metavar="SHIPPED.py=PROBLEM.py", help="a shipped file and its problem")
    parser.add_argument("--guard", action="store_true", help="measure the guard alone; needs no GPU")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "call_cost.csv", help="CSV file of the rows")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for each file (default 120)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.guard and not options.pairs:
        parser.error("name pairs of a shipped file and its problem, or --guard")
    return options


if __name__ == "__main__":
    main()

"""Tests files for ranges: right and no slower than the reference at random sizes inside, the reference outside.

Three models (`problems/ranges.py`) are optimized with `--dynamic`, by the built-in author. Each shipped file is then
called at 20 random sizes of its range, in a process of its own: its error against float64 is compared with the
reference's, and it is timed in turns with the reference by three clocks: device time, latency of a single call, and
200 calls back to back. Sizes outside of the range have to run the reference's code. One row for each model and size.
`kernels` says whether the kernels ran at that size, which they need not at every size of a range.

On a CPU (--device cpu) the sizes are small, the kernels of the drafts run in the interpreter, and nothing is timed.

    python benchmarks/ranges.py
    python benchmarks/ranges.py --device cpu --only Norm
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
PROBLEM = HERE / "problems" / "ranges.py"
SIZES = 20
QUEUED = 200
REPEATS = 9
SLOWER_AT_MOST = 1.03
"""A ratio above this counts as slower; two measurements of the same code differ by as much."""
WORSE_AT_MOST = 4.0
"""Limit of the error as a multiple of the reference's own error, as in the verdict."""
FLOOR_OF_ERROR = 1e-6


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """A model with its range."""

    name: str
    init: tuple[int, ...]
    dtype: str
    shape: tuple[int, ...]
    dimension: int
    low: int
    high: int
    outside: tuple[int, ...]

    @property
    def range(self) -> str:
        name = "batch" if self.dimension == 0 else f"x.{self.dimension}"
        return f"{name}={self.low}..{self.high}"


DTYPES = {"f16": "float16", "f32": "float32"}
FULL_SIZE = (
    Served("Norm", (4096,), "f16", (2048, 4096), 0, 1, 8192, (8193, 12000)),
    Served("Mlp", (1024, 4096), "f16", (64, 1024), 0, 1, 256, (257, 400)),
    Served("Attention", (512, 8), "f16", (2, 1024, 512), 1, 128, 4096, (64, 127, 4097)),
)
SMALL = (
    Served("Norm", (96,), "f32", (24, 96), 0, 1, 64, (65, 100)),
    Served("Mlp", (32, 64), "f32", (16, 32), 0, 1, 256, (257, 400)),
    Served("Attention", (32, 2), "f32", (2, 48, 32), 1, 16, 128, (8, 129)),
)


def main() -> None:
    """Test all models; exit code 1 if a file is wrong, slower at a size inside, or runs kernels outside."""
    options = _options()
    if options.worker:
        model = next(item for item in _models(options.device) if item.name == options.only)
        print(json.dumps(_measured(model, Path(options.worker), options.device, options.seed)))
        return
    sys.path.insert(0, str(HERE))
    import rows

    shared, found, missed = rows.provenance(), [], []
    surroundings = {**os.environ, **({"TRITON_INTERPRET": "1"} if options.device == "cpu" else {})}
    for model in _models(options.device):
        if options.only and options.only != model.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            file = _shipped(model, Path(folder), options)
            if file is None:
                missed.append(f"{model.name}: nothing is shipped")
                continue
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{model.name}.py").write_text(file.read_text())
            argv = [sys.executable, __file__, "--worker", str(file), "--only", model.name]
            argv += ["--device", options.device, "--seed", str(options.seed)]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=options.timeout, env=surroundings)
        if done.returncode:
            missed.append(f"{model.name}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
            continue
        for row in json.loads(done.stdout.splitlines()[-1]):
            found.append({"model": model.name, "range": model.range, **row})
            print(*(f"{key}={value}" for key, value in found[-1].items()), flush=True)
            if row["trouble"]:
                missed.append(f"{model.name} at {row['size']}: {row['trouble']}")
    rows.append(options.out, shared, found)
    for text in missed:
        print(f"below the bar: {text}", file=sys.stderr)
    sys.exit(1 if missed else 0)


def _models(device: str) -> Sequence[Served]:
    return SMALL if device == "cpu" else FULL_SIZE


def _shipped(model: Served, folder: Path, options: argparse.Namespace) -> Path | None:
    """Optimize the model over its range and return the shipped file."""
    argv = [sys.executable, "-m", "triton_agent", "optimize", f"{PROBLEM}:{model.name}"]
    argv += [
        "--init",
        ", ".join([*map(str, model.init), repr(DTYPES[model.dtype])]),
        "--input",
        f"{model.dtype}[{','.join(map(str, model.shape))}]",
    ]
    argv += ["--dynamic", model.range, "--device", options.device, "--turns", str(options.turns), "--json"]
    argv += ["--timeout", "240", "--out", str(folder), "--store", str(folder / "store.db")]
    began = time.perf_counter()
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=options.timeout)
    if not done.stdout.strip():
        return None
    outcome = json.loads(done.stdout.splitlines()[-1])
    print(f"{model.name}: optimized in {time.perf_counter() - began:.0f} s", *outcome["ranges"], sep="\n  ", flush=True)
    return Path(outcome["file"]) if outcome["file"] else None


def _measured(model: Served, path: Path, device: str, seed: int) -> list[dict[str, Any]]:
    import torch

    torch.set_grad_enabled(False)
    torch.manual_seed(seed)
    if device == "cpu":  # the corrected interpreter knows what kernels may call of the GPU's library
        from triton_agent.tools.emulate import interpreter

        interpreter.install()
    file, numbers = _imported(path), random.Random(seed)
    dtype = DTYPES[model.dtype]
    if device == "cpu":
        file.ModelNew.use_kernels = "always"
    shipped = file.ModelNew(*model.init, dtype).to(device).eval()
    reference = file.OriginalModel(*model.init, dtype).to(device).eval()
    reference.load_state_dict(shipped.state_dict())
    exact = file.OriginalModel(*model.init, "float64").to(device).eval()
    exact.load_state_dict({name: tensor.double() for name, tensor in shipped.state_dict().items()})
    by_reference: list[bool] = []
    plain = file.OriginalModel.forward

    def watched(self: Any, *args: Any) -> Any:
        by_reference.append(True)
        return plain(self, *args)

    inside = {model.low, model.high}
    while len(inside) < SIZES:
        size = math.exp(numbers.uniform(math.log(model.low), math.log(model.high + 1)))
        inside.add(min(model.high, max(model.low, round(size - 0.5))))
    found = []
    for size in [*sorted(inside), *model.outside]:
        shape = list(model.shape)
        shape[model.dimension] = size
        x = torch.randn(shape).to(device, getattr(torch, dtype))
        by_reference.clear()
        file.OriginalModel.forward = watched
        y = shipped(x)
        kernels = not by_reference
        file.OriginalModel.forward = plain
        truth = exact(x.double())
        own, theirs = (float((out.double() - truth).norm() / truth.norm()) for out in (y, reference(x)))
        row: dict[str, Any] = {
            "size": size,
            "inside": size in inside,
            "kernels": kernels,
            "error": f"{own:.3g}",
            "reference_error": f"{theirs:.3g}",
        }
        ratios = _ratios(lambda x=x: reference(x), lambda x=x: shipped(x)) if device != "cpu" else {}
        row |= {clock: round(ratios[clock], 3) if ratios else "" for clock in ("device", "latency", "back_to_back")}
        trouble = [f"slower by {clock}" for clock, ratio in ratios.items() if kernels and ratio < 1 / SLOWER_AT_MOST]
        if own > max(WORSE_AT_MOST * theirs, FLOOR_OF_ERROR):
            trouble.append("wrong")
        if kernels and size not in inside:
            trouble.append("kernels outside of the range")
        found.append({**row, "trouble": "; ".join(trouble)})
    return found


def _ratios(reference: Callable[[], Any], shipped: Callable[[], Any]) -> dict[str, float]:
    """Return the speed-up of the shipped file by each clock, as the median of paired readings."""
    arms = (reference, shipped)
    for arm in arms:
        for _ in range(5):
            arm()
    clocks = {"device": _device_us, "latency": _latency_us, "back_to_back": _back_to_back_us}
    found = {}
    for name, read in clocks.items():
        pairs = []
        for turn in range(REPEATS):
            first, second = arms if turn % 2 else arms[::-1]
            readings = {id(first): read(first), id(second): read(second)}
            pairs.append(readings[id(reference)] / readings[id(shipped)])
        found[name] = statistics.median(pairs)
    return found


def _device_us(call: Callable[[], Any]) -> float:
    """Return the device time of a call as a CUDA graph, without the host's part."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    start.record()
    for _ in range(20):
        graph.replay()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 20 * 1e3


def _latency_us(call: Callable[[], Any]) -> float:
    import torch

    readings = []
    for _ in range(10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
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


def _imported(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    specification.loader.exec_module(module)
    return module


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: small sizes, nothing is timed")
    parser.add_argument("--only", choices=[item.name for item in FULL_SIZE], help="one of the models")
    parser.add_argument("--turns", type=int, default=3, help="rounds of proposals for each model (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sizes and inputs")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "ranges.csv", help="CSV file of the rows")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the shipped files in this folder")
    parser.add_argument("--timeout", type=float, default=500.0, help="seconds for each step of a model (default 500)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()

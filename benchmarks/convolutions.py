"""Times convolutions by the built-in author against eager and `torch.compile`, in device time, with several tiles.

    python benchmarks/convolutions.py FOLDER [NAME ...]

Each problem has a process of its own; all compile in parallel, and one at a time is timed. There is a row for each
file that was written: its tiles, its time and its error against float64, and those of eager (TF32, cuDNN's default).
Rows go to `convolutions.csv` in FOLDER, and the times of single kernels to `kernels.json`.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

TEXT = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{layers}

    def forward(self, x):
{forward}


BATCH = {batch}


def get_inputs():
    return [torch.randn(BATCH, {shape}).to(torch.{dtype})]


def get_init_inputs():
    return []
"""


def plain(layer: str, shape: str, batch: int = 32, after: str = "torch.relu({})", dtype: str = "float32") -> str:
    """Return a problem with one layer and the operators after it."""
    layers = [f"self.layer = {layer}{'' if dtype == 'float32' else f'.to(torch.{dtype})'}"]
    return text(layers, [f"return {after.format('self.layer(x)')}"], shape, batch, dtype)


def text(layers: list[str], forward: list[str], shape: str, batch: int = 32, dtype: str = "float32") -> str:
    parts = {"layers": "\n".join(layers), "forward": "\n".join(forward)}
    indented = {name: textwrap.indent(part, " " * 8) for name, part in parts.items()}
    return TEXT.format(**indented, shape=shape, batch=batch, dtype=dtype)


BOTTLENECK = text(
    [
        *("self.a, self.an = nn.Conv2d(256, 64, 1, bias=False), nn.BatchNorm2d(64)",),
        *("self.b, self.bn = nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)",),
        *("self.c, self.cn = nn.Conv2d(64, 256, 1, bias=False), nn.BatchNorm2d(256)",),
    ],
    [
        *("y = F.relu(self.an(self.a(x)))", "y = F.relu(self.bn(self.b(y)))"),
        "return F.relu(self.cn(self.c(y)) + x)",
    ],
    "256, 56, 56",
)
BASIC = text(
    [
        "self.a, self.an = nn.Conv2d(128, 128, 3, padding=1, bias=False), nn.BatchNorm2d(128)",
        "self.b, self.bn = nn.Conv2d(128, 128, 3, padding=1, bias=False), nn.BatchNorm2d(128)",
    ],
    ["y = F.relu(self.an(self.a(x)))", "return F.relu(self.bn(self.b(y)) + x)"],
    "128, 28, 28",
)
NORMED = text(
    ["self.conv, self.norm = nn.Conv2d(64, 128, 3, padding=1, bias=False), nn.BatchNorm2d(128)"],
    ["return F.silu(self.norm(self.conv(x)))"],
    "64, 56, 56",
)
PROBLEMS = {
    "conv3x3_64_56": plain("nn.Conv2d(64, 64, 3, padding=1)", "64, 56, 56"),
    "conv3x3_256_28": plain("nn.Conv2d(256, 256, 3, padding=1)", "256, 28, 28"),
    "conv3x3_128_64": plain("nn.Conv2d(128, 256, 3, padding=1)", "128, 64, 64", 64),
    "conv1x1_256_56": plain("nn.Conv2d(256, 64, 1)", "256, 56, 56"),
    "conv3x3_stride2": plain("nn.Conv2d(128, 256, 3, stride=2, padding=1)", "128, 56, 56"),
    "conv3x3_f16": plain("nn.Conv2d(256, 256, 3, padding=1)", "256, 28, 28", dtype="float16"),
    "conv1x1_512_28": plain("nn.Conv2d(512, 512, 1)", "512, 28, 28"),
    "conv1x1_f16": plain("nn.Conv2d(256, 256, 1)", "256, 28, 28", dtype="float16"),
    "stem7x7": plain("nn.Conv2d(3, 64, 7, stride=2, padding=3)", "3, 224, 224"),
    "depthwise3x3": plain("nn.Conv2d(128, 128, 3, padding=1, groups=128)", "128, 56, 56"),
    "grouped3x3": plain("nn.Conv2d(256, 256, 3, padding=1, groups=8)", "256, 28, 28"),
    "transposed4x4": plain("nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1)", "128, 32, 32", 16),
    "conv1d_dilated": plain("nn.Conv1d(256, 256, 5, padding=4, dilation=2)", "256, 2048", 16),
    "conv3d": plain("nn.Conv3d(32, 64, 3, padding=1)", "32, 16, 28, 28", 8),
    "conv_norm_silu": NORMED,
    "basic_block": BASIC,
    "bottleneck": BOTTLENECK,
}
MOST_TILES = 7
COMMIT = os.environ.get("COMMIT", "")
"""Commit named in the rows, for a copy of the code without its history."""
ROWS = ("problem", "tiles", "us", "eager_us", "compile_us", "over_compile", "error", "eager_error")


def main() -> None:
    import rows

    folder, names = Path(sys.argv[1]), sys.argv[2:] or [*PROBLEMS]
    folder.mkdir(parents=True, exist_ok=True)
    shared = rows.provenance()
    if os.environ.get("ONE_PROBLEM"):
        _one(names[0], folder)
        return
    environment = {**os.environ, "ONE_PROBLEM": "1", "TORCHINDUCTOR_COMPILE_THREADS": "2", "OMP_NUM_THREADS": "2"}
    children = {
        name: subprocess.Popen(
            [sys.executable, __file__, str(folder), name],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for name in names
    }
    measured: list[dict[str, Any]] = []
    kernels: dict[str, Any] = {}
    for name, child in children.items():
        said, _ = child.communicate()
        found = folder / f"{name}.json"
        if not found.exists():
            print(f"{name}: {said[-1500:]}", flush=True)
            continue
        told = json.loads(found.read_text())
        found.unlink()
        measured += told["rows"]
        kernels[name] = told["kernels"]
        for row in (*told["rows"][:1], *sorted(told["rows"], key=lambda row: row["us"])[:1]):
            print(*(row[key] for key in ROWS), flush=True)
    rows.append(folder / "convolutions.csv", {**shared, **({"commit": COMMIT} if COMMIT else {})}, measured)
    (folder / "kernels.json").write_text(json.dumps(kernels, indent=1))


def _one(name: str, folder: Path) -> None:
    """Write, check and time one problem; its rows go to a file of its own."""
    import torch
    from tests.policy.author.briefs import full_size_brief

    from triton_agent.policy.author.choice import Choice
    from triton_agent.policy.author.decisions import first_choice
    from triton_agent.policy.author.writer import drafts_of, write
    from triton_agent.tools.problem.problem import parse_problem

    path = Path(tempfile.mkdtemp()) / f"{name}.py"
    path.write_text(PROBLEMS[name])
    brief = dataclasses.replace(full_size_brief(parse_problem(str(path))), allow_library=False)
    choice = first_choice(brief)
    products = [k for d in drafts_of(brief, choice) for k in d.kernels if k.kernel.kind == "product"]
    choices: dict[str, Choice] = {"first": choice}
    for place in range(1, MOST_TILES):
        other = choice
        for kernel in products:
            if place < len(kernel.alternatives):
                other = other.with_tiles(kernel.key, kernel.alternatives[place])
        told = " ".join(_said(k.alternatives[place]) for k in products if place < len(k.alternatives))
        if other != choice:
            choices[told] = other
    if products:
        choices = {" ".join(_said(k.tiles) for k in products): choices.pop("first"), **choices}
    sources = {told: write(brief, one).source for told, one in choices.items()}
    if not torch.cuda.is_available():
        (folder / f"{name}.json").write_text(json.dumps({"rows": [], "kernels": {"tiles": [*sources]}}))
        return
    _measured(name, folder, sources)


def _said(tiles: Any) -> str:
    return f"{tiles.rows}x{tiles.columns}x{tiles.inner}/{tiles.warps}w{tiles.stages}s"


def _measured(name: str, folder: Path, sources: dict[str, str]) -> None:
    import importlib.util

    import torch
    import triton.testing

    scratch = Path(tempfile.mkdtemp())

    def module_of(label: str, source: str) -> Any:
        path = scratch / f"{name}_{label}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(f"{name}_{label}", path)
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    torch.manual_seed(0)
    problem = module_of("problem", PROBLEMS[name])
    reference = problem.Model().eval()
    for module in reference.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    inputs = [x.cuda() for x in problem.get_inputs()]
    reference = reference.cuda()
    # No other process computes while one is timed.
    with torch.no_grad(), (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        few = [x[:2] for x in inputs]
        truth = problem.Model().eval().cuda()
        truth.load_state_dict(reference.state_dict())
        truth = truth.double()(*(x.double() for x in few))

        def error(answer: Any) -> float:
            return ((answer[:2].double() - truth).norm() / truth.norm()).item()

        eager_error = error(reference(*inputs))
        candidates, failed = {}, []
        for place, (told, source) in enumerate(sources.items()):
            try:
                model = module_of(f"file{place}", source).ModelNew().eval().cuda()
                model.load_state_dict(reference.state_dict())
                model = model.to(inputs[0].dtype) if inputs[0].dtype != torch.float32 else model
                candidates[told] = (model, error(model(*inputs)))
            except Exception as reason:  # the row says so
                failed.append((told, repr(reason)[:300]))
        compiled = torch.compile(reference, dynamic=False)
        compiled(*inputs)
        torch.cuda.synchronize()
        fcntl.flock(lock, fcntl.LOCK_EX)

        def microseconds(call: Any) -> float:
            # As a graph, so that the host's time between launches does not count.
            found = triton.testing.do_bench_cudagraph(lambda: call(*inputs), rep=20, return_mode="median")
            return round(1000 * float(found), 1)

        eager_us, compile_us = microseconds(reference), microseconds(compiled)
        measured = []
        for told, (model, own_error) in candidates.items():
            us = microseconds(model)
            values = (name, told, us, eager_us, compile_us, round(compile_us / us, 3))
            measured.append(dict(zip(ROWS, (*values, f"{own_error:.1e}", f"{eager_error:.1e}"))))
        first = next(iter(candidates.values()))[0] if candidates else None
        kernels = {"compile": _kernels(compiled, inputs), "failed": failed}
        if first is not None:
            kernels["author"] = _kernels(first, inputs)
    (folder / f"{name}.json").write_text(json.dumps({"rows": measured, "kernels": kernels}))


def _kernels(call: Any, inputs: list[Any]) -> dict[str, float]:
    """Return the microseconds of each kernel of a call."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(3):
            call(*inputs)
        torch.cuda.synchronize()
    events = [event for event in profile.key_averages() if event.device_time_total]
    return {event.key[:48]: round(event.device_time_total / 3, 1) for event in events}


if __name__ == "__main__":
    main()

"""Times the first files that the built-in author writes for a problem, kernel by kernel, without judging them.

A minute of a GPU shows where the author is slow, and in which kernel; a benchmark with verdicts takes an hour for that.
Each problem has a process of its own, which writes the files, compiles them and calls them; one at a time is timed.
Rows go to `rows.csv` in the folder, one for each file: device time of a call, the author's time over that of
torch.compile in the tracked baselines of the suite (for other problems over eager, measured here), the difference
from eager's answers, and the slowest kernels. The files stay in the folder. Problems with rows are not measured again.
Without a GPU the files are only written, for an H100 or H200.

    python benchmarks/first_files.py --out build/first                           # the suite's part `core`
    python benchmarks/first_files.py --out build/large large/ --jobs 5           # the part `large`
    python benchmarks/first_files.py --out build/first convolutions/ gru_cell    # a family, a problem
    python benchmarks/first_files.py --out build/mine examples/softmax.py        # a file
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import fcntl
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PROBLEMS = ROOT / "benchmarks" / "problems"
BASELINES = ROOT / "benchmarks" / "results" / "suite_baselines.csv"
LARGE_ROWS = ROOT / "benchmarks" / "results" / "large_h200"
"""Rows of benchmarks of the part `large`, which hold the baselines of its problems."""
COMMIT = os.environ.get("COMMIT", "")
"""Commit named in the rows, for a copy of the code without its history."""
ROWS, LOCK = "rows.csv", "lock"
CALLS, WARM_UP = 14, 3
SLOWEST = 6
AHEAD_CYCLES, CYCLES_PER_S = 3_000_000, 2.5e9
"""The GPU waits before each call for at least so many cycles, and as long as the host takes to launch it, so that the
host's time between launches does not count.
"""


def main() -> int:
    options = _options()
    if options.one:
        _one(options.one, Path(options.out), options.files)
        return 0
    import rows

    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    shared = {**rows.provenance(), **({"commit": COMMIT} if COMMIT else {})}
    done = {row["problem"] for row in _read(folder / ROWS)}
    waiting = [path for path in _problems(options.problems) if _name(path) not in done]
    ends_s = time.monotonic() + options.for_s
    running: list[tuple[Path, subprocess.Popen[str], float]] = []
    while (waiting or running) and time.monotonic() < ends_s:
        while waiting and len(running) < options.jobs:
            running.append((waiting[0], _started(waiting.pop(0), options), time.monotonic()))
        for path, child, began_s in running[:]:
            if child.poll() is None and time.monotonic() < began_s + options.limit_s:
                continue
            running.remove((path, child, began_s))
            if child.poll() is None:
                child.kill()
                print(f"{_name(path)}: not done after {options.limit_s:g} s", flush=True)
                continue
            measured = _measured(child)
            if measured:
                print(_line(measured), flush=True)
            if any(row["us"] for row in measured):
                rows.append(folder / ROWS, shared, measured)
        time.sleep(0.1)
    for _, child, _ in running:
        child.kill()
    if waiting or running:
        print(f"{len(waiting) + len(running)} problems left; the same command goes on")
    _summarise(_read(folder / ROWS))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", help="parts of names of the suite's problems, or files (default: core)")
    parser.add_argument("--out", required=True, help="folder of rows and files; called again with it, goes on")
    parser.add_argument("--files", type=int, default=4, help="files of each problem (default: 4)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="problems at once")
    parser.add_argument("--limit-s", type=float, default=100.0, help="time limit of a problem (default: 100)")
    parser.add_argument("--for-s", type=float, default=math.inf, help="stop after so many seconds")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _problems(asked: Sequence[str]) -> list[Path]:
    suite = sorted(PROBLEMS.glob("*/*.py")) + sorted(PROBLEMS.glob("large/*/*.py"))
    if not asked:
        return [path for path in suite if not _is_large(path)]
    files = [Path(text) for text in asked if text.endswith(".py")]
    parts = [text for text in asked if not text.endswith(".py")]
    found = files + [path for path in suite if any(_is_meant(path, part) for part in parts)]
    missing = [str(file) for file in files if not file.exists()]
    missing += [part for part in parts if not any(_is_meant(path, part) for path in suite)]
    if missing:
        raise SystemExit(f"no such problem: {', '.join(missing)}")
    return found


def _is_meant(path: Path, part: str) -> bool:
    """Return True if a part of a name stands for the problem; for those of `large` it has to say so."""
    return part in _name(path) and _is_large(path) == part.startswith("large/")


def _is_large(path: Path) -> bool:
    return path.resolve().parent.parent.name == "large"


def _name(path: Path) -> str:
    part = "large/" if _is_large(path) else ""
    return f"{part}{path.resolve().parent.name}/{path.stem}"


def _started(path: Path, options: argparse.Namespace) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--one", str(path), "--out", options.out, "--files", str(options.files)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _measured(child: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Return the rows that a problem's process has printed last."""
    said, _ = child.communicate()
    if child.returncode:
        print(said[-1500:], flush=True)
        return []
    rows: list[dict[str, Any]] = json.loads(said.splitlines()[-1])
    return rows


def _read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# -- one problem, in a process of its own ------------------------------------------------------------------------------


def _one(path: Path, folder: Path, count: int) -> None:
    """Write and time the files of one problem; print the rows."""
    import torch

    torch.set_num_threads(1)
    files = _written(path, folder / _name(path), count)
    row: dict[str, Any] = {"problem": _name(path), "file": "", "us": "", "over_compile": "", "over_eager": ""}
    row |= {"error": "", "first_call_s": "", "kernels": "", "failed": ""}
    if not torch.cuda.is_available():
        print(json.dumps([{**row, "file": file.stem} for file in files] or [row]))
        return
    print(json.dumps([{**row, **measured} for measured in _timed(path, files, folder / LOCK)]))


def _written(path: Path, folder: Path, count: int) -> list[Path]:
    import torch
    from tests.policy.author.briefs import full_size_brief, on_target

    from triton_agent.policy import builtin
    from triton_agent.tools.problem.problem import parse_problem

    target = "cuda:90"
    if torch.cuda.is_available():
        target = "cuda:{}{}".format(*torch.cuda.get_device_capability())
    grown = not _is_large(path)  # problems of this part are judged at smaller sizes instead
    brief = on_target(full_size_brief(parse_problem(str(path)), grown=grown), target)
    brief = dataclasses.replace(brief, allow_library=False)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, (_, answer) in enumerate(itertools.islice(builtin.files(brief), count)):
        files.append(folder / f"{number}.py")
        files[-1].write_text(answer.source, encoding="utf-8")
    return files


def _timed(path: Path, files: Sequence[Path], lock: Path) -> list[dict[str, Any]]:
    """Return a row for eager and for each file. Only the process that holds the lock computes on the GPU for timing."""
    import torch

    problem = _module(path)
    torch.manual_seed(1)
    model = problem.Model(*problem.get_init_inputs()).eval().cuda()
    torch.manual_seed(2)
    with torch.device("cuda" if _is_large(path) else "cpu"):  # a processor takes seconds for gigabytes
        inputs = _on_gpu(problem.get_inputs())
    state = model.state_dict()
    compile_us = _compile_us().get(_name(path))
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    with torch.no_grad(), lock.open("w") as held:

        def figures(call: Callable[[], Any]) -> dict[str, Any]:
            fcntl.flock(held, fcntl.LOCK_EX)
            try:
                return {"us": round(_device_us(call, flush), 1), "kernels": _kernels(call, flush)}
            finally:
                fcntl.flock(held, fcntl.LOCK_UN)

        expected = _tensors(model(*inputs))
        found = [{"file": "eager", **figures(lambda: model(*inputs))}]
        eager_us = found[0]["us"]
        for file in files:
            row: dict[str, Any] = {"file": file.stem}
            found.append(row)
            try:
                began_s = time.monotonic()
                torch.manual_seed(1)
                written = _module(file).ModelNew(*problem.get_init_inputs()).eval().cuda()
                written.load_state_dict(state)
                answer = _tensors(written(*inputs))
                torch.cuda.synchronize()
                row["first_call_s"] = round(time.monotonic() - began_s, 2)
                row["error"] = f"{max(map(_difference, answer, expected)):.1e}"
                row |= figures(lambda written=written: written(*inputs))  # type: ignore[misc]
                row["over_eager"] = round(eager_us / row["us"], 3)
                row["over_compile"] = round(compile_us / row["us"], 3) if compile_us else ""
            except Exception as reason:  # a file that does not run is a finding about the author
                row["failed"] = f"{type(reason).__name__}: {str(reason)[:300]}"
    return found


def _module(path: Path) -> Any:
    import importlib.util

    name = f"{path.resolve().parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def _on_gpu(value: Any) -> Any:
    if hasattr(value, "cuda"):
        return value.cuda()
    return type(value)(map(_on_gpu, value)) if isinstance(value, list | tuple) else value


def _tensors(value: Any) -> list[Any]:
    if hasattr(value, "data_ptr"):
        return [value]
    return [tensor for item in value for tensor in _tensors(item)] if isinstance(value, list | tuple) else []


def _difference(answer: Any, expected: Any) -> float:
    """Return the largest difference over the largest value; infinities and NaN of both count as equal."""
    import torch

    answer, expected = torch.nan_to_num(answer.double()), torch.nan_to_num(expected.double())
    return ((answer - expected).abs().max() / expected.abs().max().clamp(min=1e-9)).item() if answer.numel() else 0.0


def _device_us(call: Callable[[], Any], flush: Any) -> float:
    """Return the median device time of a call with a cold cache."""
    import torch

    began_s = time.perf_counter()
    call()
    host_s = time.perf_counter() - began_s
    torch.cuda.synchronize()
    times = []
    for _ in range(CALLS):
        flush.zero_()
        torch.cuda._sleep(max(AHEAD_CYCLES, int(CYCLES_PER_S * host_s)))
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(1000 * start.elapsed_time(end))
    return statistics.median(times[WARM_UP:])


def _kernels(call: Callable[[], Any], flush: Any, calls: int = 4) -> str:
    """Return launches and microseconds of the slowest kernels of a call, as text."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(calls):
            flush.zero_()
            call()
        torch.cuda.synchronize()
    found: dict[str, list[float]] = {}
    for event in profile.events():
        is_flush = "fill" in event.name.lower() or "Memset" in event.name
        if event.device_type == torch.autograd.DeviceType.CUDA and not is_flush:
            found.setdefault(event.name[:48], []).append(event.device_time_total)
    slowest = sorted(found.items(), key=lambda item: -sum(item[1]))[:SLOWEST]
    return "; ".join(f"{name} {len(times) // calls}x {sum(times) / calls:.1f}" for name, times in slowest)


# -- the tracked baselines, and what the rows say ----------------------------------------------------------------------


def _compile_us() -> dict[str, float]:
    """Return the device time of torch.compile, by problem; where it has none, that of eager."""
    columns = ("compile_device_ms", "eager_device_ms")
    found = {row["problem"]: [float(row[column]) for column in columns if row[column]] for row in _read(BASELINES)}
    for file in sorted(LARGE_ROWS.glob("*.csv")):
        for row in _read(file):
            times = [float(row[f"baseline_{column}"]) for column in columns if row[f"baseline_{column}"]]
            found[f"large/{row['label']}"] = times
    return {problem: 1000 * times[0] for problem, times in found.items() if times}


def _best(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    timed = [row for row in rows if row["us"] and row["file"] != "eager"]
    return min(timed, key=lambda row: float(row["us"]), default=None)


def _line(rows: Sequence[dict[str, Any]]) -> str:
    best = _best(rows)
    if best is None:
        failed = next((row["failed"] for row in rows if row["failed"]), "")
        return f"{rows[0]['problem']}: {failed or f'{len(rows)} files written, none timed'}"
    first = next(row for row in rows if row["file"] != "eager")
    over = f"{best['over_compile']}x torch.compile, " if best["over_compile"] else ""
    said = f"{rows[0]['problem']}: {over}{best['over_eager']}x eager with file {best['file']}, {best['us']} us"
    return f"{said}, the first {first['us'] or 'failed'}: {best['kernels']}"


def _summarise(rows: Sequence[dict[str, str]]) -> None:
    """Print how fast the best files are over torch.compile."""
    problems = {row["problem"]: [other for other in rows if other["problem"] == row["problem"]] for row in rows}
    best = [found for found in map(_best, problems.values()) if found is not None and found["over_compile"]]
    over = [float(row["over_compile"]) for row in best]
    if not over:
        return
    geomean = math.exp(statistics.fmean(map(math.log, over)))
    faster, alike = sum(x > 1 for x in over), sum(x > 0.98 for x in over)
    print(f"{len(over)} of {len(problems)} problems timed: {geomean:.3f}x torch.compile by geomean,")
    print(f"{faster} faster, {alike} not 2% slower, {sum(x < 0.7 for x in over)} below 0.7")


if __name__ == "__main__":
    raise SystemExit(main())

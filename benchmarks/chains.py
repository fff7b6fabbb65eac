"""Times small consecutive products in one kernel of the built-in author, against one kernel each, eager and compiled.

    python benchmarks/chains.py FOLDER [PROBLEM.py ...]

Without named problems, all fresh modules with such a kernel are measured. Each has a process of its own; all compile in
parallel, and one at a time is timed, as a graph of calls. Rows go to `chains.csv` in FOLDER: microseconds of a call,
kernels, and the difference between the answers and eager's.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
MODULES = ROOT / "benchmarks" / "fresh_modules"
COMMIT = os.environ.get("COMMIT", "")
"""Commit named in the rows, for a copy of the code without its history."""


def main() -> None:
    import rows

    folder, problems = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    if os.environ.get("ONE_PROBLEM"):
        print(json.dumps(_measured(problems[0], folder)))
        return
    folder.mkdir(parents=True, exist_ok=True)
    shared = rows.provenance()
    environment = {**os.environ, "ONE_PROBLEM": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    waiting = [path for path in problems or sorted(MODULES.glob("*/*.py")) if _has_chain(path)]
    running: list[tuple[Path, subprocess.Popen[str]]] = []
    measured: list[dict[str, Any]] = []
    while waiting or running:
        while waiting and len(running) < max(2, len(os.sched_getaffinity(0))):
            path = waiting.pop(0)
            command = [sys.executable, __file__, str(folder), str(path)]
            running.append((path, subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE)))
        path, child = running.pop(0)
        said, _ = child.communicate()
        if child.returncode:
            print(f"{path.stem}: exit code {child.returncode}", flush=True)
            continue
        measured.append(json.loads(said.splitlines()[-1]))
        print(*measured[-1].values(), flush=True)
    rows.append(folder / "chains.csv", {**shared, **({"commit": COMMIT} if COMMIT else {})}, measured)


def _has_chain(path: Path) -> bool:
    written = _written(path)
    return written["chain"] != written["apart"]


def _written(path: Path) -> dict[str, tuple[str, int]]:
    """Return the files with and without chains, and the number of kernels that each launches."""
    from tests.policy.author.briefs import full_size_brief

    from triton_agent.policy.author.choice import Choice
    from triton_agent.policy.author.writer import drafts_of, write
    from triton_agent.tools.problem.problem import parse_problem

    brief = dataclasses.replace(full_size_brief(parse_problem(str(path))), allow_library=False)
    choices = {"chain": Choice(), "apart": Choice(chained=False)}
    return {name: (write(brief, one).source, len(drafts_of(brief, one)[0].kernels)) for name, one in choices.items()}


def _measured(path: Path, folder: Path) -> dict[str, Any]:
    """Compile everything, then time it while no other process computes."""
    import torch
    import triton.testing

    written = _written(path)
    problem = _module(path.read_text(), "problem")
    torch.manual_seed(0)
    inputs = [x.cuda() if isinstance(x, torch.Tensor) else x for x in problem.get_inputs()]
    reference = problem.Model(*problem.get_init_inputs()).cuda().eval()
    calls = {"eager": reference, "compile": torch.compile(reference, dynamic=False)}
    row: dict[str, Any] = {"problem": f"{path.parent.name}/{path.stem}"}
    with torch.no_grad(), (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        truth = _flat(reference(*inputs))
        for name in ("apart", "chain"):
            source, row[f"{name}_kernels"] = written[name]
            calls[name] = _module(source, name).ModelNew(*problem.get_init_inputs()).cuda().eval()
            calls[name].load_state_dict(reference.state_dict())
            apart = [
                (a.double() - b.double()).norm() / b.double().norm() for a, b in zip(_flat(calls[name](*inputs)), truth)
            ]
            row[f"{name}_from_eager"] = f"{max(map(float, apart)):.1e}"
        calls["compile"](*inputs)
        torch.cuda.synchronize()
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, call in calls.items():
            us = 1000 * triton.testing.do_bench_cudagraph(lambda call=call: call(*inputs), rep=20, return_mode="median")
            row[f"{name}_us"] = round(us, 2)
    return row


def _flat(answer: Any) -> list[Any]:
    return [answer] if hasattr(answer, "dtype") else [one for part in answer for one in _flat(part)]


def _module(source: str, name: str) -> Any:
    import importlib.util

    path = Path(tempfile.mkdtemp()) / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


if __name__ == "__main__":
    main()

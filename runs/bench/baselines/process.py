"""The process that measures references: `python -m triton_agent.runs.bench.baselines.process`, with JSON on stdin.

A line is a question, and a line on stdout its answer:

  {"size": PROBLEM, "capacity_bytes": N}              how much memory the reference needs (`memory.py`)
  {"measure": PROBLEM, "limit_s": S}                  its baselines on the first visible GPU (`clock.py`)

It imports torch once, makes no CUDA context itself, and forks a child for each question. torch.compile runs in a
child that pauses while another process holds the GPU alone, and then makes the calls that the measuring child asks
for. The problem's code is trusted and runs outside the sandbox.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.zygote import QUIET
from triton_agent.tools.sandbox import privileges

SIZING_S = 60.0
MEASURING_S = 300.0
"""Time limits of the children, waiting for the GPU's lease included."""
COMPILED = ("compile",)


def main() -> None:
    """Answer until stdin ends."""
    privileges.die_with_parent()
    os.environ.update(QUIET)
    import torch  # noqa: F401 - imported once, before the forks

    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        answer = _size(asked) if "size" in asked else _measure(asked)
        print(json.dumps(answer, allow_nan=False), flush=True)


def _size(asked: dict[str, Any]) -> dict[str, Any]:
    def work() -> dict[str, Any]:
        from triton_agent.runs.bench.baselines.memory import sized

        return sized(ProblemSpec.from_json(asked["size"]), asked["capacity_bytes"])

    return in_child(work, SIZING_S)


def _measure(asked: dict[str, Any]) -> dict[str, Any]:
    """Compile while others use the GPU, then time with the GPU held alone."""
    from triton_agent.tools.machine.lease import Mode, awaited, lease
    from triton_agent.tools.processes.torch_switches import DEFAULT
    from triton_agent.tools.race.compiled_process import CompiledProcess

    spec, limit_s = ProblemSpec.from_json(asked["measure"]), asked["limit_s"]
    found = in_child(_gpu, SIZING_S)
    if "gpu" not in found:
        return {"times": [], **found}
    gpu = found["gpu"]
    compiled = CompiledProcess(spec, COMPILED, DEFAULT, train=False, limit_s=limit_s)
    shared = functools.partial(lease, gpu, what=f"triton-agent: compiling {spec.name}", mode=Mode.SHARED)
    compiled.share(shared, functools.partial(awaited, gpu))
    in_time = compiled.wait(lambda: None)
    too_long = "" if in_time else f"baseline compile was not measured: torch.compile took longer than {limit_s:g} s"

    def work() -> dict[str, Any]:
        from triton_agent.runs.bench.baselines.clock import Contest

        return Contest(spec, gpu, compiled if in_time else None, without_compile=too_long).measure()

    try:
        return {"times": [], "failure": "", **in_child(work, MEASURING_S)}
    finally:
        compiled.end()


def _gpu() -> dict[str, Any]:
    """Return the key of the GPU's lease, which checkers use as well."""
    from triton_agent.tools.machine.hardware import uuid_of

    return {"gpu": uuid_of(0)}


def in_child(work: Callable[[], dict[str, Any]], limit_s: float) -> dict[str, Any]:
    """Return the result of `work` in a forked child; `failure` says why there is none."""
    reading, writing = os.pipe()
    parent = os.getpid()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            privileges.die_with_parent()
            if os.getppid() == parent:
                os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keep the problem's own output out of the answer
                with open(writing, "w", encoding="utf-8") as pipe:
                    pipe.write(json.dumps(_answer(work), allow_nan=False))
        finally:
            os._exit(0)
    os.close(writing)
    try:
        with open(reading, "rb", buffering=0) as pipe:
            text, deadline_s = b"", time.monotonic() + limit_s
            while select.select([pipe], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
                piece = pipe.read(1 << 16)
                if not piece:
                    break
                text += piece
            else:
                return {"failure": f"it took longer than {limit_s:.0f} s"}
        answer: dict[str, Any] = json.loads(text) if text else {"failure": "its process ended without an answer"}
        return answer
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _answer(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return work()
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        first = (str(error).strip().splitlines() or [""])[0]
        return {"failure": f"{type(error).__name__}: {first}"[:300]}


if __name__ == "__main__":
    main()

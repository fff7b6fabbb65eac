"""The process behind `--protocol original`: `python -m triton_agent.runs.bench.public.process DEVICE`, jobs on stdin.

It imports torch and triton once, and forks a sandboxed child for each kernel. In the child, reference and kernel share
a process, as in the public harness, so a kernel can forge the child's answer as it can there. One line of JSON comes
in, one goes out.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import signal
import statistics
import sys
import tempfile
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from triton_agent.tools.machine.lease import Mode, lease
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.codec import decode
from triton_agent.tools.processes.wire import Channel, ChannelClosed, ChannelGarbled, ChannelTimeout
from triton_agent.tools.processes.zygote import MODES, QUIET
from triton_agent.tools.sandbox import privileges, sandbox

WHY_CHARACTERS = 200
SEED = 42
TRIALS = 5
WARM_UPS = 3
TIMED_CALLS = 100
TOLERANCE = {"float16": 1e-2, "bfloat16": 1e-2}
TOLERANCE_ELSE = 1e-4
TOLERANCE_AT_FIRST = 1e-2
"""Tolerance for every dtype in the version behind most published figures."""


def main() -> None:
    """Judge one kernel for each line of stdin."""
    device = sys.argv[1]
    mode = "gpu" if device == "cuda" else "interpreter"
    os.environ.update(QUIET | MODES[mode])
    _warm_up(device)
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(_answer(job, device), allow_nan=False), flush=True)


def _warm_up(device: str) -> None:
    """Import modules and use them once before the forks, without touching CUDA."""
    import torch
    import triton.runtime.jit

    from triton_agent.tools.emulate import interpreter

    if device == "cuda":
        # Compile and load Triton's own C module here, so that no sandboxed child has to run a C compiler.
        from triton.backends.nvidia.driver import CudaUtils

        CudaUtils()
        CudaUtils.__init__ = lambda this: None
    else:
        interpreter.install()
    sandbox.prepare()
    some = torch.zeros(2).add_(1)
    some.sum().item()  # operator tables are built at first use
    triton.runtime.jit.mangle_type(some)  # imports Gluon at first use
    torch.set_num_threads(1)


def _answer(job: dict[str, Any], device: str) -> dict[str, Any]:
    """Fork a child that judges one kernel, and return its answer."""
    ours, theirs = Channel.pair()
    parent = os.getpid()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        privileges.die_with_parent()
        if os.getppid() == parent:
            ours.let_go()
            _serve(theirs, job, device)
        os._exit(0)
    theirs.let_go()
    try:
        answer, _ = ours.receive(float(job["limit_s"]))
        return {"correct": bool(answer["correct"]), "correct_at_first": bool(answer["correct_at_first"])} | {
            name: str(answer[name])[:WHY_CHARACTERS] if name == "why" else _number(answer[name])
            for name in ("why", "kernel_ms", "original_ms")
        }
    except ChannelTimeout:
        why = f"it took longer than {job['limit_s']:.0f} s"
    except (ChannelClosed, ChannelGarbled, KeyError, TypeError, ValueError) as error:
        why = f"its process ended without an answer ({type(error).__name__})"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        ours.close()
    return {"correct": False, "correct_at_first": False, "why": why, "kernel_ms": None, "original_ms": None}


def _number(value: Any) -> float | None:
    """Return a time as a number, or None: a kernel may have forged any value."""
    number = 0.0 if value is None else float(value)
    return number if math.isfinite(number) and number > 0 else None


# -- in the child ------------------------------------------------------------------------------------------------------


def _serve(channel: Channel, job: dict[str, Any], device: str) -> None:
    log = os.open(f"{job['confinement']['scratch']}/output.txt", os.O_WRONLY | os.O_CREAT, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.chdir(job["confinement"]["scratch"])
    sandbox.enter(decode(sandbox.Confinement, job["confinement"]))
    answer: dict[str, Any] = {"correct": False, "correct_at_first": False, "kernel_ms": None, "original_ms": None}
    try:
        answer |= _judge(ProblemSpec.from_json(job["spec"]), job["source"], device)
    except BaseException as error:
        first = (str(error).strip().splitlines() or [""])[0]
        answer["why"] = f"{type(error).__name__}: {first}"
        traceback.print_exc()
    channel.send(answer)


def _judge(spec: ProblemSpec, source: str, device: str) -> dict[str, Any]:
    """Compare for five draws of the inputs; if the kernel is correct, time a hundred calls of kernel and reference."""
    import torch

    from triton_agent.tools.reference.reference import load

    reference = load(spec)
    with _held(device, Mode.SHARED), torch.no_grad():
        original = reference.make_model(SEED).to(device)
        kernel = _made(_module(source).ModelNew, reference, device)
        torch.manual_seed(SEED)
        seeds = torch.randint(0, 2**32 - 1, (TRIALS,)).tolist()
        trials = [_trial(reference, original, kernel, seed, device) for seed in seeds]
    why = next((trial["why"] for trial in trials if trial["why"]), "")
    verdict = {
        "correct": all(trial["now"] for trial in trials),
        "correct_at_first": all(trial["at_first"] for trial in trials),
        "why": why,
    }
    if device == "cpu" or not verdict["correct_at_first"]:
        return verdict
    with _held(device, Mode.EXCLUSIVE), torch.no_grad():
        args = _inputs(reference, SEED, device)
        timed = {"original_ms": _mean_ms(original, args), "kernel_ms": _mean_ms(kernel, args)}
    return verdict | timed


def _held(device: str, mode: Mode) -> contextlib.AbstractContextManager[None]:
    """Return the lease of the GPU, or an empty context on a CPU."""
    if device == "cpu":
        return contextlib.nullcontext()
    from triton_agent.tools.machine.hardware import uuid_of

    return lease(uuid_of(0), what="triton-agent: the public protocol", mode=mode)


def _module(source: str) -> ModuleType:
    """Import the kernel from a file, since Triton reads the source of kernels."""
    path = Path(tempfile.mkdtemp()) / "kernel.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _made(model: Any, reference: Any, device: str) -> Any:
    """Construct a module. As in that protocol, parameters are equal only if they are drawn in the reference's order."""
    import torch

    positional, keywords = reference.init_arguments()
    torch.manual_seed(SEED)
    return model(*positional, **keywords).to(device)


def _inputs(reference: Any, seed: int, device: str) -> list[Any]:
    from triton_agent.tools.reference.input_tensors import map_tensors

    return [map_tensors(value, lambda tensor: tensor.to(device)) for value in reference.make_inputs(seed)]


def _trial(reference: Any, original: Any, kernel: Any, seed: int, device: str) -> dict[str, Any]:
    import torch

    from triton_agent.tools.processes.tensors import nested_tensors

    expected = list(nested_tensors(reference.call(original, _inputs(reference, seed, device))))
    got = list(nested_tensors(kernel(*_inputs(reference, seed, device))))
    if device == "cuda":
        torch.cuda.synchronize()
    if [tensor.shape for tensor in expected] != [tensor.shape for tensor in got]:
        return {"now": False, "at_first": False, "why": "other shapes than the reference's"}
    pairs = list(zip(expected, got))
    now = all(_close(a, b, TOLERANCE.get(str(a.dtype).removeprefix("torch."), TOLERANCE_ELSE)) for a, b in pairs)
    at_first = all(_close(a, b, TOLERANCE_AT_FIRST) for a, b in pairs)
    return {"now": now, "at_first": at_first, "why": "" if now else "values differ by more than the tolerance"}


def _close(expected: Any, got: Any, tolerance: float) -> bool:
    import torch

    if expected.dtype != got.dtype:
        return False
    return torch.allclose(expected, got, atol=tolerance, rtol=tolerance)


def _mean_ms(model: Any, args: list[Any]) -> float:
    """Return the mean time of single calls between events, on the same inputs and with warm caches."""
    import torch

    from triton_agent.tools.race.clock import timing_event

    for _ in range(WARM_UPS):
        model(*args)
    torch.cuda.synchronize()
    times = []
    for _ in range(TIMED_CALLS):
        start, end = timing_event(), timing_event()
        start.record()
        model(*args)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.fmean(times)


if __name__ == "__main__":
    main()

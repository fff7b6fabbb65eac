"""Seals over what a candidate shares a process with: which functions and settings are no longer what they were.

A file that is to be shipped leaves torch, triton and Python as it found them. The seal is over identity: every function
and class that the listed modules and classes hold when the candidate is loaded. Attributes that appear later are no
concern; libraries fill themselves lazily.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch

SEALED = (
    *("torch", "torch.Tensor", "torch._C._TensorBase", "torch.nn.Module", "torch.nn.functional", "torch.cuda"),
    *("torch.cuda.Event", "torch.cuda.Stream", "torch.cuda.streams", "torch.autograd.profiler", "torch.profiler"),
    *("torch._utils", "torch.serialization", "torch.storage", "torch._tensor", "torch.UntypedStorage"),
    *("torch.autograd.profiler.record_function", "triton.runtime.driver.driver", "triton.knobs"),
    *("torch.utils._python_dispatch", "torch.utils._python_dispatch.TorchDispatchMode", "torch.overrides"),
    *("triton", "triton.testing", "triton.language", "triton.runtime", "triton.runtime.jit", "triton.runtime.driver"),
    *("triton.runtime.jit.JITFunction", "triton.runtime.jit.KernelInterface", "triton.runtime.autotuner.Autotuner"),
    *("triton.runtime.interpreter", "triton.runtime.interpreter.GridExecutor", "triton.compiler.compiler"),
    *("triton.runtime.interpreter.InterpretedFunction", "triton.compiler.compiler.CompiledKernel"),
    *("triton.backends.nvidia.driver", "triton.backends.nvidia.driver.CudaLauncher"),
    *("triton_agent.tools.isolate.watch", "triton_agent.tools.isolate.watch.OperatorWatch"),
    *("triton_agent.tools.isolate.worker", "triton_agent.tools.isolate.worker.Worker"),
    *("triton_agent.tools.isolate.tensors", "triton_agent.tools.isolate.launches", "triton_agent.tools.isolate.wire"),
    *("triton_agent.tools.isolate.wire.Channel", "triton_agent.tools.isolate.launches.InterpretedLaunches"),
    *("triton_agent.tools.isolate.payloads", "triton_agent.tools.isolate.payloads.Payload"),
    *("triton_agent.tools.isolate.answers", "triton_agent.tools.isolate.memory_files"),
    *("triton_agent.tools.isolate.launches.GpuLaunches", "triton_agent.tools.isolate.guard.Guard"),
    *("triton_agent.tools.isolate.stopwatch", "triton_agent.tools.timing.clock.Clock"),
    *("triton_agent.tools.emulate.interpreter.Interpreter", "json", "struct", "time", "socket.socket", "builtins"),
)
"""Modules and classes whose functions are sealed; those not loaded are passed over."""

SETTINGS: dict[str, Callable[[], object]] = {
    "default dtype": torch.get_default_dtype,
    "number of threads": torch.get_num_threads,
    "float32 matmul precision": torch.get_float32_matmul_precision,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "matmul TF32": lambda: torch.backends.cuda.matmul.allow_tf32,
    "cuDNN TF32": lambda: torch.backends.cudnn.allow_tf32,
    "cuDNN benchmark": lambda: torch.backends.cudnn.benchmark,
    "reduced precision reduction": lambda: torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
    "default generator": lambda: id(torch.default_generator),
}
"""Switches that hold for the user's whole process."""

_ALL, _MAP = all, map
"""Bound before there is a candidate, which might put others into `builtins`."""
TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep


class Seals:
    """Taken when made; asked later."""

    def __init__(self) -> None:
        self._functions = {place: (tuple(held), tuple(held.values())) for place, held in _functions().items()}
        self._settings = _settings()

    def broken(self) -> str:
        """The first function or setting that was changed; empty if none was."""
        for place, (names, held) in self._functions.items():
            space = _space(place)
            # By identity, and without a line of Python for each: this is asked after every call under the clock.
            if not _ALL(_MAP(operator.is_, _MAP(space.get, names), held)):
                changed = _first_changed(space, names, held)
                if changed:
                    return f"{place}.{changed}"
        return next((name for name, value in _settings().items() if value != self._settings[name]), "")


def _first_changed(space: Mapping[str, Any], names: tuple[str, ...], held: tuple[Any, ...]) -> str:
    for name, item in zip(names, held):
        if space.get(name) is not item and not _torch_wrapped(space.get(name), item):
            return name
    return ""


def _settings() -> dict[str, object]:
    return {name: _read(read) for name, read in SETTINGS.items()}


def _read(read: Callable[[], object]) -> object:
    """Torch refuses to tell a setting in old words once it was set in new ones; that is a change, too."""
    try:
        return read()
    except RuntimeError:
        return "set in another way"


def _torch_wrapped(now: Any, before: Any) -> bool:
    """Torch's compiler, once loaded, wraps some functions of torch in its own."""
    code = getattr(now, "__code__", None)
    own = code is not None and code.co_filename.startswith(TORCH_FOLDER)
    return own and getattr(now, "__wrapped__", None) is before


def _functions() -> dict[str, dict[str, Any]]:
    return {place: {n: v for n, v in _space(place).items() if callable(v)} for place in SEALED}


def _space(path: str) -> Mapping[str, Any]:
    """The namespace of a module or class that is already imported; empty if it is not."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:cut]))
        if module is not None:
            value: Any = module
            for name in parts[cut:]:
                value = value.__dict__.get(name)
                if value is None:
                    return {}
            return cast(Mapping[str, Any], value.__dict__)
    return {}

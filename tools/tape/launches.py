"""Records Triton launches: arguments by parameter, the grid, and the configurations of an autotuner.

`record_launches` replaces Triton's launching for the rest of the process. Nothing is compiled. A launch under
`@triton.autotune` is recorded once, with every configuration that remains after pruning as a choice; the executor finds
the fastest one.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch
import triton.language as tl
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from triton_agent.tools.compile.driver import TargetDriver
from triton_agent.tools.compile.targets import Target, resolve_grid
from triton_agent.tools.kernels.capture import Capture
from triton_agent.tools.kernels.kernel import value_to_json
from triton_agent.tools.tape.recorder import OutOfRecord, Recorder
from triton_agent.tools.tape.tape import Argument, Choice, Constexpr, Descriptor

CHOICES_AT_MOST = 64
"""Maximum number of configurations of one autotuned launch; later ones are dropped."""


def record_launches(recorder: Recorder, capture: Capture, facts: Mapping[str, Any]) -> None:
    """Record every launch from here on as a step."""
    bench: list[list[Choice]] = []
    """For each autotuner that is iterating over its configurations, the choices collected so far."""

    def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not recorder.is_own_thread():
            raise recorder.missed or AssertionError
        if not warmup:
            for hook in kernel.pre_run_hooks:
                hook(*args, **kwargs)
            choice = _choice(kernel, args, grid, kwargs, recorder, capture)
            if bench:
                bench[-1].append(choice)
            elif 0 not in choice.grid:
                recorder.launched([choice])
        return LaunchedKernel(run, kernel, kwargs)

    def tuned(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        tuner.nargs = dict(zip(tuner.arg_names, args))
        configs = list(tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs)[:CHOICES_AT_MOST]
        bench.append([])
        try:
            for config in configs:
                clashes = sorted(kwargs.keys() & config.kwargs.keys())
                if clashes:
                    raise ValueError(
                        f"Conflicting meta-parameters: {', '.join(clashes)}. They are both passed and autotuned."
                    )
                if config.pre_hook is not None:
                    config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})
                result = tuner.fn.run(*args, **kwargs, **config.all_kwargs())
        finally:
            choices = bench.pop()
            tuner.nargs = None
        tuner.best_config = configs[0]
        if bench:
            bench[-1] += choices
        elif choices and 0 not in choices[0].grid:
            recorder.launched(choices)
        return result

    JITFunction.run = run
    Autotuner.run = tuned
    driver.set_active(TracingDriver(facts))


def _choice(
    kernel: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any], recorder: Recorder, capture: Capture
) -> Choice:
    signature = inspect.signature(kernel.fn)
    own = {name: value for name, value in kwargs.items() if name in signature.parameters}
    bound = signature.bind(*args, **own)
    bound.apply_defaults()
    host = {name: tl.core._unwrap_if_constexpr(value) for name, value in bound.arguments.items()}
    constant = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
    arguments = tuple(
        (name, _constant(host[name], capture) if name in constant else _argument(value, recorder, capture))
        for name, value in bound.arguments.items()
    )
    options = tuple(
        (name, recorder.argument(value)) for name, value in kwargs.items() if name not in signature.parameters
    )
    return Choice(kernel=capture.capture(kernel), grid=resolve_grid(grid, host), arguments=arguments, options=options)


def _constant(value: Any, capture: Capture) -> Constexpr:
    return Constexpr(value=value_to_json(capture.capture_value(value)))


def _argument(value: Any, recorder: Recorder, capture: Capture) -> Argument:
    if isinstance(value, tuple):
        return tuple(_argument(item, recorder, capture) for item in value)
    if isinstance(value, TensorDescriptor):
        base = value.base.as_strided(tuple(value.shape), tuple(value.strides), value.base.storage_offset())
        return Descriptor(
            view=recorder.view_of(base),
            block_shape=tuple(map(int, value.block_shape)),
            padding=str(getattr(value, "padding", "zero")),
            round_f32_to_tf32=bool(getattr(value, "round_f32_to_tf32", False)),
        )
    if isinstance(value, tl.core.constexpr | tl.core.dtype):
        return _constant(tl.core._unwrap_if_constexpr(value), capture)
    if isinstance(value, torch.dtype | torch.device) or (callable(value) and not isinstance(value, torch.Tensor)):
        return _constant(value, capture)
    tensor = getattr(value, "base", None) if type(value).__name__ == "TensorWrapper" else None
    if tensor is not None:
        return recorder.view_of(tensor.view(_torch_dtype(value.dtype)))
    return recorder.argument(value)


def _torch_dtype(kind: Any) -> torch.dtype:
    """Return torch's dtype for the one passed to `triton.reinterpret`."""
    if isinstance(kind, torch.dtype):
        return kind
    names = {"fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2", "int1": "bool", "fp16": "float16", "bf16": "bfloat16"}
    name = names.get(str(kind), str(kind).replace("fp", "float"))
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise OutOfRecord(f"a tensor reinterpreted as {kind}")
    return found


class LaunchedKernel:
    """Replaces the compiled kernel that a launch or `warmup` returns; it can be launched again."""

    n_regs = 64
    n_spills = 0
    n_max_threads = 1024

    def __init__(self, run: Callable[..., Any], kernel: Any, kwargs: dict[str, Any]) -> None:
        self._run, self._kernel, self._kwargs = run, kernel, kwargs
        self.metadata = types.SimpleNamespace(shared=16384, num_warps=kwargs.get("num_warps", 4), num_ctas=1)

    def _init_handles(self) -> None:
        """Do nothing, where a compiled kernel would load its binary."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._run(self._kernel, *args, grid=grid, warmup=False, **kwargs)


class TracingDriver(TargetDriver):
    """Replaces `triton.runtime.driver.active` while host code is traced: it has a card's facts and runs nothing."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__(
            Target(
                backend="cuda",
                arch=10 * int(facts["major"]) + int(facts["minor"]),
                warp_size=32,
                card=str(facts["name"]),
                multiprocessors=int(facts["multi_processor_count"]),
                shared_limit_bytes=int(facts["shared_memory_per_block_optin"]),
            )
        )
        self._facts = facts

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return int(self._facts["major"]), int(self._facts["minor"])  # AMD's minor number may have two digits

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., list[float]]:
        def bench(call: Callable[[], object], quantiles: Any = None, **_: object) -> list[float]:
            raise OutOfRecord("a time measured on the GPU; host code is run without one")

        return bench

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(1, dtype=torch.int32, device="cuda:0")

    def clear_cache(self, cache: torch.Tensor) -> None:
        cache.zero_()

    def get_device_properties(self, device: Any = 0) -> dict[str, int | str]:
        return {
            **super().get_device_properties(device),
            "sm_clock_rate": int(self._facts.get("sm_clock_khz", 1_980_000)),
            "mem_clock_rate": int(self._facts.get("memory_clock_khz", 2_619_000)),
            "mem_bus_width": int(self._facts.get("memory_bus_bits", 5120)),
        }

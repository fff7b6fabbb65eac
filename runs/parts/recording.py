"""Records one call of a model: which submodules were called with which inputs, and which operators each of them ran.

Operators are counted as torch dispatches them, for every module on the call stack. `Costs` counts bytes and floating
point operations and estimates time by the slower of the two; `device_times` measures time on a GPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import flop_registry

from triton_agent.runs.parts.choosing import IDLE
from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.graph.operators import kind_of
from triton_agent.tools.reference.input_tensors import tensors_in

BYTES_PER_S = 4.8e12
"""Memory bandwidth of an H200, from its data sheet, like the rates below. Only ratios between submodules matter."""
FLOPS_PER_S = {torch.float16: 989e12, torch.bfloat16: 989e12, torch.float64: 67e12}
OTHER_FLOPS_PER_S = 67e12
LEAST_OPERATOR_S = 2e-6
"""Time of the smallest kernel on a GPU, start and end included."""
SLEEP_CYCLES = 100_000_000
"""About 50 ms of head start for the host, so that gaps between launches do not count as work."""


@dataclasses.dataclass(slots=True)
class Cost:
    """Cost of all calls of one module."""

    operators: int = 0
    moved_bytes: int = 0
    seconds: float = 0.0
    names: list[str] = dataclasses.field(default_factory=list)
    """Names of the operators, in order."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FirstCall:
    """First call of a module; `Calls.counts` counts all calls."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any


class Calls:
    """Records which modules are called, and with which arguments."""

    def __init__(self, model: nn.Module) -> None:
        self.names = {module: path for path, module in model.named_modules()}
        self.stack: list[str] = []
        self.first: dict[str, FirstCall] = {}
        self.counts: dict[str, int] = defaultdict(int)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        hooks: list[Any] = []
        for module in self.names:
            hooks.append(module.register_forward_pre_hook(self._begin))
            hooks.append(module.register_forward_hook(self._end, with_kwargs=True))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _begin(self, module: nn.Module, args: Any) -> None:
        self.stack.append(self.names[module])

    def _end(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        path = self.stack.pop()
        self.counts[path] += 1
        if path not in self.first:
            self.first[path] = FirstCall(args=args, kwargs=kwargs, output=output)


class Costs(UncompiledMode):  # type: ignore[no-untyped-call]
    """Adds the cost of every operator to all modules on the stack."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._calls = calls
        self.of: dict[str, Cost] = defaultdict(Cost)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if kind_of(str(func)) not in IDLE:
            self._count(func, args, kwargs, result)
        return result

    def _count(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        taken, made = list(tensors_in([args, kwargs])), list(tensors_in([result]))
        moved = sum(tensor.numel() * tensor.element_size() for tensor in [*taken, *made])
        flops = _flops(func, args, kwargs, result)
        rate = FLOPS_PER_S.get(made[0].dtype, OTHER_FLOPS_PER_S) if made else OTHER_FLOPS_PER_S
        seconds = max(LEAST_OPERATOR_S, moved / BYTES_PER_S, flops / rate)
        plain = [value for value in args if isinstance(value, (bool, int, float, str))]
        for path in self._calls.stack:
            cost = self.of[path]
            cost.operators += 1
            cost.moved_bytes += moved
            cost.seconds += seconds
            cost.names.append(f"{func}{plain}")


def _flops(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    """Return the operations of products, convolutions and attention; other operators are bound by memory."""
    formula = flop_registry.get(getattr(func, "overloadpacket", None))
    return int(formula(*args, **kwargs, out_val=result)) if formula is not None else 0


def device_times(model: nn.Module, call: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Measure seconds of device time in each submodule, the median over repeats."""
    names = {module: path for path, module in model.named_modules()}
    call()
    samples = [_one_timing(names, call) for _ in range(repeats)]
    return {path: sorted(sample.get(path, 0.0) for sample in samples)[repeats // 2] for path in samples[0]}


def _one_timing(names: dict[nn.Module, str], call: Callable[[], Any]) -> dict[str, float]:
    pairs: dict[str, list[list[Any]]] = defaultdict(list)
    cuda: Any = torch.cuda

    def mark() -> Any:
        event = cuda.Event(enable_timing=True)
        event.record()
        return event

    def begin(module: nn.Module, args: Any) -> None:
        pairs[names[module]].append([mark()])

    def end(module: nn.Module, args: Any, output: Any) -> None:
        next(pair for pair in reversed(pairs[names[module]]) if len(pair) == 1).append(mark())

    hooks = [module.register_forward_pre_hook(begin) for module in names]
    hooks += [module.register_forward_hook(end) for module in names]
    try:
        cuda.synchronize()
        cuda._sleep(SLEEP_CYCLES)
        call()
        cuda.synchronize()
    finally:
        for hook in hooks:
            hook.remove()
    return {path: sum(one.elapsed_time(two) for one, two in found) / 1000 for path, found in pairs.items()}

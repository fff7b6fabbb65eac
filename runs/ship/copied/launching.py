"""The functions that plans in a shipped file use: launches, prepared memory, memory of a given layout.

The definitions are copied into every file that needs them, so they may import and name only what a kernel file may
(`tools/candidate/screen.py`).
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import triton
from torch.utils.weak import WeakIdKeyDictionary


class Launch:
    """A launch of a kernel with its grid, options and last constants.

    Plans are called with memory aligned to 16 bytes, so nothing that Triton compiles a kernel for differs between
    calls. Triton binds and examines the arguments in the first launch on a GPU; later ones call the compiled kernel.
    """

    def __init__(self, kernel: Any, grid: tuple[int, int, int], **constants: Any) -> None:
        self.kernel, self.grid, self.constants = kernel, grid, constants
        self.compiled: dict[int, Any] = {}
        self.tensor: int | None = None  # an argument that tells the device, which costs less than asking CUDA

    def __call__(self, *args: Any) -> None:
        driver, hook = triton.runtime.driver, triton.knobs.runtime.launch_enter_hook
        if self.compiled and not getattr(hook, "calls", hook):
            device = driver.active.get_current_device() if self.tensor is None else args[self.tensor].get_device()
            if device in self.compiled:
                run, function, metadata, last = self.compiled[device]
                stream = driver.active.get_current_stream(device)
                run(*self.grid, stream, function, metadata, None, None, None, *args, *last)
                return
        compiled = self.kernel[self.grid](*args, **self.constants)
        if hasattr(compiled, "packed_metadata"):  # not in Triton's interpreter
            self.tensor = next((at for at, value in enumerate(args) if isinstance(value, torch.Tensor)), None)
            last = [self.constants[name] for name in self.kernel.arg_names if name in self.constants]
            known = compiled.run, compiled.function, compiled.packed_metadata, last
            self.compiled[driver.active.get_current_device()] = known


class SizedLaunch:
    """A launch whose grid and numbers follow from the sizes of a call.

    Whatever Triton compiles a kernel for (numbers that are 1 or divisible by 16, aligned addresses) follows from these
    sizes, too. So Triton examines the arguments in the first launch at some sizes on a GPU; later ones at the same
    sizes call the compiled kernel.
    """

    sizes_at_most = 4096

    def __init__(self, kernel: Any, **constants: Any) -> None:
        self.kernel, self.constants = kernel, constants
        self.compiled: dict[Any, Any] = {}
        self.tensor: int | None = None  # an argument that tells the device, which costs less than asking CUDA

    def __call__(self, sizes: Any, grid: tuple[int, int, int], *args: Any) -> None:
        driver, hook = triton.runtime.driver, triton.knobs.runtime.launch_enter_hook
        if self.compiled and not getattr(hook, "calls", hook):
            device = driver.active.get_current_device() if self.tensor is None else args[self.tensor].get_device()
            known = self.compiled.get((device, sizes))
            if known is not None:
                run, function, metadata, last = known
                stream = driver.active.get_current_stream(device)
                run(*grid, stream, function, metadata, None, None, None, *args, *last)
                return
        compiled = self.kernel[grid](*args, **self.constants)
        if hasattr(compiled, "packed_metadata"):  # not in Triton's interpreter
            if len(self.compiled) >= self.sizes_at_most:
                self.compiled.clear()
            self.tensor = next((at for at, value in enumerate(args) if isinstance(value, torch.Tensor)), None)
            last = [self.constants[name] for name in self.kernel.arg_names if name in self.constants]
            known = compiled.run, compiled.function, compiled.packed_metadata, last
            self.compiled[driver.active.get_current_device(), sizes] = known


def kept(prepare: Any) -> Any:
    """Keep what a function makes of parameters until one of them changes or the first of them is gone."""
    known: Any = WeakIdKeyDictionary()
    constant: dict[Any, Any] = {}

    @functools.wraps(prepare)
    def prepared(device: Any, *tensors: Any) -> Any:
        version = [device, *((tensor.data_ptr(), tensor._version) for tensor in tensors)]
        found = known.get(tensors[0]) if tensors else constant.get(device)
        if found is None or found[0] != version:
            found = version, prepare(device, *tensors)
            if tensors:
                known[tensors[0]] = found
            else:
                constant[device] = found
        prepared.latest = found  # type: ignore[attr-defined]  # a graph that is recorded now has to keep it alive
        return found[1]

    return prepared


def with_strides(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """Return the tensor with these strides, which a library may choose otherwise on another device."""
    if tensor.stride() == strides:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def allocate(size: int, alignment: int, stream: Any) -> torch.Tensor:
    """Return memory that a kernel needs for its own descriptors."""
    return torch.empty(size, dtype=torch.int8, device="cuda")

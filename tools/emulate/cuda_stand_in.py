"""Lets host code written for a GPU run on CPU tensors: `device="cuda"`, `.cuda()`, `assert x.is_cuda`.

    with CudaStandIn("cuda:90"):
        answer = model(x)

Inside, tensors asked for on a CUDA device are made on the CPU, moving one there gives it back, and `is_cuda` is true.
The harmless questions to `torch.cuda` (properties, capability, current device, `is_available`) are answered with the
target's data sheet, and its device guards and `synchronize` do nothing. `is_available` says yes, since honest files
take their kernel's path only then. What a tensor is stays visible: `x.device.type` is `"cpu"`, and a comparison of it
with `"cuda"` fails. Not covered: streams other than the current one, events, graphs, CUDA's random generators,
autocast, `torch.set_default_device`.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from triton_agent.tools.emulate import addresses
from triton_agent.tools.emulate.interpreter_driver import REGISTER_FILE, capability_of
from triton_agent.tools.emulate.targets import KIB, parse_target

_IS_CUDA = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]
_TO_CUDA = torch.Tensor.cuda
_DATA_PTR = torch.Tensor.data_ptr
_MEMORY_BYTES = 80 * KIB**3
_L2_BYTES = 50 * KIB**2
"""Of an H100, whatever the target: they rarely decide over a path."""

_TAKES_DEVICE_FIRST = frozenset((torch.Tensor.to,))
"""Functions that take a device among their positional arguments; elsewhere it comes by keyword."""


class CudaStandIn(TorchFunctionMode):
    """The context in which there seems to be a GPU."""

    def __init__(self, target: str = "cuda:90") -> None:
        super().__init__()
        self._target = target
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> CudaStandIn:
        self._stack.enter_context(stand_in_cuda(self._target))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._stack.close()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func == _IS_CUDA:
            return True
        if func is _TO_CUDA:
            return args[0]
        if func is _DATA_PTR:
            addresses.note(args[0])
        kwargs = dict(kwargs or {})
        if "device" in kwargs:
            kwargs["device"] = _on_cpu(kwargs["device"])
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False  # pinning needs a GPU, and changes no value
        if func in _TAKES_DEVICE_FIRST:
            args = (args[0], *map(_on_cpu, args[1:]))
        return func(*args, **kwargs)


def _on_cpu(value: Any) -> Any:
    """The CPU where `value` names a CUDA device, otherwise `value`."""
    is_index = type(value) is int
    named = isinstance(value, str) and value.partition(":")[0] == "cuda"
    return torch.device("cpu") if is_index or named or _is_cuda_device(value) else value


def _is_cuda_device(value: Any) -> bool:
    return isinstance(value, torch.device) and value.type == "cuda"


@contextlib.contextmanager
def stand_in_cuda(target: str = "cuda:90") -> Any:
    """Answers the harmless queries of `torch.cuda`; on leaving, the originals are back."""
    answers = _answers(target)
    originals = {name: getattr(torch.cuda, name) for name in answers}
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(torch.cuda, name, original)


@functools.cache
def _answers(target: str) -> dict[str, Any]:
    """The same functions at every entry, so that replacing one can be told from entering again."""
    card = parse_target(target)
    capability = capability_of(card)
    properties = types.SimpleNamespace(
        name=card.card,
        major=capability[0],
        minor=capability[1],
        multi_processor_count=card.multiprocessors,
        total_memory=_MEMORY_BYTES,
        L2_cache_size=_L2_BYTES,
        warp_size=card.warp_size,
        regs_per_multiprocessor=REGISTER_FILE,
        max_threads_per_multi_processor=2048,
        shared_memory_per_block=48 * KIB,
        shared_memory_per_block_optin=card.shared_limit_bytes,
        shared_memory_per_multiprocessor=card.shared_limit_bytes + KIB,
    )
    stream = types.SimpleNamespace(cuda_stream=0, stream_id=0, synchronize=_nothing())
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": _nothing(),
        "synchronize": _nothing(),
        "empty_cache": _nothing(),
        "get_device_name": lambda device=None: card.card,
        "get_device_capability": lambda device=None: capability,
        "get_device_properties": lambda device=None: properties,
        "is_bf16_supported": lambda including_emulation=True: True,
        "current_stream": lambda device=None: stream,
        "device": _guard,
        "device_of": _guard,
    }


def _nothing() -> Callable[..., None]:
    """A function of its own for each name: torch's compiler insists that two names are two functions."""

    def nothing(*_: Any, **__: Any) -> None:
        return None

    return nothing


@contextlib.contextmanager
def _guard(device: Any = None) -> Any:
    yield device

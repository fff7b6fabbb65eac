"""A fake GPU for traced host code: devices, streams, events, graphs, generators, properties.

    gpu = FakeGpu(facts, recorder)
    with gpu:
        model(x)

Nothing here computes. There is only one device. Tensors without values are torch's fake tensors on the CPU, since torch
without CUDA supports no others, but they claim to be on `cuda:0`. Queries to `torch.cuda` return the facts of the
target's card. Work on any stream is recorded in the order of the Python calls, and a captured CUDA graph becomes the
steps that it captured. `torch.compile` and `torch.jit.script` return their argument: the code they would compile is
recorded when it is called. Not covered: several GPUs.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from triton_agent.tools.processes import cuda_autocast
from triton_agent.tools.tape.recorder import Entry, OutOfRecord, Recorder

DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")
_REAL_DEVICE: Any = FakeTensor.device.fget  # type: ignore[attr-defined]
_REAL_DISPATCH: Any = FakeTensor.__torch_dispatch__.__func__  # type: ignore[attr-defined]
_RealGenerator = torch.Generator
_SAYS: dict[Any, Callable[[Any], Any]] = {
    torch.Tensor.device.__get__: lambda tensor: DEVICE,
    torch.Tensor.is_cuda.__get__: lambda tensor: True,  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: lambda tensor: False,  # type: ignore[attr-defined]
    torch.Tensor.get_device: lambda tensor: 0,
    torch.Tensor.cuda: lambda tensor: tensor,
    torch.Tensor.cpu: lambda tensor: tensor,
    torch.Tensor.pin_memory: lambda tensor: tensor,
    torch.Tensor.is_pinned: lambda tensor: False,
}
"""Replies that are the same for every tensor and for all other arguments."""
_ACCELERATOR: dict[str, Callable[..., Any]] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_accelerator": lambda check_available=False: torch.device("cuda"),
    "current_device_index": lambda: 0,
    "synchronize": lambda device=None: None,
}


class FakeGpu(TorchFunctionMode):
    """The context in which a GPU seems to be present. It may be entered again after it was left."""

    def __init__(self, facts: dict[str, Any], recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._default_device = CPU
        self._before: list[Any] = []
        """The attributes that were replaced, while this context is entered."""
        self._replaced: list[tuple[Any, str, Any]] = [
            *((torch.cuda, name, answer) for name, answer in _answers(facts, recorder).items()),
            *((torch.cuda.nvtx, f"range_{name}", _nothing) for name in ("push", "pop", "start", "end")),
            (torch.cuda.nvtx, "mark", _nothing),
            (torch.version, "cuda", torch.version.cuda or "12.8"),
            (torch.backends.cudnn, "is_acceptable", lambda tensor: False),  # recurrent layers would pack their weights
            (torch, "Generator", FakeGenerator),
            (torch, "compile", _uncompiled),
            *((torch.jit, name, _uncompiled) for name in ("script", "script_if_tracing", "trace", "freeze")),
            *((torch.accelerator, name, answer) for name, answer in _ACCELERATOR.items()),
            (torch, "set_default_device", self._set_default_device),
            (torch, "get_default_device", lambda: self._default_device),
            (torch.Tensor, "record_stream", _nothing),
            (torch.nn.Module, "_apply", _apply),
            (torch.nn.Module, "compile", _nothing),
            (torch, "set_autocast_enabled", _also_for_cpu(torch.set_autocast_enabled)),
            (torch, "set_autocast_dtype", _also_for_cpu(torch.set_autocast_dtype)),
            (FakeTensor, "device", property(self._device_of)),
            (FakeTensor, "__torch_dispatch__", classmethod(self._without_modes)),
        ]
        cuda_autocast.install(computes=False)

    def __enter__(self) -> FakeGpu:
        self._before = [owner.__dict__.get(name, getattr(owner, name, None)) for owner, name, _ in self._replaced]
        for owner, name, value in self._replaced:
            setattr(owner, name, value)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        for (owner, name, _), value in zip(self._replaced, self._before):
            setattr(owner, name, value)

    def _device_of(self, tensor: FakeTensor) -> Any:
        is_asked_by_torch = not self._recorder.is_own_thread() or self._recorder.is_dispatching
        return _REAL_DEVICE(tensor) if is_asked_by_torch else DEVICE

    def _without_modes(self, cls: type, *args: Any, **kwargs: Any) -> Any:
        """Replace the method that torch calls if no mode is active, as in a thread started by the candidate."""
        self._recorder.is_own_thread()  # records a refusal in another thread; torch crashes on an exception here
        return _REAL_DISPATCH(cls, *args, **kwargs)

    def _set_default_device(self, device: Any) -> None:
        self._default_device = CPU if device is None else torch.device(device)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.data_ptr:
            return self._recorder.address_of(args[0])
        if func in _SAYS:
            return _SAYS[func](args[0])
        if "device" in kwargs:
            kwargs["device"] = _on_cpu(kwargs["device"])
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        if func is torch.Tensor.to:  # the one function that takes a device among its positional arguments
            args = (args[0], *map(_on_cpu, args[1:]))
        return func(*args, **kwargs)


class FakeGenerator(_RealGenerator):
    """A generator of any device. It contributes no number to a tape: the executor seeds torch before each call."""

    _device: torch.device
    device = property(lambda self: self._device)

    def __new__(cls, device: Any = CPU) -> FakeGenerator:
        made = super().__new__(cls, "cpu")  # type: ignore[call-arg]
        made._device = torch.device(device)
        return made


def _on_cpu(value: Any) -> Any:
    """Return the CPU for a CUDA device, and any other value as it is."""
    named = type(value) is int or (isinstance(value, str) and value.partition(":")[0] == "cuda")
    return CPU if named or (isinstance(value, torch.device) and value.type == "cuda") else value


def _uncompiled(model: Any = None, *_: Any, **__: Any) -> Any:
    """Replace `torch.compile`, both as a function and as a decorator with options."""
    return _uncompiled if model is None else model


def _nothing(*_: Any, **__: Any) -> None:
    """Accept any arguments and do nothing."""


def _apply(module: torch.nn.Module, change: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
    """Replace torch's own `_apply`, which swaps the contents of tensors; fake tensors do not support that."""
    for child in module.modules() if recurse else [module]:
        for name, parameter in child._parameters.items():
            if parameter is not None:
                changed = change(parameter)
                if changed is not parameter:
                    child._parameters[name] = torch.nn.Parameter(changed, parameter.requires_grad)
        for name, buffer in child._buffers.items():
            if buffer is not None:
                child._buffers[name] = change(buffer)
    return module


def _also_for_cpu(switch: Callable[..., None]) -> Callable[..., None]:
    """Apply CUDA's autocast switch to the CPU as well, where torch believes the tensors to be."""

    def switched(*args: Any) -> None:
        device, value = args if len(args) == 2 else ("cuda", *args)
        switch(device, value)
        if device == "cuda":
            switch("cpu", value)

    return switched


class _Context(contextlib.ContextDecorator):
    """A context manager that accepts any arguments and does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class FakeStream(_Context):
    """Stands for every stream: all work is recorded in one order."""

    cuda_stream = stream_id = 0
    device = DEVICE
    wait_stream = wait_event = synchronize = _nothing

    def record_event(self, event: Any = None) -> Any:
        return event or FakeEvent()

    def query(self) -> bool:
        return True


class FakeEvent(_Context):
    """Stands for every event, as one that has already happened."""

    record = wait = synchronize = _nothing

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        raise OutOfRecord("a time measured on the GPU; host code is run without one")


def _answers(facts: dict[str, Any], recorder: Recorder) -> dict[str, Any]:
    properties = types.SimpleNamespace(**{**facts, "capability": None})
    capability = (int(facts["major"]), int(facts["minor"]))
    default = FakeGenerator(DEVICE)

    class FakeGraph:
        """A CUDA graph: the steps recorded while it was captured."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self._entries: list[Entry] = []

        def capture_begin(self, *_: Any, **__: Any) -> None:
            recorder.captured = self._entries = []

        def capture_end(self) -> None:
            recorder.captured = None

        def replay(self) -> None:
            recorder.replay(self._entries)

        reset = _nothing

        def pool(self) -> tuple[int, int]:
            return (0, 0)

    @contextlib.contextmanager
    def graph(cuda_graph: FakeGraph, *_: Any, **__: Any) -> Iterator[None]:
        cuda_graph.capture_begin()
        try:
            yield
        finally:
            cuda_graph.capture_end()

    nothing: tuple[str, ...] = (
        "init",
        "set_device",
        "synchronize",
        "empty_cache",
        "set_rng_state",
        "manual_seed",
        "manual_seed_all",
    )
    nothing += ("seed", "seed_all", "set_stream", "reset_peak_memory_stats", "ipc_collect")
    none_used = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "current_device")
    return {
        **dict.fromkeys(nothing, _nothing),
        **{name: lambda device=None: 0 for name in none_used},
        "is_available": lambda: True,
        "is_initialized": lambda: False,
        "device_count": lambda: 1,
        "get_device_name": lambda device=None: facts["name"],
        "get_device_capability": lambda device=None: capability,
        "get_device_properties": lambda device=None: properties,
        "get_arch_list": lambda: [f"sm_{capability[0]}{capability[1]}"],
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_tf32_supported": lambda: True,
        "mem_get_info": lambda device=None: (facts["total_memory"], facts["total_memory"]),
        "get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8),
        "initial_seed": torch.initial_seed,
        "default_generators": (default,),
        "device": _Context,
        "device_of": _Context,
        "Stream": FakeStream,
        "ExternalStream": FakeStream,
        "Event": FakeEvent,
        "stream": _Context,
        "StreamContext": _Context,
        "current_stream": lambda device=None: FakeStream(),
        "default_stream": lambda device=None: FakeStream(),
        "CUDAGraph": FakeGraph,
        "graph": graph,
        "graph_pool_handle": lambda: (0, 0),
        "is_current_stream_capturing": lambda: recorder.captured is not None,
        "make_graphed_callables": lambda callables, *_, **__: callables,
    }

"""A GPU for host code to talk to while it is traced: devices, streams, events, graphs, properties.

    with FakeGpu(facts, recorder):
        model(x)

Nothing here computes. A tape knows one device. Tensors without values are torch's fake tensors on the CPU, since torch
without CUDA cannot handle others, but they say that they are on `cuda:0`; questions to `torch.cuda` are answered with
the facts of the card that the tape is for. Work on any stream is recorded in the order in which Python asks for it, and
a captured CUDA graph becomes the steps that it captured. Under autocast operators are cast by the CPU's lists, which
leave softmax, normalisations and sums narrow where CUDA's widen them. Not covered: several GPUs, CUDA's random
generators, `torch.set_default_device`.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from triton_agent.tools.tape.recorder import Entry, OutOfRecord, Recorder

DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")
_REAL_DEVICE: Any = FakeTensor.device.fget  # type: ignore[attr-defined]
_TAKES_DEVICE_FIRST = frozenset((torch.Tensor.to,))
"""Functions that take a device among their positional arguments; elsewhere it comes by keyword."""
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
"""What is said of any tensor, whatever the other arguments."""


class FakeGpu(TorchFunctionMode):
    """The context in which there seems to be a GPU."""

    def __init__(self, facts: dict[str, Any], recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._answers = {**_answers(facts), **_streams(), **_graphs(recorder)}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> FakeGpu:
        for name, answer in self._answers.items():
            self._put(torch.cuda, name, answer)
        self._put(torch.Tensor, "record_stream", lambda tensor, stream: None)
        self._put(torch.nn.Module, "_apply", _apply)
        for name in ("set_autocast_enabled", "set_autocast_dtype"):
            self._put(torch, name, _for_cpu_too(getattr(torch, name)))
        recorder = self._recorder
        self._put(FakeTensor, "device", property(lambda it: _REAL_DEVICE(it) if recorder.is_dispatching else DEVICE))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def _put(self, owner: Any, name: str, value: Any) -> None:
        """In place of an attribute, until this context is left."""
        self._stack.callback(setattr, owner, name, owner.__dict__.get(name, getattr(owner, name, None)))
        setattr(owner, name, value)

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._stack.close()

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
        if func in _TAKES_DEVICE_FIRST:
            args = (args[0], *map(_on_cpu, args[1:]))
        return func(*args, **kwargs)


def _on_cpu(value: Any) -> Any:
    """The CPU in place of a CUDA device."""
    named = type(value) is int or (isinstance(value, str) and value.partition(":")[0] == "cuda")
    return CPU if named or (isinstance(value, torch.device) and value.type == "cuda") else value


def _apply(module: torch.nn.Module, change: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
    """Torch's own exchanges the insides of tensors, which tensors without values do not allow."""
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


def _for_cpu_too(switch: Callable[..., None]) -> Callable[..., None]:
    """A switch of autocast for CUDA, which has to hold for tensors that torch takes for CPU tensors."""

    def switched(*args: Any) -> None:
        device, value = args if len(args) == 2 else ("cuda", *args)
        switch(device, value)
        if device == "cuda":
            switch("cpu", value)

    return switched


def _answers(facts: dict[str, Any]) -> dict[str, Any]:
    """What `torch.cuda` says of the card."""
    properties = types.SimpleNamespace(**{**facts, "capability": None})
    capability = (int(facts["major"]), int(facts["minor"]))
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: False,
        "init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "get_device_name": lambda device=None: facts["name"],
        "get_device_capability": lambda device=None: capability,
        "get_device_properties": lambda device=None: properties,
        "is_bf16_supported": lambda including_emulation=True: True,
        "memory_allocated": lambda device=None: 0,
        "max_memory_allocated": lambda device=None: 0,
        "mem_get_info": lambda device=None: (facts["total_memory"], facts["total_memory"]),
        "get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": lambda state, device=None: None,
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "device": _Nothing,
        "device_of": _Nothing,
    }


class _Nothing(contextlib.ContextDecorator):
    """A context that changes nothing, made of any arguments."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class FakeStream(_Nothing):
    """Any stream: all work is recorded in one order."""

    cuda_stream = 0
    stream_id = 0
    device = DEVICE

    def wait_stream(self, *_: Any) -> None: ...

    def wait_event(self, *_: Any) -> None: ...

    def record_event(self, event: Any = None) -> Any:
        return event or FakeEvent()

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True


class FakeEvent(_Nothing):
    """Any event: it has happened."""

    def record(self, *_: Any) -> None: ...

    def wait(self, *_: Any) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        raise OutOfRecord("a time measured on the GPU; host code is run without one")


def _streams() -> dict[str, Any]:
    return {
        "Stream": FakeStream,
        "ExternalStream": FakeStream,
        "Event": FakeEvent,
        "stream": _Nothing,
        "StreamContext": _Nothing,
        "current_stream": lambda device=None: FakeStream(),
        "default_stream": lambda device=None: FakeStream(),
        "set_stream": lambda stream: None,
    }


def _graphs(recorder: Recorder) -> dict[str, Any]:
    class FakeGraph:
        """A CUDA graph: the steps between the begin and the end of its capture."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self._entries: list[Entry] = []

        def capture_begin(self, *_: Any, **__: Any) -> None:
            recorder.captured = self._entries = []

        def capture_end(self) -> None:
            recorder.captured = None

        def replay(self) -> None:
            recorder.replay(self._entries)

        def reset(self) -> None: ...

        def pool(self) -> tuple[int, int]:
            return (0, 0)

    @contextlib.contextmanager
    def graph(cuda_graph: FakeGraph, *_: Any, **__: Any) -> Iterator[None]:
        cuda_graph.capture_begin()
        try:
            yield
        finally:
            cuda_graph.capture_end()

    def make_graphed_callables(callables: Any, *_: Any, **__: Any) -> Any:
        return callables

    return {
        "CUDAGraph": FakeGraph,
        "graph": graph,
        "graph_pool_handle": lambda: (0, 0),
        "is_current_stream_capturing": lambda: recorder.captured is not None,
        "make_graphed_callables": make_graphed_callables,
    }

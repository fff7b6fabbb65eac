"""Which Triton kernels a candidate launched, and the switch that silences them: in the interpreter and on a GPU.

On a GPU a launch is seen where Triton hands it to the driver, by the compiled kernel it belongs to. A CUDA graph
remembers what was launched while it was captured, and its replay counts as that.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
import types
from typing import Any, Protocol

from triton_agent.tools.isolate import watch
from triton_agent.tools.isolate.watch import OperatorWatch

REGISTER_BYTES = 4
"""Unit in which Triton counts what a thread spills."""


class Launches(Protocol):
    """The launches of one process."""

    def begin(self, *, silenced: bool) -> None:
        """Forget what was seen; from here on launches do nothing where `silenced`."""

    def seen(self) -> list[dict[str, Any]]:
        """Finished launches since `begin`, as plain data."""

    def others(self) -> list[str]:
        """Kernels of somebody else that the candidate launched since `begin`; those of torch's operators are not."""

    def faults(self) -> list[BaseException]:
        """What went wrong inside launches since `begin`, whether or not the candidate caught it."""

    def unsupported(self) -> bool:
        """Whether a launch since `begin` asked for what cannot be run here; nobody's word for it is taken."""

    def foreign_streams(self) -> list[int]:
        """Handles of CUDA streams other than the caller's that were launched on since `begin`."""

    def captured_operators(self) -> list[dict[str, list[int]]]:
        """Torch's operators in each CUDA graph that was replayed since `begin`, counted as the watch counts."""

    def resources(self) -> list[dict[str, Any]]:
        """What each kernel launched since `begin` needs of the GPU, as the driver loaded it; plain data."""


class NoLaunches:
    """Where kernels are compiled and nothing else."""

    def begin(self, *, silenced: bool) -> None:
        return

    def seen(self) -> list[dict[str, Any]]:
        return []

    def others(self) -> list[str]:
        return []

    def faults(self) -> list[BaseException]:
        return []

    def unsupported(self) -> bool:
        return False

    def foreign_streams(self) -> list[int]:
        return []

    def captured_operators(self) -> list[dict[str, list[int]]]:
        return []

    def resources(self) -> list[dict[str, Any]]:
        return []


class InterpretedLaunches:
    """Launches in the mended interpreter, with the bytes they moved."""

    def __init__(self, target: str, path: str) -> None:
        self._interpreter = importlib.import_module("triton_agent.tools.emulate.interpreter").install(target)
        self._owners = Owners(path)
        self._interpreter.owners = self._owners

    def begin(self, *, silenced: bool) -> None:
        self._owners.others.clear()
        self._interpreter.launches.clear()
        self._interpreter.faults.clear()
        self._interpreter.silenced = silenced

    def seen(self) -> list[dict[str, Any]]:
        return [_plain(launch) for launch in self._interpreter.launches if dataclasses.is_dataclass(launch)]

    def others(self) -> list[str]:
        return list(self._owners.others)

    def faults(self) -> list[BaseException]:
        return list(self._interpreter.faults)

    def unsupported(self) -> bool:
        kind = importlib.import_module("triton_agent.tools.emulate.faults").Unsupported
        return any(isinstance(fault, kind) for fault in self._interpreter.faults)

    def foreign_streams(self) -> list[int]:
        return []

    def captured_operators(self) -> list[dict[str, list[int]]]:
        return []

    def resources(self) -> list[dict[str, Any]]:
        return []


def _plain(launch: Any) -> dict[str, Any]:
    return {
        "kernel": launch.kernel,
        "programs": launch.programs,
        "bytes_loaded": launch.bytes_loaded,
        "bytes_stored": launch.bytes_stored,
        "contested": list(launch.contested),
    }


class Owners:
    """Whose kernels are launched, by the file that their Python code came from."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.others: dict[str, None] = {}
        """Names of kernels that are not the candidate's and that it called itself, in order."""

    def is_own(self, function: Any) -> bool:
        code = getattr(function, "__code__", None)
        return code is None or code.co_filename == self._path

    def note_other(self, kernel: str) -> None:
        """Somebody else's kernel is being launched. What an operator of torch launches is counted as the operator."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != watch.__file__:
            if frame.f_code.co_filename == self._path:
                self.others[kernel] = None
                return
            frame = frame.f_back


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Method:
    """A method, and the class that it comes from."""

    name: str
    owner: type
    method: Any


def _origin(kind: type, name: str) -> _Method:
    """Furthest up among the classes that have a method of that name."""
    owner = [place for place in kind.__mro__ if name in place.__dict__][-1]
    return _Method(name=name, owner=owner, method=owner.__dict__[name])


class GpuLaunches:
    """Launches that reach the CUDA driver through Triton."""

    def __init__(self, path: str) -> None:
        self._owners = Owners(path)
        self._seen: list[dict[str, Any]] = []
        self._silenced = False
        self._streams: set[int] = set()
        self._caller: int | None = None
        self._graphs: dict[int, list[dict[str, Any]]] = {}
        self._captured: dict[int, dict[str, list[int]]] = {}
        """Operators of torch by the graph that they were captured in."""
        self._replayed: list[int] = []
        self._loaded: dict[Any, Any] = {}
        """Compiled kernels by the driver's handle of their function."""
        self._launched: dict[Any, None] = {}
        """Handles launched since `begin`, in order."""
        self._hook()
        self._hook_loading()
        self._hook_graphs()

    def _hook_graphs(self) -> None:
        """A replay launches again what was launched between the begin and the end of the capture.

        And it runs again torch's operators that were captured, wherever that was. Hooked where the methods come from,
        for a class further up can be asked for them as well.
        """
        graph_class = importlib.import_module("torch").cuda.CUDAGraph
        begin, end, replay = (_origin(graph_class, name) for name in ("capture_begin", "capture_end", "replay"))
        starts: dict[int, int] = {}
        watches: dict[int, OperatorWatch] = {}

        def begun(graph: Any, *args: Any, **kwargs: Any) -> Any:
            result = begin.method(graph, *args, **kwargs)
            starts[id(graph)] = len(self._seen)
            watches[id(graph)] = OperatorWatch(poisons=False)
            watches[id(graph)].__enter__()  # type: ignore[no-untyped-call]
            return result

        def ended(graph: Any, *args: Any, **kwargs: Any) -> Any:
            watch = watches.pop(id(graph), None)
            if watch is not None:
                watch.__exit__(None, None, None)  # type: ignore[no-untyped-call]
                self._captured[id(graph)] = watch.take()
            self._graphs[id(graph)] = self._seen[starts.pop(id(graph), len(self._seen)) :]
            return end.method(graph, *args, **kwargs)

        def replayed(graph: Any, *args: Any, **kwargs: Any) -> Any:
            if self._silenced and self._graphs.get(id(graph)):
                return None  # of kernels that would run again
            self._seen += self._graphs.get(id(graph), [])
            self._replayed.append(id(graph))
            return replay.method(graph, *args, **kwargs)

        for origin, hook in ((begin, begun), (end, ended), (replay, replayed)):
            setattr(origin.owner, origin.name, hook)

    def _hook_loading(self) -> None:
        """Remember every kernel that the driver loads, by the handle it is launched by."""
        compiled = importlib.import_module("triton.compiler.compiler").CompiledKernel
        load = compiled._init_handles

        def loaded(kernel: Any) -> None:
            load(kernel)
            handle = getattr(kernel, "function", None)
            if handle is not None:
                self._loaded[handle] = kernel

        compiled._init_handles = loaded

    def _hook(self) -> None:
        launcher = importlib.import_module("triton.backends.nvidia.driver").CudaLauncher
        make, launch = launcher.__init__, launcher.__call__

        def made(this: Any, source: Any, metadata: Any) -> None:
            make(this, source, metadata)
            this.kernel_name = str(getattr(metadata, "name", ""))
            this.is_own = self._owners.is_own(getattr(getattr(source, "fn", None), "fn", None))

        def launched(this: Any, x: int, y: int, z: int, stream: int, *rest: Any) -> Any:
            if not this.is_own:
                self._owners.note_other(this.kernel_name)
            elif self._silenced:
                return None
            if self._caller is not None and stream != self._caller and not self._capturing():
                self._streams.add(stream)
            if rest:
                self._launched[rest[0]] = None
            if this.is_own:
                self._seen.append(_counted(this.kernel_name, x * y * z))
            return launch(this, x, y, z, stream, *rest)

        launcher.__init__, launcher.__call__ = made, launched

    def _capturing(self) -> bool:
        return bool(importlib.import_module("torch").cuda.is_current_stream_capturing())

    def begin(self, *, silenced: bool) -> None:
        self._seen.clear()
        self._owners.others.clear()
        self._replayed.clear()
        self._launched.clear()
        self._streams.clear()
        self._silenced = silenced
        self._caller = importlib.import_module("torch").cuda.current_stream().cuda_stream

    def foreign_streams(self) -> list[int]:
        return sorted(self._streams)

    def seen(self) -> list[dict[str, Any]]:
        return list(self._seen)

    def others(self) -> list[str]:
        return list(self._owners.others)

    def faults(self) -> list[BaseException]:
        return []

    def unsupported(self) -> bool:
        return False

    def captured_operators(self) -> list[dict[str, list[int]]]:
        return [self._captured[graph] for graph in self._replayed if graph in self._captured]

    def resources(self) -> list[dict[str, Any]]:
        """A call that replays a graph launches nothing itself: then all that were ever loaded."""
        return [_resources(self._loaded[handle]) for handle in self._launched or self._loaded if handle in self._loaded]


def _resources(kernel: Any) -> dict[str, Any]:
    """Registers as loaded; what the driver calls local memory holds what is spilled, and arrays if there are any."""
    target = kernel.metadata.target
    read = importlib.import_module("triton_agent.tools.emulate.resources").resources_of
    told = read(kernel, target=f"{target.backend}:{target.arch}", compile_ms=0.0)
    constants = importlib.import_module("triton_agent.tools.emulate.compile_trace").constants_of
    return {
        **dataclasses.asdict(told),
        "registers": int(kernel.n_regs),
        "spill_bytes": REGISTER_BYTES * int(kernel.n_spills),
        "constants": constants(kernel.src),
    }


def _counted(kernel: str, programs: int) -> dict[str, Any]:
    return {"kernel": kernel, "programs": programs, "bytes_loaded": None, "bytes_stored": None, "contested": []}


def launches_for(mode: str, target: str, path: str) -> Launches:
    """The kind that a worker's mode asks for; `path` is the candidate's file."""
    if mode == "interpreter":
        return InterpretedLaunches(target, path)
    return GpuLaunches(path) if mode == "gpu" else NoLaunches()

"""Which Triton kernels a candidate launched, and the switch that silences them: in the interpreter and on a GPU.

On a GPU a launch is seen where Triton hands it to the driver, by the compiled kernel it belongs to. A CUDA graph
remembers what was launched while it was captured, and its replay counts as that.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, Protocol

from triton_agent.tools.isolate.watch import OperatorWatch


class Launches(Protocol):
    """The launches of one process."""

    def begin(self, *, silenced: bool) -> None:
        """Forget what was seen; from here on launches do nothing where `silenced`."""

    def seen(self) -> list[dict[str, Any]]:
        """Finished launches since `begin`, as plain data."""

    def faults(self) -> list[BaseException]:
        """What went wrong inside launches since `begin`, whether or not the candidate caught it."""

    def foreign_streams(self) -> list[int]:
        """Handles of CUDA streams other than the caller's that were launched on since `begin`."""


class NoLaunches:
    """Where kernels are compiled and nothing else."""

    def begin(self, *, silenced: bool) -> None:
        return

    def seen(self) -> list[dict[str, Any]]:
        return []

    def faults(self) -> list[BaseException]:
        return []

    def foreign_streams(self) -> list[int]:
        return []


class InterpretedLaunches:
    """Launches in the mended interpreter, with the bytes they moved."""

    def __init__(self, target: str, watch: OperatorWatch) -> None:
        self._interpreter = importlib.import_module("triton_agent.tools.emulate.interpreter").install(target)
        run_programs = self._interpreter._run_programs

        def watched(*args: Any, **kwargs: Any) -> Any:
            with watch.paused():  # the interpreter works with torch itself
                return run_programs(*args, **kwargs)

        self._interpreter._run_programs = watched

    def begin(self, *, silenced: bool) -> None:
        self._interpreter.launches.clear()
        self._interpreter.faults.clear()
        self._interpreter.silenced = silenced

    def seen(self) -> list[dict[str, Any]]:
        return [_plain(launch) for launch in self._interpreter.launches if dataclasses.is_dataclass(launch)]

    def faults(self) -> list[BaseException]:
        return list(self._interpreter.faults)

    def foreign_streams(self) -> list[int]:
        return []


def _plain(launch: Any) -> dict[str, Any]:
    return {
        "kernel": launch.kernel,
        "programs": launch.programs,
        "bytes_loaded": launch.bytes_loaded,
        "bytes_stored": launch.bytes_stored,
        "contested": list(launch.contested),
    }


class GpuLaunches:
    """Launches that reach the CUDA driver through Triton."""

    def __init__(self) -> None:
        self._seen: list[dict[str, Any]] = []
        self._silenced = False
        self._streams: set[int] = set()
        self._caller: int | None = None
        self._graphs: dict[int, list[dict[str, Any]]] = {}
        self._hook()
        self._hook_graphs()

    def _hook_graphs(self) -> None:
        """A replay launches again what was launched between the begin and the end of the capture."""
        graph_class = importlib.import_module("torch").cuda.CUDAGraph
        begin, end, replay = graph_class.capture_begin, graph_class.capture_end, graph_class.replay
        starts: dict[int, int] = {}

        def begun(graph: Any, *args: Any, **kwargs: Any) -> Any:
            starts[id(graph)] = len(self._seen)
            return begin(graph, *args, **kwargs)

        def ended(graph: Any) -> Any:
            self._graphs[id(graph)] = self._seen[starts.pop(id(graph), len(self._seen)) :]
            return end(graph)

        def replayed(graph: Any) -> Any:
            self._seen += self._graphs.get(id(graph), [])
            return replay(graph)

        graph_class.capture_begin, graph_class.capture_end, graph_class.replay = begun, ended, replayed

    def _hook(self) -> None:
        launcher = importlib.import_module("triton.backends.nvidia.driver").CudaLauncher
        make, launch = launcher.__init__, launcher.__call__

        def made(this: Any, source: Any, metadata: Any) -> None:
            make(this, source, metadata)
            this.kernel_name = str(getattr(metadata, "name", ""))

        def launched(this: Any, x: int, y: int, z: int, stream: int, *rest: Any) -> Any:
            if self._silenced:
                return None
            if self._caller is not None and stream != self._caller and not self._capturing():
                self._streams.add(stream)
            self._seen.append(_counted(this.kernel_name, x * y * z))
            return launch(this, x, y, z, stream, *rest)

        launcher.__init__, launcher.__call__ = made, launched

    def _capturing(self) -> bool:
        return bool(importlib.import_module("torch").cuda.is_current_stream_capturing())

    def begin(self, *, silenced: bool) -> None:
        self._seen.clear()
        self._streams.clear()
        self._silenced = silenced
        self._caller = importlib.import_module("torch").cuda.current_stream().cuda_stream

    def foreign_streams(self) -> list[int]:
        return sorted(self._streams)

    def seen(self) -> list[dict[str, Any]]:
        return list(self._seen)

    def faults(self) -> list[BaseException]:
        return []


def _counted(kernel: str, programs: int) -> dict[str, Any]:
    return {"kernel": kernel, "programs": programs, "bytes_loaded": None, "bytes_stored": None, "contested": []}


def launches_for(mode: str, target: str, watch: OperatorWatch) -> Launches:
    """The kind that a worker's mode asks for."""
    if mode == "interpreter":
        return InterpretedLaunches(target, watch)
    return GpuLaunches() if mode == "gpu" else NoLaunches()

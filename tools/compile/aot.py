"""Ahead-of-time compilation of kernels for a named GPU, without a GPU in the machine.

`install` replaces Triton's driver by one that describes the target and launches nothing. `compile_launch` then has
Triton specialise and compile a launch exactly as on that GPU, and check it against the target's limits. Registers,
spills and shared memory of each compiled kernel are read from the compiler's output.

Meant for a process that does nothing else, since the driver cannot be restored. Not covered: a time limit, which is up
to the process that starts this one, and crashes of LLVM.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from triton_agent.tools.compile.driver import TargetDriver
from triton_agent.tools.compile.failure import CompileFailure, explain
from triton_agent.tools.compile.resources import SPILL_KEY, read_ptxas_log, resources_of
from triton_agent.tools.compile.targets import parse_target
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.results import KernelResources

THREADS_LIMIT = 1024
"""Threads per program on every architecture in `targets.py`."""
STDERR = 2
STDERR_LIMIT_BYTES = 1 << 20


def warm_up(target: str = "cuda:90") -> None:
    """Do slow first-time work in the process from which others are forked."""
    from triton.compiler.compiler import make_backend
    from triton.runtime.cache import triton_key
    from triton.runtime.jit import mangle_type

    make_backend(parse_target(target).gpu_target()).hash()  # runs ptxas twice for its version: 20 ms
    triton_key()  # hashes all of Triton once per process: half a second
    mangle_type(1.0)  # imports Gluon at its first use: a quarter of a second


@dataclasses.dataclass(slots=True, kw_only=True)
class Compilation:
    """The kernels compiled since the last `install`, one per specialisation that fits the target."""

    kernels: list[KernelResources] = dataclasses.field(default_factory=list)
    constants: list[str] = dataclasses.field(default_factory=list)
    """The `tl.constexpr` arguments of each kernel in `kernels`, for example `BLOCK=128, EVEN=True`."""


class CompilingDriver(TargetDriver):
    """The driver of a process that only compiles launches; it records the compiled kernels."""

    compilation: Compilation
    builds_launchers = False

    def begin(self) -> Compilation:
        self.compilation = Compilation()
        self._recorded: set[str] = set()
        return self.compilation

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        """Return a launcher that does nothing. If requested, also build Triton's launcher for another process's use.

        Up to version 3.7, Triton compiles a launcher in C for every signature, which takes longer than the kernel.
        Newer versions have no such launcher, and neither does a machine without the GPU's library.
        """
        if self.builds_launchers:
            from triton.backends.nvidia import driver

            if hasattr(driver, "make_launcher"):
                with contextlib.suppress(Exception):
                    driver.CudaLauncher(source, metadata)
        return lambda *_: None

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[object, object, int, int, int]:
        """Return the same tuple as real drivers: module, function, registers, spilled registers, most threads."""
        return name, name, 0, 0, THREADS_LIMIT

    def load(self, original: Callable[[Any], None], kernel: Any) -> None:
        """Wrap the step in which Triton checks shared memory, tensor memory and threads, and record the kernel."""
        original(kernel)
        if kernel.hash not in self._recorded:
            self._recorded.add(kernel.hash)
            compile_ms = _compile_ms.get(kernel.hash, 0.0)
            self.compilation.kernels.append(resources_of(kernel, target=self.target.name, compile_ms=compile_ms))
            self.compilation.constants.append(constants_of(kernel.src))


_compile_ms: dict[str, float] = {}
"""Time of each kernel's first compilation in this process."""


def install(target: str) -> Compilation:
    """Make every launch from here on only compile for `target`; return a new record of the kernels."""
    from triton import knobs
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.compiler import compiler
    from triton.runtime.driver import driver

    wanted = parse_target(target)
    if knobs.runtime.interpret:
        raise InstrumentError("kernels cannot be compiled in a process whose Triton is in interpreter mode")
    present = driver._active
    if not isinstance(present, CompilingDriver):
        present = CompilingDriver(wanted)
        driver.set_active(present)
        compiler.max_shared_mem.cache_clear()  # it may hold another driver's limit
        knobs.compilation.listener = _note_time
        load = functools.partial(present.load, compiler.CompiledKernel._init_handles)
        compiler.CompiledKernel._init_handles = lambda kernel: load(kernel)
        make_cubin = CUDABackend.make_cubin
        CUDABackend.make_cubin = lambda backend, *args, **kwargs: _with_spills(make_cubin, backend, *args, **kwargs)
    if present.target != wanted:
        raise InstrumentError(f"this process already compiles for {present.target.name}, not {wanted.name}")
    return present.begin()


def build_launchers() -> None:
    """From here on, also build and cache the launchers that Triton needs in another process."""
    from triton.runtime.driver import driver

    driver._active.builds_launchers = True


def compile_launch(
    kernel: Any, arguments: Mapping[str, Any], grid: Any, options: Mapping[str, Any], *, source_path: str
) -> CompileFailure | None:
    """Compile a launch of a `kernel` defined in `source_path`; return the failure, or None.

    MLIR and LLVM report errors only on stderr, so the text is read back if file descriptor 2 is a file.
    """
    sys.stderr.flush()
    start = os.fstat(STDERR).st_size
    try:
        kernel.run(**arguments, grid=grid, warmup=False, **options)
    except Exception as error:
        stderr_text = ""
        with contextlib.suppress(OSError):  # descriptor 2 is not a readable file
            reading = os.open(f"/proc/self/fd/{STDERR}", os.O_RDONLY | os.O_NONBLOCK)
            try:
                stderr_text = os.pread(reading, STDERR_LIMIT_BYTES, start).decode(errors="replace")
            finally:
                os.close(reading)
        return explain(error, kernel.__name__, source_path, stderr_text)
    return None


def constants_of(source: Any) -> str:
    """Return the `tl.constexpr` arguments that a kernel was specialised for, as text."""
    values = {path[0]: value for path, value in source.constants.items()}
    declared = [parameter for parameter in source.fn.params if parameter.is_constexpr]
    return ", ".join(f"{parameter.name}={values.get(parameter.num)}" for parameter in declared)


def _note_time(*, metadata: dict[str, Any], times: Any, **_: Any) -> None:
    """Record a compilation's time. Triton calls this after each compilation, with times in microseconds."""
    _compile_ms.setdefault(metadata["hash"], times.total / 1000)


def _with_spills(make_cubin: Callable[..., Any], backend: Any, source: str, metadata: Any, *rest: Any) -> Any:
    """Compile, and store the number of spilled bytes, which only the log of `ptxas` contains."""
    from triton import knobs

    with contextlib.redirect_stdout(io.StringIO()) as log, knobs.nvidia.scope():
        knobs.nvidia.dump_ptxas_log = True
        cubin = make_cubin(backend, source, metadata, *rest)
    metadata[SPILL_KEY] = read_ptxas_log(log.getvalue())
    return cubin

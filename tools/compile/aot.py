"""Ahead-of-time compilation of kernels for a named GPU, with no GPU in the machine.

`install` puts in place of Triton's driver one that describes the target and launches nothing. `compile_launch` then has
Triton specialise and compile a launch exactly as on that GPU, and hold it against the target's limits by Triton's own
checks. The registers, spills and shared memory of each compiled kernel are read from the compiler's product.

Meant for a process that does nothing else: there is no way back. Not covered: a time limit, which is for whoever starts
the process, and an LLVM that ends the process.
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
"""Threads per program on every architecture there is a target for."""
STDERR = 2
STDERR_LIMIT_BYTES = 1 << 20


def warm_up(target: str = "cuda:90") -> None:
    """Pay, in a process that others are forked from, for what each first compilation would pay again."""
    from triton.compiler.compiler import make_backend
    from triton.runtime.cache import triton_key
    from triton.runtime.jit import mangle_type

    make_backend(parse_target(target).gpu_target()).hash()  # asks ptxas twice for its version: 20 ms
    triton_key()  # a hash over the whole of Triton, kept per process: half a second
    mangle_type(1.0)  # imports Gluon at its first use: a quarter of a second


@dataclasses.dataclass(slots=True, kw_only=True)
class Compilation:
    """The kernels compiled since the last `install`, one per specialisation that fits the target."""

    kernels: list[KernelResources] = dataclasses.field(default_factory=list)
    constants: list[str] = dataclasses.field(default_factory=list)
    """The `tl.constexpr` arguments of each kernel in `kernels`, as in `BLOCK=128, EVEN=True`."""


class CompilingDriver(TargetDriver):
    """The driver while launches are compiled only; it keeps the record of what was compiled."""

    compilation: Compilation
    builds_launchers = False

    def begin(self) -> Compilation:
        self.compilation = Compilation()
        self._recorded: set[str] = set()
        return self.compilation

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        """Return a launcher that does nothing; build Triton's own, too, if another process is to find it in the cache.

        Until version 3.7, Triton has a C compiler make a launcher for every signature, which takes longer than the
        kernel. Newer versions have nothing to make, nor has a machine without the GPU's library.
        """
        if self.builds_launchers:
            from triton.backends.nvidia import driver

            if hasattr(driver, "make_launcher"):
                with contextlib.suppress(Exception):
                    driver.CudaLauncher(source, metadata)
        return lambda *_: None

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[object, object, int, int, int]:
        """Return what the real drivers do: module, function, registers, spilled registers, most threads."""
        return name, name, 0, 0, THREADS_LIMIT

    def load(self, original: Callable[[Any], None], kernel: Any) -> None:
        """Stand around the step where Triton checks shared memory, tensor memory and threads, and record the kernel."""
        original(kernel)
        if kernel.hash not in self._recorded:
            self._recorded.add(kernel.hash)
            compile_ms = _compile_ms.get(kernel.hash, 0.0)
            self.compilation.kernels.append(resources_of(kernel, target=self.target.name, compile_ms=compile_ms))
            self.compilation.constants.append(constants_of(kernel.src))


_compile_ms: dict[str, float] = {}
"""Time of each kernel's first compilation in this process."""


def install(target: str) -> Compilation:
    """Make every launch from here on compile for `target` and do nothing else; return a fresh record of the kernels."""
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
        compiler.max_shared_mem.cache_clear()  # it may hold the limit of another driver
        knobs.compilation.listener = _note_time
        load = functools.partial(present.load, compiler.CompiledKernel._init_handles)
        compiler.CompiledKernel._init_handles = lambda kernel: load(kernel)
        make_cubin = CUDABackend.make_cubin
        CUDABackend.make_cubin = lambda backend, *args, **kwargs: _with_spills(make_cubin, backend, *args, **kwargs)
    if present.target != wanted:
        raise InstrumentError(f"this process already compiles for {present.target.name}, not {wanted.name}")
    return present.begin()


def build_launchers() -> None:
    """From here on also make and cache what Triton needs beside a kernel to launch it, for use by another process."""
    from triton.runtime.driver import driver

    driver._active.builds_launchers = True


def compile_launch(
    kernel: Any, arguments: Mapping[str, Any], grid: Any, options: Mapping[str, Any], *, source_path: str
) -> CompileFailure | None:
    """Compile a launch of `kernel`, which stands in the file at `source_path`; return what failed, or None.

    MLIR and LLVM report errors on file descriptor 2 only. If that is a file, the text is read back from it.
    """
    sys.stderr.flush()
    start = os.fstat(STDERR).st_size
    try:
        kernel.run(**arguments, grid=grid, warmup=False, **options)
    except Exception as error:
        stderr_text = ""
        with contextlib.suppress(OSError):  # not a file, or one that cannot be read
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
    """Triton's listener, called after each compilation with its times in microseconds."""
    _compile_ms.setdefault(metadata["hash"], times.total / 1000)


def _with_spills(make_cubin: Callable[..., Any], backend: Any, source: str, metadata: Any, *rest: Any) -> Any:
    """Keep the number of spilled bytes, which only the log of `ptxas` tells; have Triton print that log."""
    from triton import knobs

    with contextlib.redirect_stdout(io.StringIO()) as log, knobs.nvidia.scope():
        knobs.nvidia.dump_ptxas_log = True
        cubin = make_cubin(backend, source, metadata, *rest)
    metadata[SPILL_KEY] = read_ptxas_log(log.getvalue())
    return cubin

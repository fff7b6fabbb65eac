"""Ahead-of-time compilation of a candidate's kernels for a named GPU, with no GPU in the machine.

The candidate's own host code runs on CPU tensors. In place of Triton's driver stands one that describes the target and
launches nothing, so every `kernel[grid](...)` is specialised and compiled by Triton exactly as on that GPU, is held
against the target's limits by Triton's own checks, and then returns. What it needs is read off the product.

Meant for a process that is used once: there is no way back. Since nothing is computed, host code that looks at results
(`.item()`, a data-dependent grid or block size) sees uninitialised memory; an exception of its own says little, and a
block size derived from such a value can fail to compile. Not covered: Triton's asynchronous compilation, where a
failure comes without what the compiler wrote to stderr, and a time limit: who starts the process keeps the clock.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triton_agent.tools.emulate.compile_failure import CompileFailure, explain
from triton_agent.tools.emulate.compile_trace import Compilation, TracedLaunch, Tracer
from triton_agent.tools.emulate.diagnostics import condense_mlir
from triton_agent.tools.emulate.stand_in_driver import StandInDriver, call_once
from triton_agent.tools.emulate.targets import TARGETS, parse_target
from triton_agent.tools.errors import InstrumentError

__all__ = [
    "TARGETS",
    "Compilation",
    "CompileFailure",
    "TracedLaunch",
    "build_launchers",
    "condense_mlir",
    "explain",
    "install",
    "parse_target",
    "trace",
    "warm_up",
]

CONFIGS_AT_MOST = 4
"""Autotuner configurations compiled per tuning: enough to see a trend, few enough for one stage of a pipeline."""


def warm_up(target: str = "cuda:90") -> None:
    """Pay, in a process that others are forked from, for what each first compilation would pay again."""
    from triton.compiler.compiler import make_backend
    from triton.runtime.cache import triton_key

    make_backend(parse_target(target).gpu_target()).hash()  # asks ptxas twice for its version: 20 ms
    triton_key()  # a hash over the whole of Triton, kept per process: half a second


def trace(
    run: Callable[[], object], target: str, *, source_path: str | Path, configs_at_most: int = CONFIGS_AT_MOST
) -> Compilation:
    """Compile whatever `run` launches. Raises `CompileFailure` for a kernel that does not compile.

    An exception of the host code passes through, unless a kernel was compiled before it: then the host code may have
    stumbled over results that were never computed, and the exception is kept as text.
    """
    compilation = install(target, configs_at_most=configs_at_most)
    try:
        run()
    except Exception as error:
        failure = explain(error, source_path)
        if failure is not None:
            raise failure from error
        if not compilation.kernels:
            raise
        compilation.interrupted = f"{type(error).__name__}: {error}"
    return compilation


def install(target: str, *, configs_at_most: int = CONFIGS_AT_MOST) -> Compilation:
    """Make every launch from here on compile for `target` and do nothing else.

    Installed again for the same target, a fresh `Compilation` is filled from there on.
    """
    from triton import knobs
    from triton.runtime.driver import driver

    wanted = parse_target(target)
    if knobs.runtime.interpret:
        raise InstrumentError("kernels cannot be compiled in a process whose Triton is in interpreter mode")
    present = driver._active
    if not isinstance(present, StandInDriver):
        present = StandInDriver(Tracer(wanted))
        driver.set_active(present)
        _take_over(present.tracer)
    if present.tracer.target != wanted:
        raise InstrumentError(f"this process already compiles for {present.tracer.target.name}, not {wanted.name}")
    return present.tracer.begin(configs_at_most=configs_at_most)


def build_launchers() -> None:
    """From here on what Triton needs beside a kernel to launch it is made and kept, too: for another process's use."""
    from triton.runtime.driver import driver

    driver._active.builds_launchers = True


def _take_over(tracer: Tracer) -> None:
    from triton import knobs
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.compiler import compiler
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    compiler.max_shared_mem.cache_clear()  # the limit of another driver would be remembered
    knobs.compilation.listener = tracer.compiled
    _wrap(CUDABackend, "make_cubin", tracer.make_cubin)
    _wrap(compiler.CompiledKernel, "_init_handles", tracer.load)
    _wrap(JITFunction, "_pack_args", tracer.choose_options)
    _wrap(JITFunction, "_do_compile", tracer.compile)
    _wrap(JITFunction, "run", tracer.run)
    _wrap(Autotuner, "prune_configs", tracer.begin_tuning)
    _wrap(Autotuner, "_bench", tracer.try_config)
    _wrap(Autotuner, "check_disk_cache", tracer.skip_timings_cache)
    Autotuner.do_bench = property(lambda _: call_once)


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a method by `around(original bound method, object, arguments...)`."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return around(functools.partial(original, self), self, *args, **kwargs)

    setattr(owner, name, method)

"""Compiles the reference with torch.compile, as an additional baseline.

The baseline `compile` uses torch.compile's defaults, the others its modes. They are compiled once per problem, in a
separate process. The compiler's output is cached in the user's cache folder. A baseline that fails to compile, or
computes something else than the reference, is omitted with a note; that does not affect any candidate's verdict.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs
import torch

from triton_agent.tools.graph.graph import OperatorGraph
from triton_agent.tools.processes.tensors import nested_tensors
from triton_agent.tools.race.baseline_names import COMPILED

FAR_OFF = 0.05
"""Relative difference (in norm) above which a compiled module counts as computing something else. It is generous,
because compilers reorder sums and may multiply in another precision."""

TF32_DTYPES = frozenset({"float32", "complex64"})
"""Dtypes whose products may run in TF32."""

AUTOTUNE_IN_SUBPROCESS = "TORCHINDUCTOR_AUTOTUNE_IN_SUBPROC"
"""Environment variable that lets torch's compiler autotune in a subprocess. It is turned off, since stopping the
compiling process would not stop that subprocess, which uses the GPU."""

Call = Callable[[Any, list[Any]], Any]
OffGpu = Callable[..., contextlib.AbstractContextManager[None]]


def import_compiler(threads: int = 1) -> None:
    """Import torch's compiler, with `threads` workers. Takes seconds unless it was imported before the fork."""
    keep_what_is_compiled()
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(threads)
    os.environ[AUTOTUNE_IN_SUBPROCESS] = "0"
    for name in ("torch._dynamo", "torch._inductor.compile_fx"):
        importlib.import_module(name)
    config: Any = importlib.import_module("torch._inductor.config")
    config.compile_threads, config.autotune_in_subproc = threads, False  # it reads the variables only on import


def keep_what_is_compiled() -> None:
    """Set torch's compiler cache to a folder in the user's cache."""
    folder = Path(platformdirs.user_cache_dir("triton-agent")) / "inductor"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return  # the compiler then uses its default folder
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)


def compiled(
    name: str, original: torch.nn.Module, args: list[Any], call: Call, off_gpu: OffGpu | None = None
) -> tuple[Any, str]:
    """Return the compiled reference, or None and the reason why there is none. `call(model, args)` runs a module.

    `off_gpu()` is entered while the compiler works on the processor, and `off_gpu(off=False)` while it measures.
    """
    mode = COMPILED[name]
    try:
        expected = [tensor.clone() for tensor in nested_tensors(call(original, args))]
        if mode is None and off_gpu is not None:
            module = torch.compile(original, backend=_telling_backend(off_gpu))
        else:
            module = torch.compile(original, mode=mode)
        call(module, args)
        # Modes that record a CUDA graph do so in the second call.
        got = [tensor.clone() for tensor in nested_tensors(call(module, args))]
    except Exception as error:
        first = (str(error).strip().splitlines() or ["(no message)"])[0]
        return None, f"baseline {name} was not measured: {type(error).__name__}: {first[:200]}"
    if len(expected) != len(got) or not all(map(_near, expected, got)):
        return None, f"baseline {name} was not measured: it computes something else than the reference"
    return module, ""


def _telling_backend(off_gpu: OffGpu) -> Callable[..., Any]:
    """Return torch's default compiler, which tells when it does not use the GPU."""
    inductor = importlib.import_module("torch._inductor.compile_fx")
    benchmarker = importlib.import_module("torch._inductor.runtime.benchmarking").benchmarker
    measure = benchmarker.benchmark_gpu

    def measured(*args: Any, **kwargs: Any) -> Any:
        with off_gpu(off=False):
            return measure(*args, **kwargs)

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        benchmarker.benchmark_gpu = measured
        try:
            with off_gpu():
                return inductor.compile_fx(graph, inputs)
        finally:
            benchmarker.benchmark_gpu = measure

    return backend


def _near(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not (one.is_floating_point() or one.is_complex()):
        return True  # a rounding difference before a comparison may change integers and booleans
    difference = (one - other).abs().double().nan_to_num(0.0, 0.0, 0.0).norm()
    return bool(difference <= FAR_OFF * one.abs().double().nan_to_num(0.0, 0.0, 0.0).norm() + 1e-12)


def tf32_may_matter(facts: Mapping[str, Any]) -> bool:
    """Return True if the reference's graphs multiply float32 matrices. Convolutions use TF32 by default anyway."""
    graphs = [OperatorGraph.from_json(graph) for graph in (*facts["graphs"], *facts["train_graphs"])]
    if not graphs or any(graph.data_dependent for graph in graphs):
        return True
    return any(
        node.kind == "heavy" and {values[name].dtype for name in node.references()} & TF32_DTYPES
        for graph in graphs
        for values in [graph.values()]
        for node in graph.nodes
    )

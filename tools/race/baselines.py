"""Baselines beside the reference as it is: the reference compiled by torch.

`compile` is `torch.compile` at its defaults, the others its modes. Compiled once per problem in a process of its own;
what the compiler produced is kept in the user's cache folder for the next time. One that does not compile, or computes
something else than the reference, is left out, and a note says so: it says nothing about any candidate.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import platformdirs
import torch

from triton_agent.tools.graph.graph import OperatorGraph
from triton_agent.tools.processes.tensors import nested_tensors
from triton_agent.tools.race.baseline_names import COMPILED

FAR_OFF = 0.05
"""Relative difference from the reference beyond which a compiled module computes something else; compilers reorder
sums, and may multiply in another precision."""

WIDE = frozenset({"float32", "complex64"})
"""Dtypes whose products may run in TF32."""

IN_A_PROCESS_OF_ITS_OWN = "TORCHINDUCTOR_AUTOTUNE_IN_SUBPROC"
"""Variable that lets torch's compiler tune in another process; that one would not be stopped with the compiling one."""

Call = Callable[[Any, list[Any]], Any]


def import_compiler(threads: int = 1) -> None:
    """Torch's compiler, with so many helpers of its own; that takes seconds, if this process has not inherited it."""
    keep_what_is_compiled()
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(threads)
    os.environ[IN_A_PROCESS_OF_ITS_OWN] = "0"
    for name in ("torch._dynamo", "torch._inductor.compile_fx"):
        importlib.import_module(name)
    config: Any = importlib.import_module("torch._inductor.config")
    config.compile_threads, config.autotune_in_subproc = threads, False  # it reads the environment when it is imported


def keep_what_is_compiled() -> None:
    """Point torch's compiler to the user's own cache."""
    folder = Path(platformdirs.user_cache_dir("triton-agent")) / "inductor"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return  # then for this evaluator only
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)


def compiled(name: str, original: torch.nn.Module, args: list[Any], call: Call) -> tuple[Any, str]:
    """Return the reference compiled, or None and why there is none. `call(model, args)` runs a module."""
    try:
        expected = [tensor.clone() for tensor in nested_tensors(call(original, args))]
        module = torch.compile(original, mode=COMPILED[name])
        call(module, args)
        # Modes that record a CUDA graph do so in the second call.
        got = [tensor.clone() for tensor in nested_tensors(call(module, args))]
    except Exception as error:
        first = (str(error).strip().splitlines() or ["(no message)"])[0]
        return None, f"baseline {name} was not measured: {type(error).__name__}: {first[:200]}"
    if len(expected) != len(got) or not all(map(_near, expected, got)):
        return None, f"baseline {name} was not measured: it computes something else than the reference"
    return module, ""


def _near(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not (one.is_floating_point() or one.is_complex()):
        return True  # what flips there may flip by a rounding
    difference = (one - other).abs().double().nan_to_num(0.0, 0.0, 0.0).norm()
    return bool(difference <= FAR_OFF * one.abs().double().nan_to_num(0.0, 0.0, 0.0).norm() + 1e-12)


def tf32_may_matter(facts: Mapping[str, Any]) -> bool:
    """Return True if the reference may multiply float32 matrices, by its graphs; convolutions use TF32 anyway."""
    graphs = [OperatorGraph.from_json(graph) for graph in (*facts["graphs"], *facts["train_graphs"])]
    if not graphs or any(graph.data_dependent for graph in graphs):
        return True
    return any(
        node.kind == "heavy" and {values[name].dtype for name in node.references()} & WIDE
        for graph in graphs
        for values in [graph.values()]
        for node in graph.nodes
    )

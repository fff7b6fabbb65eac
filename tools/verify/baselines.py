"""What a candidate is measured against beside the original as it is: the same, by torch's own compiler.

`compile` is `torch.compile` at its defaults, the others its modes. Compiled once per problem in the checker's process;
what the compiler produced is kept in the user's cache folder for the next time. One that does not compile, or computes
something else than the original, is left out, and a note says so: it says nothing about any candidate.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import platformdirs
import torch

from triton_agent.tools.graph import OperatorGraph
from triton_agent.tools.isolate.tensors import nested_tensors
from triton_agent.tools.timing.opponents import COMPILED

FAR_OFF = 0.05
"""Relative difference from the original beyond which a compiled module computes something else; compilers reorder sums,
and may multiply in another precision."""

WIDE = frozenset({"float32", "complex64"})
"""What TF32 stands in for."""


def keep_what_is_compiled() -> None:
    """Point torch's compiler to the user's own cache; before it is imported."""
    folder = Path(platformdirs.user_cache_dir("triton-agent")) / "inductor"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return  # then for this evaluator only
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)


def compiled(name: str, original: torch.nn.Module, args: list[Any], call: Callable[..., Any]) -> tuple[Any, str]:
    """The original compiled and proven on one set of inputs, or None and why not. `call(model, args)` runs a module."""
    try:
        expected = [tensor.clone() for tensor in nested_tensors(call(original, args))]
        module = torch.compile(original, mode=COMPILED[name])
        for _ in range(2):  # a recorded graph is replayed from the second call on
            got = [tensor.clone() for tensor in nested_tensors(call(module, args))]
    except Exception as error:
        first = (str(error).strip().splitlines() or ["(no message)"])[0]
        return None, f"baseline {name} was not measured: {type(error).__name__}: {first[:200]}"
    if len(expected) != len(got) or not all(map(_near, expected, got)):
        return None, f"baseline {name} was not measured: it computes something else than the original"
    return module, ""


def _near(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not (one.is_floating_point() or one.is_complex()):
        return True  # what flips there may flip by a rounding
    difference = (one - other).abs().double().nan_to_num(0.0, 0.0, 0.0).norm()
    return bool(difference <= FAR_OFF * one.abs().double().nan_to_num(0.0, 0.0, 0.0).norm() + 1e-12)


def tf32_may_matter(facts: Mapping[str, Any]) -> bool:
    """Whether the original multiplies matrices in float32, as far as its graphs tell; convolutions use TF32 anyway."""
    graphs = [OperatorGraph.from_json(graph) for graph in (*facts["graphs"], *facts["train_graphs"])]
    if not graphs or any(graph.data_dependent for graph in graphs):
        return True
    return any(
        node.kind == "heavy" and {values[name].dtype for name in node.references()} & WIDE
        for graph in graphs
        for values in [graph.values()]
        for node in graph.nodes
    )

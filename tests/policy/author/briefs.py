"""Briefs made here, in the test's process: the originals of these tests are the project's own and may run in it."""

from __future__ import annotations

import contextlib
import dataclasses
import textwrap
from pathlib import Path

from triton_agent.policy.author.brief import Brief
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.graph import extract
from triton_agent.tools.graph_call import structure_of
from triton_agent.tools.module_attributes import numbers_of, tensors_of
from triton_agent.tools.problem import ProblemSpec, parse_problem
from triton_agent.tools.verify.reference import load
from triton_agent.tools.verify.variants import INTERPRETER, Variant, family, scaled_down

_HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
"""


def problem(folder: Path, text: str) -> ProblemSpec:
    """A problem file with this text, after the usual imports."""
    path = folder / "problem.py"
    path.write_text(_HEAD + textwrap.dedent(text))
    return parse_problem(str(path))


class _Call:
    """What one variant's call tells."""

    def __init__(self, spec: ProblemSpec, variant: Variant) -> None:
        reference = load(spec, variant.constants, batch=variant.batch)
        model, inputs = reference.make_model(0), reference.make_inputs(0)
        self.structure = structure_of(inputs)
        self.numbers, self.tensors = numbers_of(model), tensors_of(model)
        with reference.running("forward"):
            self.graph = extract(model.eval(), inputs)
            self.train_graph = extract(model.train(), inputs)
        reference.close()


def brief_of(spec: ProblemSpec, *, allow_library: bool = False) -> Brief:
    """What the evaluator would tell of the problem: its graphs over the shape family, in both modes."""
    scaled = scaled_down(spec, 1, limits=INTERPRETER)
    assert scaled is not None
    variants = family(spec, 1, limits=INTERPRETER, base=scaled.variant)
    calls = [_Call(spec, variant) for variant in variants]
    # A batch of two or three tells dimensions apart that a batch of one, run by other operators, cannot.
    for batch in (2, 3):
        with contextlib.suppress(ProblemError):
            calls.append(_Call(spec, dataclasses.replace(variants[0], batch=batch)))
    graphs, train_graphs = [call.graph for call in calls], [call.train_graph for call in calls]
    alike = all(a.fingerprint() == b.fingerprint() for a, b in zip(graphs, train_graphs))
    return Brief(
        source=Path(spec.path).read_text(),
        class_name=spec.class_name or "Model",
        graphs=tuple(graphs),
        numbers=tuple(call.numbers for call in calls),
        tensors=calls[0].tensors,
        train_graphs=() if alike else tuple(train_graphs),
        allow_library=allow_library,
        device="cpu",
        input_structure=calls[0].structure,
    )

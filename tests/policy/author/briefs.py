"""Briefs of problems: those that an evaluator gives, and those made in the test's process without one.

A test that judges what it writes takes the evaluator's. The references may run in the test's process because the
project wrote them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path

from torch._subclasses.fake_tensor import FakeTensorMode

from triton_agent.memory.observation import ProblemView, Rules
from triton_agent.policy.author.brief import Brief, Hardware
from triton_agent.policy.builtin import brief_for
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.graph.call import structure_of
from triton_agent.tools.graph.fingerprint import fingerprint
from triton_agent.tools.graph.module_attributes import numbers_given, numbers_of, tensors_of
from triton_agent.tools.graph.recorder import extract
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.reference.footprint import INTERPRETER, fake_model
from triton_agent.tools.reference.reference import load
from triton_agent.tools.reference.scaling import scaled_down
from triton_agent.tools.reference.sizes import AS_GIVEN, Variant, free_sizes
from triton_agent.tools.reference.variants import family, odd_above

_HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
"""

_BRIEFS: dict[tuple[str, bool], Brief] = {}
"""Briefs by the digest of the problem and `allow_library`: each takes seconds, and several tests ask for the same."""


def problem(folder: Path, text: str) -> ProblemSpec:
    """Write a problem file with this text after the usual imports, and parse it."""
    path = folder / "problem.py"
    path.write_text(_HEAD + textwrap.dedent(text))
    return parse_problem(str(path))


class _Call:
    """Graphs and inputs of one call of the reference; with `fake` nothing is computed, so any size is possible."""

    def __init__(self, spec: ProblemSpec, variant: Variant, *, fake: bool = False) -> None:
        reference = load(spec, variant.constants, batch=variant.batch)
        mode = FakeTensorMode(allow_non_fake_inputs=True) if fake else None
        with mode or contextlib.nullcontext():
            inputs = reference.make_inputs(0)
        model = fake_model(lambda: reference.make_model(0), mode) if mode else reference.make_model(0)
        self.structure = structure_of(inputs)
        self.numbers, self.tensors = numbers_of(model) | numbers_given(inputs), tensors_of(model)
        with reference.running("forward"), mode or contextlib.nullcontext():
            self.graph = extract(model.eval(), inputs)
            self.train_graph = extract(model.train(), inputs)
        reference.close()


def brief_from(evaluator: Evaluator) -> Brief:
    """Return the brief that the built-in policy gets from this evaluator."""
    rules = Rules(allow_library=evaluator.settings.allow_library)
    brief = brief_for(ProblemView.of(evaluator.spec, evaluator.facts), rules)
    assert brief is not None
    return brief


def brief_of(spec: ProblemSpec, *, allow_library: bool = False) -> Brief:
    """Return the brief that the evaluator would give: the graphs at all sizes of the shape family, in both modes."""
    key = (spec.digest, allow_library)
    if key not in _BRIEFS:
        _BRIEFS[key] = _brief_of(spec, allow_library)
    return _BRIEFS[key]


def _brief_of(spec: ProblemSpec, allow_library: bool) -> Brief:
    scaled = scaled_down(spec, 1, limits=INTERPRETER)
    assert scaled is not None
    variants = family(spec, 1, limits=INTERPRETER, base=scaled.variant)
    calls = [_Call(spec, variant) for variant in variants]
    # With a batch of one, torch runs other operators. Batches of two and three tell the dimensions apart.
    for batch in (2, 3):
        with contextlib.suppress(ProblemError):
            calls.append(_Call(spec, dataclasses.replace(variants[0], batch=batch)))
    # The smallest sizes come last, and their batch is often one.
    with contextlib.suppress(ProblemError):
        calls.append(_Call(spec, dataclasses.replace(variants[-1], batch=2)))
    if scaled.variant != AS_GIVEN:
        calls.append(_Call(spec, AS_GIVEN, fake=True))
    return _brief(spec, calls, device="cpu", allow_library=allow_library)


def full_size_brief(spec: ProblemSpec, *, grown: bool = False) -> Brief:
    """Return the brief that an evaluator on a GPU would give: the given sizes and sizes near them.

    With `grown`, also each size four times as large, about as large as files are judged at.
    """
    sizes = free_sizes(spec, problem_source.read(Path(spec.path)).tree)
    near = [Variant(name=key, constants={key: odd_above(value)}) for key, value in sizes.items()]
    near += [Variant(name=f"{key} grown", constants={key: 4 * value + 1}) for key, value in sizes.items() if grown]
    with _quiet():
        calls = [_Call(spec, AS_GIVEN, fake=True)]
        for variant in (*near, *(dataclasses.replace(AS_GIVEN, batch=batch) for batch in (2, 3))):
            with contextlib.suppress(ProblemError):
                calls.append(_Call(spec, variant, fake=True))
    return _brief(spec, calls, device="cuda", allow_library=True)


def on_target(brief: Brief, target: str) -> Brief:
    """Return the brief for another compilation target, such as `cuda:90`."""
    return dataclasses.replace(brief, target=target, hardware=Hardware.of(target))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings of fake tensors about sizes that do not fit and addresses that are compared."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.disabled = before


def _brief(spec: ProblemSpec, calls: list[_Call], *, device: str, allow_library: bool) -> Brief:
    graphs, train_graphs = [call.graph for call in calls], [call.train_graph for call in calls]
    alike = all(fingerprint(a) == fingerprint(b) for a, b in zip(graphs, train_graphs))
    return Brief(
        source=Path(spec.path).read_text(),
        class_name=spec.class_name or "Model",
        graphs=tuple(graphs),
        numbers=tuple(call.numbers for call in calls),
        tensors=calls[0].tensors,
        train_graphs=() if alike else tuple(train_graphs),
        allow_library=allow_library,
        device=device,
        input_structure=calls[0].structure,
    )

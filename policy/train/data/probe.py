"""Probes a composed problem: runs it in this process on small inputs, and refuses problems not worth solving.

Refused are problems that fail to run, whose values leave a sane range, whose output is nearly constant, consists of
rounding errors, or does not depend on an input, a parameter or a step. Also refused are problems that zeros, ones, a
mean, a copy of an input or the answer to other inputs would pass. A change counts if it is far above the rounding of
the problem's dtype.

Only text that `blueprint.py` wrote is run here. Not covered: mistakes inside a step; `check-problem` tries those.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from triton_agent.policy.train.data.blueprint import Blueprint
from triton_agent.tools.graph.fingerprint import fingerprint
from triton_agent.tools.graph.graph import OperatorGraph
from triton_agent.tools.graph.recorder import extract

LARGEST = {"float32": 1e4, "bfloat16": 1e4, "float16": 1e3}
"""Largest magnitude of any value. The evaluator also tries inputs several times as large."""
TELLING = 0.02
"""Smallest change that counts, as a share of the output's spread."""
ROUNDINGS = 2
"""Smallest change that counts, in roundings of the largest output."""
DROWNED = 0.25
"""Refuse an output whose rounding exceeds this share of its spread."""
LEAST_CHANGED = 0.1
"""Share of the output that a change must affect."""
MOST_ALIKE = 0.75
"""Largest share of the output that may have the same value."""
MOST_BYTES = 1 << 30
"""Most bytes of inputs and outputs at the given sizes."""
_UNTOLD = frozenset({"view", "metadata", "allocation"})


class Refused(Exception):
    """Raised if the problem is not worth solving. Its message is a reason, which is counted."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Facts about a sound problem."""

    fingerprint: str
    operators: Mapping[str, int]
    """Operators of its graph that compute or move data, with their numbers of calls."""
    kinds: Mapping[str, int]
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the inputs at the given sizes."""
    output_shapes: tuple[tuple[int, ...], ...]
    parameters: int


def probe(blueprint: Blueprint) -> Probed:
    """Return facts about a sound problem; raise Refused if the problem is not sound."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        try:
            model, inputs = _made(blueprint.text(small=True))
            low = nested(model(*inputs))
            graph = extract(model, inputs)
            shapes, output_shapes, parameters = _at_given_sizes(blueprint)
        except (RuntimeError, ValueError, IndexError, NotImplementedError):
            raise Refused("does not run") from None
        if not all(bool(tensor.isfinite().all()) for tensor in low):
            raise Refused("values are not finite")
        _require_sound(blueprint, model)
    return Probed(
        fingerprint=fingerprint(graph),
        operators=_operators(graph),
        kinds=dict(sorted(Counter(node.kind for node in graph.nodes if node.kind not in _UNTOLD).items())),
        shapes=shapes,
        output_shapes=output_shapes,
        parameters=parameters,
    )


def nested(outputs: Any) -> list[torch.Tensor]:
    return [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)


def _made(text: str) -> tuple[nn.Module, list[torch.Tensor]]:
    namespace: dict[str, Any] = {}
    exec(compile(text, "<composed problem>", "exec"), namespace)
    model: nn.Module = namespace["Model"](*namespace["get_init_inputs"]()).eval()
    return model, namespace["get_inputs"]()


def _at_given_sizes(blueprint: Blueprint) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...], int]:
    """Run the final file on the meta device; return the shapes of inputs and outputs, and the number of parameters."""
    with torch.device("meta"):
        model, inputs = _made(blueprint.text())
        outputs = nested(model(*inputs))
    if sum(tensor.nbytes for tensor in (*inputs, *outputs)) > MOST_BYTES:
        raise Refused("too large")
    shapes = [tuple(tuple(tensor.shape) for tensor in tensors) for tensors in (inputs, outputs)]
    return shapes[0], shapes[1], sum(parameter.numel() for parameter in model.parameters())


def _operators(graph: OperatorGraph) -> dict[str, int]:
    told = (node.operator.removeprefix("aten.") for node in graph.nodes if node.kind not in _UNTOLD)
    return dict(sorted(Counter(told).items()))


# -- soundness ---------------------------------------------------------------------------------------------------------


def _require_sound(blueprint: Blueprint, model: nn.Module) -> None:
    """Compare the problem's float32 outputs with the outputs after a change of each part."""
    model = model.float()
    for parameter in model.parameters():  # otherwise weights of norms are all one and have no effect
        parameter.add_(0.3 * torch.randn_like(parameter))
    codes = [compile(step.code, "<step>", "exec") for step in blueprint.steps]
    given, others = (_inputs(blueprint), _inputs(blueprint))
    values = _run(blueprint, codes, model, given)
    right = [values[name] for name in blueprint.outputs]
    limit = LARGEST[blueprint.dtype]
    for step in blueprint.steps:
        value = values[step.target]
        if not bool(value.isfinite().all()) or float(value.abs().max()) > limit:
            raise Refused("values explode")
    if blueprint.outputs[0] == blueprint.outputs[-1] and len(blueprint.outputs) > 1:
        raise Refused("an output is given twice")
    units = [_unit(tensor, blueprint.dtype) for tensor in right]
    wide = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in given.items()}
    exact = _run(blueprint, codes, copy.deepcopy(model).double(), wide)
    if _differs(right, [exact[name].float() for name in blueprint.outputs], units):
        raise Refused("the output is rounding")
    for name in given:
        changed = _run(blueprint, codes, model, {**given, name: others[name]})
        if not _differs(right, [changed[output] for output in blueprint.outputs], units):
            raise Refused("an input does not matter")
    for parameter in model.parameters():
        kept = parameter.clone()
        parameter.add_(torch.randn_like(parameter))
        changed = _run(blueprint, codes, model, given)
        parameter.copy_(kept)
        if not _differs(right, [changed[output] for output in blueprint.outputs], units):
            raise Refused("a parameter does not matter")
    for place, step in enumerate(blueprint.steps):
        if step.bypass:
            changed = _run(blueprint, codes, model, given, left_out=place)
            if not _differs(right, [changed[output] for output in blueprint.outputs], units):
                raise Refused("a step does not matter")
    elsewhere = _run(blueprint, codes, model, others)
    for fake in _fakes(right, [elsewhere[name] for name in blueprint.outputs], list(given.values())):
        if not _differs(right, fake, units, each=True):
            raise Refused("a wrong answer passes")


def _inputs(blueprint: Blueprint) -> dict[str, torch.Tensor]:
    sizes: dict[str, Any] = {"torch": torch, **blueprint.numbers(small=True)}
    made = {item.name: eval(item.text, sizes) for item in blueprint.inputs}
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in made.items()}


def _run(
    blueprint: Blueprint, codes: Sequence[Any], model: nn.Module, inputs: Mapping[str, torch.Tensor], left_out: int = -1
) -> dict[str, Any]:
    """Run `forward` step by step. A step that is left out is replaced by its bypass."""
    names: dict[str, Any] = {"self": model, "torch": torch, "nn": nn, "F": functional, **inputs}
    for place, (step, code) in enumerate(zip(blueprint.steps, codes)):
        if place == left_out:
            names[step.target] = names[step.bypass]
        else:
            exec(code, names)
    return names


def _unit(right: torch.Tensor, dtype: str) -> float:
    """Return the smallest change of an output that counts; raise Refused if its values are too much alike."""
    rounding = ROUNDINGS * torch.finfo(getattr(torch, dtype)).eps * float(right.abs().max())
    if right.numel() == 1:
        return max(TELLING * float(right.abs()), rounding)
    spread = float(right.std())
    if rounding > DROWNED * spread:
        raise Refused("the output is nearly constant")
    counts = torch.unique(right, return_counts=True)[1]
    if int(counts.max()) > MOST_ALIKE * right.numel():
        raise Refused("most of the output has one value")
    return max(TELLING * spread, rounding)


def _differs(
    right: Sequence[torch.Tensor], other: Sequence[torch.Tensor], units: Sequence[float], *, each: bool = False
) -> bool:
    """Return True if enough of some output differs; with `each`, of every output."""
    found = [float(((a - b).abs() > unit).float().mean()) >= LEAST_CHANGED for a, b, unit in zip(right, other, units)]
    return all(found) if each else any(found)


def _fakes(
    right: Sequence[torch.Tensor], elsewhere: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> Iterator[list[torch.Tensor]]:
    yield [torch.zeros_like(tensor) for tensor in right]
    yield [torch.ones_like(tensor) for tensor in right]
    yield [tensor.mean().expand_as(tensor) for tensor in elsewhere]
    yield list(elsewhere)
    for tensor in inputs:
        if all(tensor.shape == output.shape for output in right):
            yield [tensor.float()] * len(right)

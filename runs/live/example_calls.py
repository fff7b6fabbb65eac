"""The calls of a module in memory: one example call, or several with names and weights.

A call without a name is named by its tensors, as in `f32[64,1024]`. Not covered: checking that forward accepts a call;
`problem.py` calls the module with it.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from triton_agent.runs.live import problem
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.input_spec import DTYPES, MOST_SETS, InputSet
from triton_agent.tools.reference.input_tensors import tensors_in

WORDS = {f"torch.{name}": word for word, name in DTYPES.items()}
SHOWN = 60
"""Maximum length of a name that is made of shapes."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExampleCall:
    """The arguments of one call in the order of forward's parameters."""

    name: str
    arguments: list[Any]
    weight: float = 1.0


def calls_of(
    module: nn.Module,
    example_inputs: Any,
    example_kwargs: Mapping[str, Any] | None,
    example_sets: Sequence[Any] | Mapping[str, Any] | None,
    weights: Sequence[float] | Mapping[str, float] | None,
) -> list[ExampleCall]:
    """Check the example calls and return them with their names and weights."""
    if example_sets is None:
        if weights is not None:
            raise UsageError("weights without example_sets", remedy="example_sets=[(x,), (y,)], weights=[1, 3]")
        given = () if example_inputs is None and example_kwargs else example_inputs
        return [ExampleCall(name="", arguments=problem.in_order(module, given, example_kwargs))]
    if example_inputs is not None or example_kwargs:
        raise UsageError(
            "example_inputs and example_sets were both given",
            remedy="put every call into example_sets; by name: a dict",
        )
    named = _named(example_sets)
    arguments = [(name, problem.in_order(module, inputs, None)) for name, inputs in named]
    _require_alike(arguments)
    known: list[ExampleCall] = []
    for (name, ordered), weight in zip(arguments, _weights([name for name, _ in named], weights)):
        taken = {call.name for call in known}
        known.append(ExampleCall(name=name or _unused(_shapes(ordered), taken), arguments=ordered, weight=weight))
    return known


def asked_at(given: Sequence[ExampleCall], written: problem.Problem) -> dict[str, Any]:
    """Return the calls in the form that requests and problems take, after their inputs were saved."""
    if len(given) == 1:
        return {"inputs_file": written.inputs_file}
    files = (written.inputs_file, *written.more_files)
    pairs = zip(given, files)
    return {"sets": tuple(InputSet(name=call.name, inputs_file=file, weight=call.weight) for call, file in pairs)}


def _named(given: Sequence[Any] | Mapping[str, Any]) -> list[tuple[str, Any]]:
    if isinstance(given, Mapping):
        if not all(isinstance(name, str) and name for name in given):
            raise UsageError("the name of a set of example inputs is not a text", remedy='{"short": x, "long": y}')
        found = list(given.items())
    elif isinstance(given, (list, tuple)):
        found = [("", inputs) for inputs in given]
    else:
        raise UsageError(
            f"example_sets is a {type(given).__name__}",
            remedy="a list of calls, [(x,), (y,)], or a dict of them by name",
        )
    if not 1 <= len(found) <= MOST_SETS:
        raise UsageError(f"{len(found)} sets of example inputs", remedy=f"1 to {MOST_SETS}")
    return found


def _require_alike(given: Sequence[tuple[str, list[Any]]]) -> None:
    counts = sorted({len(arguments) for _, arguments in given})
    if len(counts) > 1:
        raise UsageError(
            f"sets of {counts[0]} and of {counts[-1]} arguments",
            remedy="every set has all arguments of one call: example_sets=[(x, mask), (y, mask)]",
        )


def _weights(names: Sequence[str], given: Sequence[float] | Mapping[str, float] | None) -> list[float]:
    if given is None:
        return [1.0] * len(names)
    if isinstance(given, Mapping):
        if given.keys() != set(names):
            raise UsageError(
                f"weights of {', '.join(map(str, given)) or 'nothing'}, sets {', '.join(names) or 'without names'}",
                remedy="one weight for each set, by the same names",
            )
        found = [given[name] for name in names]
    else:
        found = list(given)
    if len(found) != len(names):
        raise UsageError(f"{len(found)} weights for {len(names)} sets", remedy="one weight for each set")
    for weight in found:
        if not isinstance(weight, numbers.Real) or not 0 < weight < math.inf:
            raise UsageError(f"weight {weight!r}", remedy="a number above zero; leave out a set that does not count")
    return list(map(float, found))


def _shapes(arguments: Sequence[Any]) -> str:
    text = "; ".join(map(_shape, tensors_in(arguments)))
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _shape(tensor: torch.Tensor) -> str:
    return f"{WORDS.get(str(tensor.dtype), str(tensor.dtype))}[{','.join(map(str, tensor.shape))}]"


def _unused(name: str, taken: set[str]) -> str:
    """Number a name that is taken, since calls of equal shapes differ in their values."""
    if name not in taken:
        return name
    return next(f"{name} #{number}" for number in range(2, len(taken) + 2) if f"{name} #{number}" not in taken)

"""How a module's forward takes its arguments, and how they are put into one order.

Outside of the call itself, the arguments of a call are a list in the order of forward's parameters. All keyword-only
parameters stand at its end; those that the call omits get their defaults.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn


def parameters_of(forward: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a class's forward, without `self` and `**kwargs`."""
    found = list(inspect.signature(forward).parameters.values())[1:]
    return [item for item in found if item.kind is not inspect.Parameter.VAR_KEYWORD]


def keyword_only(forward: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(item.name for item in parameters_of(forward) if item.kind is inspect.Parameter.KEYWORD_ONLY)


def in_order(forward: Callable[..., Any], positional: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """Return the arguments of one call as a list; raise `TypeError` if forward does not accept them.

    Omitted parameters that precede a given one get their defaults.
    """
    by_keyword = keyword_only(forward)
    if not named and not by_keyword:
        return list(positional)
    bound = inspect.signature(forward).bind(None, *positional, **named)
    last = max((place for place, name in enumerate(bound.signature.parameters) if name in bound.arguments), default=0)
    bound.apply_defaults()
    if unknown := sorted(bound.kwargs.keys() - {*by_keyword}):
        raise TypeError(f"it has no parameter {unknown[0]}, and arguments taken by its ** cannot be passed on")
    values = list(bound.args[1:])
    kinds = [item.kind for item in bound.signature.parameters.values()]
    if not by_keyword and inspect.Parameter.VAR_POSITIONAL not in kinds:
        values = values[:last]
    return values + [bound.kwargs[name] for name in by_keyword]


def by_position(model_class: type[nn.Module]) -> type[nn.Module]:
    """Return a class whose forward takes the list of arguments positionally: this one, or one derived from it."""
    names = keyword_only(model_class.forward)
    if not names:
        return model_class

    class ByPosition(model_class):  # type: ignore[misc, valid-type]
        def forward(self, *inputs: Any) -> Any:
            return super().forward(*inputs[: -len(names)], **dict(zip(names, inputs[-len(names) :])))

    ByPosition.forward.__signature__ = inspect.signature(model_class.forward)  # type: ignore[attr-defined]
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(ByPosition, attribute, getattr(model_class, attribute))
    return ByPosition

"""Writes what a module holds as Python text: plain attributes exactly, tensors exactly or by similar values.

Written exactly: numbers, texts, dtypes, enumerations, classes and functions by name, containers, dataclasses and plain
objects of these, and small or regular tensors. A large tensor without a rule is drawn anew: with the same form, mean
and spread, or whole numbers of the same range.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

LITERAL_ELEMENTS = 256
"""Largest tensor that is written element by element."""

Name = Callable[[Any], str]
"""Returns the name of a class or function in the text."""


class Unwritable(Exception):
    """Raised with the kind of value that cannot be written."""


def text_of(value: Any, name: Name) -> str:
    """Return an expression that makes the value again."""
    kind = type(value)
    if value is None or value is Ellipsis or kind in (bool, int, str, bytes, complex):
        return repr(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if kind in (torch.dtype, torch.memory_format, torch.layout):
        return str(value)
    if kind is torch.device:
        return f"torch.device({str(value)!r})"
    if isinstance(value, torch.Tensor):
        return exactly(value)
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return name(value)
    if isinstance(value, enum.Enum):
        return f"{name(kind)}[{value.name!r}]"
    return _nest(value, name)


def _nest(value: Any, name: Name) -> str:
    kind = type(value)
    if kind in (tuple, torch.Size):
        inner = ", ".join(text_of(item, name) for item in value)
        return f"({inner}{',' if len(value) == 1 else ''})"
    if kind is list:
        return f"[{', '.join(text_of(item, name) for item in value)}]"
    if kind in (set, frozenset):
        return f"{kind.__name__}([{', '.join(sorted(text_of(item, name) for item in value))}])"
    if isinstance(value, dict):
        inner = ", ".join(f"{text_of(key, name)}: {text_of(item, name)}" for key, item in value.items())
        return f"{{{inner}}}" if kind is dict else f"{name(kind)}({{{inner}}})"
    if kind is functools.partial:
        given = [text_of(item, name) for item in (value.func, *value.args)]
        given += [f"{key}={text_of(item, name)}" for key, item in value.keywords.items()]
        return f"{name(functools.partial)}({', '.join(given)})"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{name(kind)}({', '.join(text_of(item, name) for item in value)})"
    return _object(value, name)


def _object(value: Any, name: Name) -> str:
    """Write a dataclass, or an object that consists of its attributes. `_object` is a function of the written file."""
    kind = type(value)
    if (
        isinstance(value, (nn.Module, types.ModuleType, types.MethodType))
        or kind.__flags__ & _MADE_BY_CLASS_STATEMENT == 0
    ):
        raise Unwritable(kind.__name__)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif kind.__module__ != "builtins" and hasattr(value, "__dict__") and _reduces_plainly(kind):
        names = list(vars(value))
    else:
        raise Unwritable(kind.__name__)
    attributes = {key: text_of(getattr(value, key), name) for key in names if hasattr(value, key)}
    return f"_object({name(kind)}, {keywords(attributes)})" if attributes else f"_object({name(kind)})"


def _reduces_plainly(kind: type[Any]) -> bool:
    """Return whether pickle would also save the attributes of an instance and nothing else."""
    return not any("__reduce__" in base.__dict__ or "__reduce_ex__" in base.__dict__ for base in kind.__mro__[:-1])


_MADE_BY_CLASS_STATEMENT = 1 << 9
"""CPython's flag of a type made by a `class` statement, whose instances consist of their attributes."""


def keywords(items: Mapping[str, str]) -> str:
    """Write arguments by name; names that are not Python identifiers go into a dictionary behind `**`."""
    plain = [f"{key}={text}" for key, text in items.items() if key.isidentifier()]
    others = [f"{key!r}: {text}" for key, text in items.items() if not key.isidentifier()]
    return ", ".join([*plain, *([f"**{{{', '.join(others)}}}"] if others else [])])


def referred_to(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the classes and functions that the text of a value names."""
    if depth > 20:
        return
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        yield value
    elif isinstance(value, dict):
        if type(value) is not dict:
            yield type(value)
        for item in (*value.keys(), *value.values()):
            yield from referred_to(item, depth + 1)
    elif isinstance(value, functools.partial):
        yield functools.partial
        for item in (value.func, *value.args, *value.keywords.values()):
            yield from referred_to(item, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        if hasattr(value, "_fields"):
            yield type(value)
        for item in value:
            yield from referred_to(item, depth + 1)
    elif isinstance(value, enum.Enum):
        yield type(value)
    elif type(value).__flags__ & _MADE_BY_CLASS_STATEMENT and not isinstance(value, (nn.Module, torch.Tensor)):
        yield type(value)
        for item in vars(value).values() if hasattr(value, "__dict__") else ():
            yield from referred_to(item, depth + 1)


# -- tensors -----------------------------------------------------------------------------------------------------------


def exactly(tensor: torch.Tensor) -> str:
    """Return an expression with exactly these values; raise `Unwritable` for a large tensor without a rule."""
    order, plain = _in_memory_order(tensor)
    found = _regular(plain)
    if found is None and plain.numel() <= LITERAL_ELEMENTS:
        written = ", ".join(text_of(item, str) for item in plain.flatten().tolist())
        found = f"torch.tensor([{written}], dtype={plain.dtype}).reshape({tuple(plain.shape)})"
    if found is None:
        raise Unwritable(f"tensor of {plain.numel():,} elements")
    return _back(found, order)


def alike(tensor: torch.Tensor) -> str:
    """Return an expression with random values of the same dtype and shape, and a similar distribution."""
    order, plain = _in_memory_order(tensor)
    shape, dtype = tuple(plain.shape), plain.dtype
    constant = _constant(plain)
    if constant is not None:
        return _back(constant, order)
    if not plain.is_floating_point():
        if dtype is torch.bool or plain.is_complex():
            share = float(plain.double().mean()) if dtype is torch.bool else 0.0
            found = (
                f"(torch.rand({shape}) < {share!r})" if dtype is torch.bool else f"torch.randn({shape}, dtype={dtype})"
            )
        else:
            found = f"torch.randint({int(plain.min())}, {int(plain.max()) + 1}, {shape}).to({dtype})"
        return _back(found, order)
    wide = plain.float() if dtype is not torch.float64 else plain
    if not bool(torch.isfinite(wide).all()):
        raise Unwritable(f"tensor of {plain.numel():,} elements, some of which are not finite")
    mean, spread = float(f"{float(wide.mean()):.3g}"), float(f"{float(wide.std()):.3g}")
    found = f"torch.randn({shape}).mul({spread!r}).add({mean!r}).to({dtype})"
    return _back(found, order)


def _in_memory_order(tensor: torch.Tensor) -> tuple[list[int], torch.Tensor]:
    """Return the dimensions from the widest stride to the narrowest, and the tensor permuted to that order."""
    plain = tensor.detach()
    if type(tensor) not in (torch.Tensor, nn.Parameter) or plain.layout is not torch.strided or plain.is_meta:
        raise Unwritable(f"{type(tensor).__name__} of a kind that kernels cannot be tried with")
    order = list(range(plain.dim()))
    if not plain.is_contiguous():
        order.sort(key=lambda place: (-plain.stride()[place], place))
    permuted = plain.permute(order)
    if not permuted.is_contiguous():
        raise Unwritable("tensor that is a part or an expansion of another")
    return order, permuted


def _back(text: str, order: list[int]) -> str:
    back = [order.index(place) for place in range(len(order))]
    return text if back == sorted(back) else f"{text}.permute({tuple(back)})"


def _regular(tensor: torch.Tensor) -> str | None:
    """Return a constant, a range or a triangle that has exactly these values; None if there is none."""
    constant = _constant(tensor)
    if constant is not None:
        return constant
    shape, dtype = tuple(tensor.shape), tensor.dtype
    rows = tensor.reshape(-1, *shape[-2:])[0] if tensor.dim() >= 2 else tensor
    rules = [f"torch.arange({tensor.numel()}).to({dtype}).reshape({shape})"]
    if tensor.dim() >= 2:
        rules += [f"torch.ones({shape}, dtype={dtype}).tril()", f"torch.ones({shape}, dtype={dtype}).triu(1)"]
        low, high = text_of(tensor.min().item(), str), text_of(tensor.max().item(), str)
        if dtype.is_floating_point and rows.numel() and float(tensor.max()) == 0:
            rules += [f"torch.full({shape}, {low}, dtype={dtype}).triu(1)"]
        if dtype.is_floating_point and float(tensor.min()) == 0:
            rules += [f"torch.full({shape}, {high}, dtype={dtype}).tril()"]
    for rule in rules:
        made = eval(rule, {"torch": torch, "float": float})
        if torch.equal(made, tensor.cpu()):
            return rule
    return None


def _constant(tensor: torch.Tensor) -> str | None:
    if tensor.numel() == 0:
        return f"torch.empty({tuple(tensor.shape)}, dtype={tensor.dtype})"
    first = tensor.flatten()[0]
    if bool((tensor == first).all()):
        return f"torch.full({tuple(tensor.shape)}, {text_of(first.item(), str)}, dtype={tensor.dtype})"
    return None

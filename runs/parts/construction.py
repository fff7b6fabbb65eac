"""Records the constructor arguments of each module while a model is made a second time.

The arguments are kept as Python text. An object with plain values only, such as a configuration, is written as a
`SimpleNamespace`; a trial construction shows whether the module accepts that.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn


class NoText(Exception):
    """A value cannot be written as Python text."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConstructorArguments:
    """Arguments of a constructor's call, as text."""

    positional: tuple[str, ...]
    keywords: Mapping[str, str]

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ConstructorArguments:
        return cls(
            positional=tuple(map(text_of, args)), keywords={name: text_of(value) for name, value in kwargs.items()}
        )

    def __str__(self) -> str:
        """Return the text that `get_init_inputs` returns."""
        positional = f"[{', '.join(self.positional)}]"
        keywords = ", ".join(f"{name!r}: {text}" for name, text in self.keywords.items())
        return f"[{positional}, {{{keywords}}}]" if keywords else positional

    def values(self) -> tuple[list[Any], dict[str, Any]]:
        """Evaluate the text, which was written by this class."""
        names = {"torch": torch, "SimpleNamespace": types.SimpleNamespace}
        keywords = {name: eval(text, names) for name, text in self.keywords.items()}
        return [eval(text, names) for text in self.positional], keywords


Made = dict[int, tuple[nn.Module, ConstructorArguments | None]]
"""Each module and its constructor arguments, by `id()` of the module; None if they cannot be written as text."""


@contextlib.contextmanager
def watched(classes: set[type[nn.Module]]) -> Iterator[Made]:
    """Record the arguments of the constructors of exactly these classes."""
    made: Made = {}
    own = {kind: kind.__dict__.get("__init__") for kind in classes}
    for kind in classes:
        _set_constructor(kind, _watching(kind, kind.__init__, made))
    try:
        yield made
    finally:
        for kind, before in own.items():
            if before is None:
                del kind.__init__
            else:
                _set_constructor(kind, before)


def _set_constructor(kind: Any, constructor: Any) -> None:
    kind.__init__ = constructor


def _watching(kind: type[nn.Module], original: Any, made: Made) -> Any:
    def construct(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        if type(self) is kind:
            try:
                made[id(self)] = (self, ConstructorArguments.of(args, kwargs))
            except NoText:
                made[id(self)] = (self, None)
        original(self, *args, **kwargs)

    return construct


def text_of(value: Any) -> str:
    """Return a constructor argument as Python text; raise `NoText` if there is none."""
    written = literal(value)
    if written:
        return written
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, (nn.Module, torch.Tensor, type)) or callable(value) or not hasattr(value, "__dict__"):
        raise NoText
    fields = vars(value)
    if not fields or not all(name.isidentifier() for name in fields):
        raise NoText
    return f"SimpleNamespace({', '.join(f'{name}={text_of(item)}' for name, item in fields.items())})"


def literal(value: Any) -> str:
    """Return a value as Python text that fully describes it; empty if there is none."""
    text = repr(value)
    try:
        return text if repr(ast.literal_eval(text)) == text else ""
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return ""


def difference(module: nn.Module, arguments: ConstructorArguments) -> str:
    """Make a module from these arguments and describe how it differs; empty if it does not."""
    args, kwargs = arguments.values()
    try:
        fresh = type(module)(*args, **kwargs)
    except Exception as error:  # the user's constructor may raise anything the second time
        return f"it cannot be made a second time: {type(error).__name__}"
    if state_form(fresh) != state_form(module):
        return "its parameters are not as its constructor makes them"
    if _plain(fresh) != _plain(module):
        return "its settings are not as its constructor makes them"
    return ""


def state_form(module: nn.Module) -> list[tuple[str, tuple[int, ...], str]]:
    """Return the names, shapes and dtypes of parameters and buffers."""
    state = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    return [(name, tuple(map(int, tensor.shape)), str(tensor.dtype)) for name, tensor in sorted(state.items())]


def _plain(module: nn.Module) -> list[tuple[str, str, str]]:
    """Return the plain attributes of its modules, except the training mode."""
    simple = (bool, int, float, str, type(None), tuple)
    return [
        (path, name, repr(value))
        for path, part in module.named_modules()
        for name, value in sorted(vars(part).items())
        if isinstance(value, simple) and name != "training"
    ]

"""Formats Python text from small trees of calls, tuples and dictionaries, with the line breaks of ruff.

lines(Group("y = torch.empty(", ["(4, 8)", "dtype=torch.float16"], ")"), indent=8)
"""

from __future__ import annotations

import builtins
import dataclasses
import json
import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from triton_agent.tools.kernels.kernel import Constexpr, DType, FunctionReference, LanguageName, pointee
from triton_agent.tools.kernels.language_names import dtype_paths

WIDTH = 120
INDENT = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Items between an opening text, which ends in a bracket, and a closing one."""

    opening: str
    items: Sequence[Text]
    closing: str

    def __str__(self) -> str:
        comma = "," if self.is_tuple and len(self.items) == 1 else ""
        return f"{self.opening}{', '.join(map(str, self.items))}{comma}{self.closing}"

    @property
    def is_tuple(self) -> bool:
        """True if this is a tuple, in which a single item needs a comma."""
        return self.opening.endswith("(") and not re.search(r"[\w\])]\($", self.opening)


Text = str | Group


def lines(text: Text, indent: int) -> list[str]:
    """Return the text at this indentation, in as few lines as fit."""
    return [f"{' ' * indent}{line}" for line in _broken(text, WIDTH - indent, 0)]


def _broken(text: Text, width: int, trailing: int) -> list[str]:
    """Return lines of at most this width, with room for `trailing` characters behind the last."""
    whole = str(text)
    if isinstance(text, str) or not text.items or len(whole) + trailing <= width:
        return [whole]
    inner, margin = width - INDENT, " " * INDENT
    together = ", ".join(map(str, text.items))
    if len(together) <= inner and text.opening.endswith("(") and not text.is_tuple:
        return [text.opening, f"{margin}{together}", text.closing]
    found = [text.opening]
    for item in text.items:
        *first, last = _broken(item, inner, 1)
        found += [f"{margin}{line}" for line in first] + [f"{margin}{last},"]
    return [*found, text.closing]


def tuple_of(items: Sequence[Text]) -> Group:
    return Group("(", items, ")")


def call(function: str, items: Sequence[Text]) -> Group:
    return Group(f"{function}(", items, ")")


def prefixed(prefix: str, text: Text) -> Text:
    """Return the text after a prefix such as `y = `."""
    return f"{prefix}{text}" if isinstance(text, str) else Group(f"{prefix}{text.opening}", text.items, text.closing)


def replaced(text: Text, old: str, new: str) -> Text:
    """Return the text with `new` where an item is `old`."""
    if isinstance(text, str):
        return new if text == old else text
    return Group(text.opening, [replaced(item, old, new) for item in text.items], text.closing)


def literal(value: Any) -> str:
    """Return a plain value as Python text."""
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return f'float("{value!r}")'
    if isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=False)
        return quoted if _reads_as(quoted, value) else repr(value)
    return repr(value)


def _reads_as(text: str, value: str) -> bool:
    """Return whether Python reads a JSON string as the same value; `\\ud800` and `\\/` may differ."""
    return value == "" or (value.isprintable() and not re.search(r"\\u|\\/", text))


def kernel_value(value: Any, names: Mapping[str, str]) -> Text:
    """Return a compile-time argument of a launch as text; `names` has the functions' names by identity."""
    if isinstance(value, Constexpr):
        return call("tl.constexpr", [kernel_value(value.value, names)])
    if isinstance(value, FunctionReference):
        return names[value.identity]
    if isinstance(value, LanguageName):
        inside = value.path.removeprefix("triton.language.")
        return value.path if inside == value.path else f"tl.{inside}"
    if isinstance(value, DType):
        element, pointers = pointee(value.name)
        text = f"tl.{dtype_paths()[element]}"
        for is_constant in reversed(pointers):
            text = f"tl.pointer_type({text}, const=True)" if is_constant else f"tl.pointer_type({text})"
        return text
    if isinstance(value, tuple):
        return tuple_of([kernel_value(item, names) for item in value])
    return literal(value)


class Names:
    """Hands out names that are not taken yet."""

    def __init__(self, taken: Collection[str]) -> None:
        self._taken = {*taken, *dir(builtins), *keyword.kwlist, *keyword.softkwlist, "device", "state"}

    def is_free(self, name: str) -> bool:
        return name not in self._taken

    def copy(self) -> Names:
        return Names(self._taken)

    def fresh(self, wanted: str) -> str:
        """Take the wanted name or a similar free one, and return it."""
        base = re.sub(r"\W+", "_", wanted).strip("_") or "value"
        base = f"parameter_{base}" if base[0].isdigit() else base
        name, number = base, 2
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return name


def attribute(owner: str, name: str) -> str:
    """Return the text that reads an attribute."""
    return f"{owner}.{name}" if is_plain(name) else f'getattr({owner}, "{name}")'


def is_plain(name: str) -> bool:
    """Return whether a name can follow a dot."""
    return name.isidentifier() and not keyword.iskeyword(name)

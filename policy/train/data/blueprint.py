"""A problem while it is composed: sizes, inputs, parameters and named steps, and its text as a problem file.

A step is one or a few lines of `forward`. Axes are names of module-level sizes, so that a problem's text is the same at
any size. Every size also has a small value, which the probe uses.
"""

from __future__ import annotations

import copy
import dataclasses
import random
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

ONE = "1"
"""An axis of size one, as a reduction with `keepdim=True` leaves it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    given: int
    small: int
    """Size while the problem is probed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A tensor that is a variable of `forward`."""

    name: str
    axes: tuple[str, ...]
    positive: bool = False
    word: str = ""
    """Kind of the step that made it; empty for an input."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of `forward`."""

    word: str
    """Kind of the step, as used in compositions."""
    phrase: str
    """Description of the step, as part of a sentence."""
    target: str
    lines: tuple[str, ...]
    """Lines before the last one."""
    expression: str
    sources: tuple[Value, ...]
    bypass: str = ""
    """The value that replaces the result if the step is left out; empty if no value has its shape."""

    @property
    def code(self) -> str:
        return "\n".join((*self.lines, f"{self.target} = {self.expression}"))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    name: str
    text: str


class Blueprint:
    """Collects the parts of a problem file."""

    def __init__(self, chance: random.Random, sizes: Mapping[str, Size], dtype: str) -> None:
        self.chance = chance
        self.sizes = dict(sizes)
        self.dtype = dtype
        self.inputs: list[Input] = []
        self.members: dict[str, str] = {}
        """Maps the attribute of each parameter or module to its text. Lower-case sizes are arguments of `__init__`."""
        self.steps: list[Step] = []
        self.outputs: list[str] = []
        self._names = {"self", "torch", "nn", "F"}

    # -- adding --------------------------------------------------------------------------------------------------------

    def name(self, *options: str) -> str:
        """Return a free name, the first of the options if possible."""
        free = next((option for option in options if option not in self._names), None)
        number = 2
        while free is None:
            candidate = f"{options[0]}_{number}"
            free, number = (candidate if candidate not in self._names else None), number + 1
        self._names.add(free)
        return free

    def input(self, names: Sequence[str], axes: tuple[str, ...], *, positive: bool = False) -> Value:
        """Add an input of random numbers."""
        name, sizes, dtype = self.name(*names), ", ".join(axes), self._dtype_keyword
        plain = f"torch.randn({sizes}{dtype})"
        spread = self.chance.choice((plain, plain, f"2 * {plain}", f"{plain} + 0.5"))
        self.inputs.append(Input(name=name, text=f"torch.rand({sizes}{dtype}) + 0.1" if positive else spread))
        return Value(name=name, axes=axes, positive=positive)

    def special_input(self, names: Sequence[str], text: str, axes: tuple[str, ...]) -> Value:
        """Add an input made by the given expression, such as a mask."""
        self.inputs.append(Input(name=self.name(*names), text=text))
        return Value(name=self.inputs[-1].name, axes=axes)

    def parameter(self, names: Sequence[str], axes: tuple[str, ...], scale: str = "") -> str:
        """Add a parameter of random numbers; return its expression in `forward`."""
        sizes = ", ".join(axis.lower() for axis in axes)
        return self.member(names, f"nn.Parameter({scale}torch.randn({sizes}{self._dtype_keyword}))")

    def module(self, names: Sequence[str], text: str) -> str:
        """Add a module; `text` lacks its closing bracket."""
        return self.member(names, f"{text}{self._dtype_keyword})")

    def member(self, names: Sequence[str], text: str) -> str:
        name = next((n for n in names if n not in self.members), f"{names[0]}_{len(self.members) + 1}")
        self.members[name] = text
        return f"self.{name}"

    def step(
        self,
        word: str,
        phrase: str,
        sources: Sequence[Value],
        names: Sequence[str],
        expression: str,
        *,
        lines: Sequence[str] = (),
        axes: tuple[str, ...] | None = None,
        positive: bool = False,
    ) -> Value:
        """Add a step. Without `axes`, the result has the shape of the first source."""
        shape = sources[0].axes if axes is None else axes
        target = self.name(*names)
        bypass = sources[0].name if shape == sources[0].axes else ""
        self.steps.append(
            Step(
                word=word,
                phrase=phrase,
                target=target,
                lines=tuple(lines),
                expression=expression,
                sources=tuple(sources),
                bypass=bypass,
            )
        )
        return Value(name=target, axes=shape, positive=positive, word=word)

    def axis(self, names: Sequence[str], given: int, small: int | None = None) -> str:
        """Add a size under a free name; without `small`, it is probed at its given value."""
        name = next(n for n in (*names, *(f"{names[0]}_{k}" for k in range(2, 99))) if n not in self.sizes)
        self.sizes[name] = Size(given=given, small=small or given)
        return name

    def mark(self) -> dict[str, Any]:
        """Return the current state, for `back_to`."""
        return {name: copy.copy(value) for name, value in vars(self).items() if name not in ("chance", "dtype")}

    def back_to(self, mark: dict[str, Any]) -> None:
        """Restore an earlier state."""
        vars(self).update(mark)

    # -- reading -------------------------------------------------------------------------------------------------------

    def pairs(self) -> frozenset[tuple[str, str]]:
        """Return the pairs of kinds of steps of which one feeds the other."""
        return frozenset((source.word, step.word) for step in self.steps for source in step.sources if source.word)

    def numbers(self, small: bool) -> dict[str, int]:
        return {name: size.small if small else size.given for name, size in self.sizes.items()}

    def text(self, *, small: bool = False) -> str:
        """Return the text of the problem file."""
        wanted = [name for name in self.sizes if any(_mentions(text, name.lower()) for text in self.members.values())]
        mentioned = [*(item.text for item in self.inputs), *wanted]
        lines = [f'"""{self._title()}"""', "", "import torch", "import torch.nn as nn"]
        uses = [line for step in self.steps for line in (*step.lines, step.expression)]
        lines += ["import torch.nn.functional as F"] if any("F." in line for line in uses) else []
        lines += [""]
        numbers = self.numbers(small)
        lines += [f"{name} = {numbers[name]}" for name in self.sizes if any(_mentions(t, name) for t in mentioned)]
        lines += ["", "", "class Model(nn.Module):"]
        if self.members:
            given = "".join(f", {name.lower()}: int" for name in wanted)
            lines += [f"    def __init__(self{given}) -> None:", "        super().__init__()"]
            lines += [f"        self.{name} = {text}" for name, text in self.members.items()]
            lines += [""]
        arguments = "".join(f", {item.name}: torch.Tensor" for item in self.inputs)
        several = len(self.outputs) > 1
        returned = f"tuple[{', '.join(['torch.Tensor'] * len(self.outputs))}]" if several else "torch.Tensor"
        signature = f"    def forward(self{arguments}) -> {returned}:"
        if len(signature) > 120:
            signature = f"    def forward(\n        self{arguments}\n    ) -> {returned}:"
        lines += [signature]
        *before, last = self.steps
        for step in before if not several else self.steps:
            lines += [f"        {line}" for line in step.code.splitlines()]
        if several:
            lines += [f"        return {', '.join(self.outputs)}"]
        else:
            lines += [f"        {line}" for line in (*last.lines, f"return {last.expression}")]
        made = ", ".join(item.text for item in self.inputs)
        lines += ["", "", "def get_inputs():"]
        if len(made) < 100:
            lines += [f"    return [{made}]"]
        else:
            lines += ["    return [", *(f"        {item.text}," for item in self.inputs), "    ]"]
        lines += ["", "", "def get_init_inputs():", f"    return [{', '.join(wanted)}]", ""]
        return "\n".join(lines)

    def _title(self) -> str:
        *before, last = list(dict.fromkeys(step.phrase for step in self.steps))
        said = f"{', '.join(before)} and {last}" if before else last
        lines = textwrap.wrap(f"{said[0].upper()}{said[1:]}.", 100)
        return "\n".join(lines) + ("\n" if len(lines) > 1 else "")

    @property
    def _dtype_keyword(self) -> str:
        return "" if self.dtype == "float32" else f", dtype=torch.{self.dtype}"


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None

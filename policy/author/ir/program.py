"""What a model computes, in a handful of operations: the form between torch's operators and kernels.

Values are tensors with a shape, a dtype and no layout. The operations:

    source                      a tensor that is there: an input, a parameter, a buffer, what torch left behind
    full, iota                  one number everywhere; start + step * position
    point                       the same function at every element, operands broadcast to the result's shape
    reduce, scan                over some dimensions; along one dimension
    reshape permute expand      views
    slice                       every step-th element of one dimension, from start (step may be negative)
    pad, concat                 several pieces beside each other, a number around one
    take, gather                elements found by an index tensor
    scatter                     elements added up at the places that an index tensor says, from nought or onto a source;
                                with a function, put there or compared with what a stored value has there
    roll                        one dimension from a place on, then what is before it
    window                      one tap of a sliding window: a dimension becomes (positions, taps)
    dot                         [..., m, k] x [..., k, n]
    attention                   the same, of a softmax along k: of its scores, the values, and what a row gives whose
                                scores are all minus infinity
    torch                       an operator that stays what it is

A number that changes with the problem's sizes carries its value at each of them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from triton_agent.policy.author.ir.sizes import Shape, Size


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A number, with its value at each of the sizes."""

    values: tuple[float | int | bool, ...]

    @property
    def fixed(self) -> bool:
        return all(value == self.values[0] or value != value for value in self.values)


Operand: TypeAlias = "str | Number"
"""The name of a value, or a number."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value and how it is made."""

    name: str
    operation: str
    function: str = ""
    """Which point function, reduction or operator of torch."""
    operands: tuple[Operand, ...] = ()
    shape: Shape
    dtype: str
    detail: Any = ()
    """What else the operation needs; hashable."""
    hint: str = ""
    """What a reader would call it."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(operand for operand in self.operands if isinstance(operand, str))

    def elements(self, at: int = 0) -> int:
        total = 1
        for size in self.shape:
            total *= size[at]
        return total


@dataclasses.dataclass(frozen=True, slots=True)
class Softmax:
    """The scores that a softmax over the last dimension was made of."""

    scores: str
    empty: Number
    """Shares of a row whose scores are all minus infinity: NaN, or nought where the operator says so."""


@dataclasses.dataclass(frozen=True, slots=True)
class Formula:
    """A size made of others: `({0} + 2) // 2 + 1`."""

    size: Size
    template: str
    operands: tuple[Size, ...]
    name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a stored value lies in another one: from `start` along one dimension."""

    whole: str
    dim: int
    start: Size
    length: Size


@dataclasses.dataclass(slots=True, kw_only=True)
class Program:
    """Values in the order they can be computed."""

    width: int
    """How many graphs every size has an entry for."""
    values: dict[str, Value] = dataclasses.field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    updates: dict[str, str] = dataclasses.field(default_factory=dict)
    """Source -> value with its new contents."""
    strides: dict[str, Shape] = dataclasses.field(default_factory=dict)
    """Of sources and stored values that do not lie in memory row by row."""
    placed: dict[str, Placed] = dataclasses.field(default_factory=dict)
    """Stored values that are pieces of others, and lie in the memory of those."""
    limits: list[str] = dataclasses.field(default_factory=list)
    formulas: list[Formula] = dataclasses.field(default_factory=list)
    """How sizes that operators make come about; asked before anything is searched for."""
    softmaxes: dict[str, Softmax] = dataclasses.field(default_factory=dict)
    """By the value that holds the shares."""
    results: set[str] = dataclasses.field(default_factory=set)
    """Values that an operator returned; all others stand for something inside of one."""
    origins: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    """Which operator call a value comes from: its place in the graph and its name."""

    def stored_dtype(self, name: str) -> str:
        """What a value has in memory: the inside of an operator is as precise as it is computed."""
        value = self.values[name]
        known = name in self.results or value.operation in ("source", "torch")
        return value.dtype if known else register_dtype(value.dtype)

    def users(self) -> dict[str, list[str]]:
        """Who takes each value, once each, in order."""
        found: dict[str, list[str]] = {name: [] for name in self.values}
        for value in self.values.values():
            for name in dict.fromkeys(value.inputs):
                found[name].append(value.name)
        return found

    def needed(self) -> set[str]:
        """Values that an output or an update depends on."""
        waiting = [*self.outputs, *self.updates.values()]
        found: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting.extend(self.values[name].inputs)
        return found


VIEWS = frozenset({"reshape", "permute", "expand", "slice"})
EXPENSIVE = frozenset({"reduce", "scan", "scatter", "dot", "torch", "attention"})
"""What is computed once; everything else may be recomputed wherever it is used."""
CONVOLUTION = "convolution"
"""Detail of a product that torch computes as a convolution: on a GPU in TF32, by default, where others are not."""
WIDEST_HEAD = 256
"""Columns of queries, keys or values beyond which attention has no room for a tile of them beside the scores."""
MIDDLE = frozenset({"reduce", "scan", "dot", "attention"})
"""What may be stored on purpose, so that one kernel becomes two."""

HALF = ("float16", "bfloat16")
FLOATS = frozenset({*HALF, "float32", "float64"})
INTEGERS = frozenset({"int8", "uint8", "int16", "int32", "int64"})
DTYPES = FLOATS | INTEGERS | {"bool"}
"""What kernels are written for."""
ITEM_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
}


def register_dtype(dtype: str) -> str:
    """What an element is computed in: half precision in float32."""
    return "float32" if dtype in HALF else dtype

"""The program that a model computes, in a few operations: the form between torch's operators and kernels.

Values are tensors with a shape, a dtype and no layout. The operations:

    source                      an existing tensor: an input, a parameter, a buffer, a result of a torch operator
    full, iota                  one number everywhere; start + step * index
    point                       a function of single elements, operands broadcast to the result's shape
    reduce, scan                over some dimensions; along one dimension
    carry                       the state before each step of the scan `fold` (or `fold_back`, which begins at the end),
                                whose operands are the state after each step, computed from it, and the first state
    reshape permute expand      views
    slice                       every step-th element of one dimension, from start (step may be negative)
    pad, concat                 a number around a value; several pieces beside each other
    take, gather                elements selected by an index tensor
    scatter                     elements added up at the indices in an index tensor, from zero or onto a source;
                                with a function, assigned there or combined with the stored value
    roll                        one dimension rotated
    window                      one tap of a sliding window: a dimension becomes (positions, taps)
    dot                         [..., m, k] x [..., k, n]
    attention                   dot with the softmax of the first operand along k; operands are the scores, the values,
                                and the result of a row whose scores are all minus infinity
    recurrence                  all steps of a recurrent layer in one direction: [rows, batch, hidden], with the states
                                before the first step and after every step as rows; an LSTM's cell is row 0, and the
                                states follow it. Operands: products of the inputs [steps, batch, gates * hidden],
                                weight of the state [gates * hidden, hidden], first state, an LSTM's first cell, and a
                                GRU's bias of the state, if there is one. Detail: True if it runs backwards
    torch                       an operator that is left to torch

A number that changes with the problem's sizes carries its value at each of them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from triton_agent.policy.author.ir.sizes import Shape, Size


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A number, with its value at each size."""

    values: tuple[float | int | bool, ...]

    @property
    def fixed(self) -> bool:
        return all(value == self.values[0] or value != value for value in self.values)


Operand: TypeAlias = "str | Number"
"""The name of a value, or a number."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value and the operation that makes it."""

    name: str
    operation: str
    function: str = ""
    """Name of the point function, the reduction or the torch operator."""
    operands: tuple[Operand, ...] = ()
    shape: Shape
    dtype: str
    detail: Any = ()
    """Further parameters of the operation; hashable."""
    hint: str = ""
    """A readable name, taken from the model."""

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
    """The scores from which a softmax over the last dimension was computed."""

    scores: str
    empty: Number
    """Result of the softmax in a row whose scores are all minus infinity: NaN, or zero if the operator defines it
    so.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Formula:
    """A size as an expression of other sizes: `({0} + 2) // 2 + 1`."""

    size: Size
    template: str
    operands: tuple[Size, ...]
    name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Position of a stored value inside another one: from `start` along one dimension."""

    whole: str
    dim: int
    start: Size
    length: Size


@dataclasses.dataclass(slots=True, kw_only=True)
class Program:
    """Values in an order in which they can be computed."""

    width: int
    """Number of graphs; every size has one entry for each."""
    values: dict[str, Value] = dataclasses.field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    updates: dict[str, str] = dataclasses.field(default_factory=dict)
    """Maps a source to the value that replaces its contents."""
    strides: dict[str, Shape] = dataclasses.field(default_factory=dict)
    """Strides of sources and stored values that are not contiguous."""
    placed: dict[str, Placed] = dataclasses.field(default_factory=dict)
    """Stored values that are pieces of others and share their memory."""
    limits: list[str] = dataclasses.field(default_factory=list)
    formulas: list[Formula] = dataclasses.field(default_factory=list)
    """How operators derive sizes from others; tried before a search for an expression."""
    softmaxes: dict[str, Softmax] = dataclasses.field(default_factory=dict)
    """Scores of softmaxes, by the value that holds the result."""
    results: set[str] = dataclasses.field(default_factory=set)
    """Values that an operator returned. All others are intermediate values inside an operator."""
    apart: set[str] = dataclasses.field(default_factory=set)
    """Products that are stored before their elements are rearranged, because they would be stored far apart."""
    origins: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    """The operator call that a value comes from: its index in the graph and its name."""

    def stored_dtype(self, name: str) -> str:
        """Return the dtype of a value in memory. Intermediate values keep the precision of the computation."""
        value = self.values[name]
        known = name in self.results or value.operation in ("source", "torch")
        return value.dtype if known else register_dtype(value.dtype)

    def users(self) -> dict[str, list[str]]:
        """Map each value to the values that use it, without repeats and in order."""
        found: dict[str, list[str]] = {name: [] for name in self.values}
        for value in self.values.values():
            for name in dict.fromkeys(value.inputs):
                found[name].append(value.name)
        return found

    def needed(self) -> set[str]:
        """Return the values that an output or an update depends on."""
        waiting = [*self.outputs, *self.updates.values()]
        found: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting.extend(self.values[name].inputs)
        return found


VIEWS = frozenset({"reshape", "permute", "expand", "slice"})
EXPENSIVE = frozenset({"reduce", "scan", "scatter", "dot", "torch", "attention", "recurrence"})
"""Operations that are computed once. All others may be recomputed wherever they are used."""
CONVOLUTION = "convolution"
"""Detail of a product that torch computes as a convolution. On GPUs torch runs those in TF32 by default, and others
not.
"""
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Recurrent layers and cells, with the number of gates that their weights hold."""
WIDEST_HEAD, WIDEST_HEAD_ELSEWHERE = 256, 1025
"""Largest head dimension at the main sizes, and at others: with four times the width, at which files are judged, tiles
are small. Beyond it, a tile of queries, keys or values does not fit beside the scores.
"""
MIDDLE = frozenset({"reduce", "scan", "dot", "attention"})
"""Operations whose results may be stored by choice, to split a kernel in two."""

HALF = ("float16", "bfloat16")
FLOATS = frozenset({*HALF, "float32", "float64"})
INTEGERS = frozenset({"int8", "uint8", "int16", "int32", "int64"})
DTYPES = FLOATS | INTEGERS | {"bool"}
"""Dtypes that kernels are written for."""
ALIGNED_BYTES = 16
"""Alignment that vectors of a load and tensor descriptors need."""
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


FOLDS = ("fold", "fold_back")
"""Scans that are loops over steps with a body of their own, from the first step and from the last."""


def head_fits(width: Size) -> bool:
    """Return True if tiles of heads of this width fit at all known sizes."""
    return width[0] <= WIDEST_HEAD and max(width) <= WIDEST_HEAD_ELSEWHERE


def is_fold(value: Value) -> bool:
    return value.operation == "scan" and value.function in FOLDS


def register_dtype(dtype: str) -> str:
    """Return the dtype in which an element is computed: float32 for half precision."""
    return "float32" if dtype in HALF else dtype

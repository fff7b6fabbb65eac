"""The numbers that a candidate's kernels name, and inputs that hold them.

Inputs drawn at random never hold one certain number, so a kernel that treats 1.2345678 otherwise than its neighbours
looks right on all of them. But the kernel has to name the number: in its text, in a global, as an argument of a launch,
or in a constant on the tape. `numbers_on` collects these; `plant` writes them, and what simple arithmetic makes of them,
into inputs. Not covered: numbers that a kernel finds by longer arithmetic, and conditions on intermediate values.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import math
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from triton_agent.tools.isolate.tensors import DTYPES
from triton_agent.tools.parsing import parse
from triton_agent.tools.tape.kernel_values import bare, calculated
from triton_agent.tools.tape.kernels import JitFunction, KernelSet
from triton_agent.tools.tape.tape import Constant, Constexpr, Launch, Tape, View, views_in
from triton_agent.tools.verify.input_tensors import is_plain, tensors_in

TAME = frozenset({0.0, 1.0, 2.0, 0.5, 3.0, 4.0})
"""Named by nearly every kernel; nothing is derived from these, and no row is filled with them."""
PAIRED = 8
"""Numbers at most whose sums, products and quotients are tried as well."""
NUMBERS_AT_MOST = 400
ROWS = 4
"""Rows that are filled with one number each, for conditions on a whole row."""
CONSTANT_VALUES = 64
"""Elements at the start of each constant that are read."""
ORDINARY, FAR = 10.0, 1e6
"""Numbers up to so many times the largest input share a case; what lies further away would hide them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What a candidate's kernels name."""

    in_text: frozenset[int | float] = frozenset()
    """In the kernels' texts and the globals they use."""
    given: frozenset[int | float] = frozenset()
    """Arguments of launches and values of constants."""

    def floats(self) -> tuple[float, ...]:
        """All of them, then what arithmetic and casts make of them, of either sign."""
        named = [number for number in sorted(self.in_text | self.given) if _is_float32(number)]
        unusual = [float(number) for number in named if abs(number) not in TAME]
        found = {float(number): None for number in named}
        found |= {value: None for number in sorted(self.in_text | self.given) for value in _as_bits(number)}
        for number in unusual:
            found |= dict.fromkeys(_derived(number))
        for one, other in itertools.product(unusual[:PAIRED], list(map(float, named))[: 2 * PAIRED]):
            if other:
                found |= dict.fromkeys((one / other, other / one, one + other, one - other, one * other))
        signed = {sign * number: None for number in found for sign in (1.0, -1.0)}
        return tuple(number for number in signed if _is_float32(number))[:NUMBERS_AT_MOST]

    def row_values(self) -> tuple[float, ...]:
        """Numbers that rows are filled with."""
        unusual = [float(number) for number in sorted(self.in_text) if _is_float32(number) and abs(number) not in TAME]
        return tuple(unusual[:ROWS])

    def wholes(self) -> tuple[int, ...]:
        """Whole numbers and their neighbours."""
        named = {int(number) for number in self.in_text | self.given if _is_float32(number) and number == int(number)}
        return tuple(sorted({number + step for number in named for step in (-1, 0, 1)}))


def numbers_on(tape: Tape, kernels: KernelSet) -> Numbers:
    """The numbers that the kernels of a tape name."""
    in_text = {number for function in kernels.functions.values() for number in _in_function(function)}
    given: set[int | float] = set()
    views: dict[int, View] = {}
    for step in (*tape.prologue, *tape.steps):
        if isinstance(step, Launch):
            for _, value in step.choices[0].arguments:
                given |= set(_plain_numbers(value.value if isinstance(value, Constexpr) else value))
                views |= {view.buffer: view for view in views_in(value)}
    for step in (*tape.prologue, *tape.steps):
        if isinstance(step, Constant) and step.buffer in views and not step.relocations:
            dtype = DTYPES[views[step.buffer].dtype]
            data = step.data[: CONSTANT_VALUES * dtype.itemsize]
            whole = bytearray(data[: len(data) - len(data) % dtype.itemsize])
            if whole and not dtype.is_complex:
                given |= set(_plain_numbers(torch.frombuffer(whole, dtype=dtype).tolist()))
    return Numbers(in_text=frozenset(in_text), given=frozenset(given))


def _in_function(function: JitFunction) -> Iterator[int | float]:
    """Literals, globals, defaults, and what operators make of them."""
    known = {name: bare(value) for name, value in function.globals}

    def value_of(node: ast.AST) -> int | float | None:
        if isinstance(node, ast.Constant):
            value: object = node.value
        elif isinstance(node, (ast.Name, ast.Attribute)):
            value = known.get(ast.unparse(node))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            operand = value_of(node.operand)
            return None if operand is None else -operand
        elif isinstance(node, ast.BinOp):
            left, right = value_of(node.left), value_of(node.right)
            return None if left is None or right is None else calculated(node.op, left, right)
        elif isinstance(node, ast.Call) and len(node.args) == 1:  # tl.constexpr(c), float(c), tl.cast(c, ...)
            return value_of(node.args[0])
        else:
            return None
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    for node in ast.walk(parse(function.source)):
        value = value_of(node)
        if value is not None:
            yield value
    yield from _plain_numbers(list(known.values()))
    yield from _plain_numbers([bare(parameter.default) for parameter in function.parameters])


def _plain_numbers(value: Any) -> Iterator[int | float]:
    """Numbers in nested plain data; floats may be written as text, as `kernels.value_to_json` does."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _plain_numbers(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _plain_numbers(float(item) if key == "float" else item)


def _is_float32(number: float) -> bool:
    return math.isfinite(number) and abs(number) <= 3e38


def _as_bits(number: float) -> Iterator[float]:
    """The float32 with the bits of a whole number."""
    if isinstance(number, int) and 1 << 16 <= abs(number) < 1 << 32:
        value = struct.unpack("<f", struct.pack("<I", number % (1 << 32)))[0]
        if math.isfinite(value):
            yield value


def _derived(number: float) -> Iterator[float]:
    """Values whose square, root, logarithm, exponential or reciprocal is this number."""
    ways: tuple[Callable[[float], float], ...] = (
        lambda it: math.sqrt(abs(it)),
        lambda it: it * it,
        lambda it: math.log(abs(it)),
        lambda it: math.log2(abs(it)),
        lambda it: math.exp(min(it, 80.0)),
        lambda it: math.exp2(min(it, 120.0)),
        lambda it: 1.0 / it,
    )
    for way in ways:
        try:
            yield way(number)
        except (ValueError, ZeroDivisionError):
            continue


def groups(numbers: Numbers, largest: float) -> list[tuple[float, ...]]:
    """The numbers as floats, those of like size together: a huge one hides what is wrong with small ones."""
    bounds = (0.0, ORDINARY * largest, FAR * largest, math.inf)
    found = numbers.floats()
    split = [tuple(it for it in found if low <= abs(it) < high) for low, high in itertools.pairwise(bounds)]
    return [group for group in split if group]


def plant(values: Iterable[Any], floats: tuple[float, ...], numbers: Numbers, generator: torch.Generator) -> None:
    """Write the numbers, and their neighbours in its dtype, at random places of each tensor, and fill some rows.

    Whole numbers go where others like them are: within the range of a tensor whose elements are in no order.
    """
    for tensor in tensors_in(list(values)):
        if not is_plain(tensor) or not tensor.numel() or any(stride == 0 for stride in tensor.stride()):
            continue
        if tensor.is_floating_point():
            wanted = torch.tensor(floats, dtype=torch.float64).to(tensor.dtype)
            down, up = (torch.nextafter(wanted, torch.full_like(wanted, way)) for way in (-math.inf, math.inf))
            _scatter(tensor, torch.stack([wanted, up, down]).reshape(-1), generator)
            chosen = [value for value in numbers.row_values() if value in floats]
            if tensor.dim() > 1 and tensor[..., 0].numel() >= 4 * len(chosen):
                rows = torch.randperm(tensor.shape[0], generator=generator)
                for row, value in zip(rows.tolist(), chosen):
                    tensor[(row, *(0 for _ in tensor.shape[1:-1]))] = value
        elif tensor.dtype in (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8):
            flat = tensor.reshape(-1)
            low, high = int(flat.min()), int(flat.max())
            if bool((flat.diff() < 0).any()):  # in order they are offsets or positions
                wanted = torch.tensor([it for it in numbers.wholes() if low <= it <= high], dtype=tensor.dtype)
                _scatter(tensor, wanted, generator)


def _scatter(tensor: torch.Tensor, wanted: torch.Tensor, generator: torch.Generator) -> None:
    """At random places, at most half of them; the first of `wanted` first."""
    wanted = wanted[torch.isfinite(wanted.double())][: max(1, tensor.numel() // 2)]
    places = torch.randperm(tensor.numel(), generator=generator)[: len(wanted)]
    index = torch.unravel_index(places, tensor.shape)
    tensor[tuple(it.to(tensor.device) for it in index)] = wanted.to(tensor.device)

"""Collects the numbers that a candidate's kernels name, and plants them in inputs.

Random inputs never contain one certain number, so a kernel that treats 1.2345678 differently looks correct on all of
them. But the kernel has to name the number: in its text, in a global, as an argument of a launch, or in a constant of
the tape. `numbers_on` collects these; `plant` writes them, and results of simple arithmetic on them, into inputs. A
number may also be computed in a longer way: the interpreter notes what blocks are compared or combined with, and
numbers that are met whatever the inputs are planted as well. Not covered: conditions on intermediate values.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import itertools
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy
import torch

from triton_agent.tools.kernels.kernel import JitFunction, KernelSet
from triton_agent.tools.kernels.values import bare, calculated
from triton_agent.tools.parsing import dotted, syntax_of
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.reference.input_tensors import is_plain, is_sorted
from triton_agent.tools.tape.tape import Constant, Constexpr, Launch, Operate, Tape, View, views_in
from triton_agent.tools.truth.jumps import WHOLE as WHOLE_DTYPES

TAME = frozenset({0.0, 1.0, 2.0, 0.5, 3.0, 4.0})
"""Numbers that nearly every kernel names. No other numbers are derived from them, and no row is filled with them."""
PAIRED = 8
"""Maximum count of numbers whose sums, products and quotients are tried as well."""
NUMBERS_AT_MOST = 400
"""Maximum count of numbers to plant, derived ones included; those in the text come first."""
MET_COMBINED = 32
"""Maximum count of numbers met in calls that are combined with those in the text as well."""
ROWS = 4
"""Maximum number of rows that are filled with one named number each, for conditions on a whole row."""
LEAST_POWER, LARGEST_POWER = 30, 50
"""Powers of two, negative and positive, of which inputs hold a number each: a condition on exponents names none."""
WHOLE_MAGNITUDES = 4
"""Number of random integers for each power of two, where integers of any size are allowed."""
PLACED_AT_MOST = 64
"""Maximum count of pairs of a number and a place that are named, for conditions on both."""
STREWN_SHARE = 1 / 8
"""Share of the elements that `strew` replaces."""
RELATED = 8
"""Number of elements that are made equal between two inputs, and as many are made opposite."""
SAMPLED_FOR_ROWS = 64
"""Number of elements searched for the largest and the smallest: enough to find both signs, if the input has both."""
CONSTANT_VALUES = 64
"""Elements at the start of each constant that count like arguments of a launch."""
TABLED_AT_MOST = 1000
"""Maximum number of elements, evenly spaced, that are read from each constant, and of values tried from all of them."""
MATHEMATICS: Mapping[str, Callable[[float], float]] = {
    **{name: getattr(math, name) for name in ("exp", "exp2", "log", "log2", "sqrt", "sin", "cos", "tanh", "erf")},
    **{name: getattr(math, name) for name in ("floor", "ceil")},
    "abs": abs,
    "rsqrt": lambda it: 1.0 / math.sqrt(it),
    "sigmoid": lambda it: 1.0 / (1.0 + math.exp(-it)),
}
"""Known functions of the language by their last name. Any other function is assumed to return its argument."""
ORDINARY, FAR = 10.0, 1e6
"""Upper bounds of groups of numbers, as multiples of the largest input. Numbers of one group share a case, because much
larger numbers would hide the effect of small ones."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers that a candidate's kernels name."""

    in_text: frozenset[int | float] = frozenset()
    """Numbers in the kernels' texts and in the globals they use."""
    given: frozenset[int | float] = frozenset()
    """Arguments of launches, and the first values of constants."""
    tabled: frozenset[int | float] = frozenset()
    """All other values of constants, and arguments of torch operators. No other numbers are derived from them."""

    met: frozenset[float] = frozenset()
    """Numbers that kernels combined blocks with, whatever the inputs: computed in loops, by torch, or by kernels."""

    def having_met(self, met: Set[float]) -> Numbers:
        """Return these numbers, with those of `met` that would not be planted otherwise."""
        known = {*self.floats(), *map(float, self.wholes())}
        return dataclasses.replace(self, met=frozenset(number for number in met if number not in known))

    def floats(self) -> tuple[float, ...]:
        """Return the numbers and those derived from them, with both signs; `tabled` ones unchanged."""
        named = [number for part in (self.in_text, self.given) for number in sorted(part) if _is_float32(number)]
        unusual = [float(number) for number in named if abs(number) not in TAME]
        found = {float(number): None for number in named}
        found |= {value: None for number in named for value in _as_bits(number)}
        for number in unusual:
            found |= dict.fromkeys(_derived(number))
        for one, other in itertools.product(unusual[:PAIRED], list(map(float, named))[: 2 * PAIRED]):
            if other:
                found |= dict.fromkeys(_combined(one, other))
        signed = {sign * number: None for number in found for sign in (1.0, -1.0)}
        chosen = [number for number in signed if _is_float32(number)][:NUMBERS_AT_MOST]
        met = [number for number in sorted(self.met) if _is_float32(number)]
        met += [value for number in met if number == int(number) for value in _as_bits(int(number))]
        combined = [value for number in met[:MET_COMBINED] for value in _derived(number)]
        for one, other in itertools.product(met[:MET_COMBINED], unusual[:PAIRED]):
            combined += _combined(one, other)
        met += [number for number in combined if _is_float32(number)]
        tabled = [float(number) for number in sorted(self.tabled) if _is_float32(number)]
        every = max(1, -(-len(tabled) // TABLED_AT_MOST))
        return tuple(dict.fromkeys([*chosen, *met, *(-number for number in met), *tabled[::every]]))

    def named(self) -> tuple[float, ...]:
        """Return the numbers themselves, without usual ones and without tables."""
        every = sorted(self.in_text | self.given | self.met)
        return tuple(float(number) for number in every if _is_float32(number) and abs(number) not in TAME)

    def row_values(self) -> tuple[float, ...]:
        unusual = [float(number) for number in sorted(self.in_text) if _is_float32(number) and abs(number) not in TAME]
        return tuple(unusual[:ROWS])

    def wholes(self) -> tuple[int, ...]:
        numbers = self.in_text | self.given | self.tabled | self.met
        named = {int(number) for number in numbers if _is_float32(number) and number == int(number)}
        return tuple(sorted({number + step for number in named for step in (-1, 0, 1)}))


def numbers_on(tape: Tape, kernels: KernelSet) -> Numbers:
    """Return the numbers in the texts of kernels, in the arguments of their launches, and in constant tensors."""
    steps = (*tape.prologue, *tape.steps)
    bound: dict[str, dict[str, Any]] = {identity: {} for identity in kernels.functions}
    given: set[int | float] = set()
    tabled: set[int | float] = set()
    views: dict[int, View] = {}
    for kernel, name, value in _arguments_of_launches(steps):
        numbers = list(_plain_numbers(value.value if isinstance(value, Constexpr) else value))
        given |= set(numbers)
        views |= {view.buffer: view for view in views_in(value)}
        if len(numbers) == 1:
            bound[kernel][name] = numbers[0]
    for step in steps:
        if isinstance(step, Operate):
            tabled |= set(_plain_numbers([*step.args, *(value for _, value in step.kwargs)]))
        elif isinstance(step, Constant) and step.buffer in views:
            values = _elements_of(step, views[step.buffer].dtype)
            given |= set(_plain_numbers(values[:CONSTANT_VALUES].tolist()))
            tabled |= set(_plain_numbers(values[:: max(1, -(-len(values) // TABLED_AT_MOST))].tolist()))
    functions = kernels.functions.items()
    in_text = {number for identity, function in functions for number in _in_function(function, bound[identity])}
    others = frozenset(number for number in tabled - in_text - given if _is_float32(number))
    return Numbers(in_text=frozenset(in_text - given), given=frozenset(given), tabled=others)


def _arguments_of_launches(steps: Sequence[object]) -> Iterator[tuple[str, str, Any]]:
    """Yield kernel, name and value of each argument. Those of a launch's first choice come last, so that they count."""
    for step in steps:
        for choice in reversed(step.choices) if isinstance(step, Launch) else ():
            for name, value in choice.arguments:
                yield choice.kernel, name, value


def _elements_of(constant: Constant, dtype_name: str) -> torch.Tensor:
    """Return the elements of a constant tensor; none if it holds addresses or complex numbers."""
    if constant.relocations:
        return torch.empty(0)
    dtype = DTYPES[dtype_name]
    whole = bytearray(constant.data[: len(constant.data) - len(constant.data) % dtype.itemsize])
    return torch.frombuffer(whole, dtype=dtype) if whole and not dtype.is_complex else torch.empty(0)


OF_AN_AXIS = frozenset({"program_id", "num_programs"})
"""Functions of the language whose argument has nothing to do with their result."""


def _in_function(function: JitFunction, bound: Mapping[str, Any]) -> Iterator[int | float]:
    """Yield literals, globals and defaults, and results of operators and functions of the language on them.

    `bound` holds the arguments of its launch.
    """
    known: dict[str, Any] = {name: bare(value) for name, value in function.globals} | dict(bound)

    def value_of(node: ast.AST) -> int | float | None:
        value: object = None
        if isinstance(node, ast.Constant):
            value = node.value
        elif isinstance(node, (ast.Name, ast.Attribute)):
            value = known.get(dotted(node))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            operand = value_of(node.operand)
            value = None if operand is None else -operand
        elif isinstance(node, ast.BinOp):
            left, right = value_of(node.left), value_of(node.right)
            value = None if left is None or right is None else calculated(node.op, left, right)
        elif isinstance(node, ast.Call) and len(node.args) == 1:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            argument = value_of(node.args[0]) if name not in OF_AN_AXIS else None
            with contextlib.suppress(ArithmeticError, ValueError):
                value = MATHEMATICS[name](argument) if argument is not None and name in MATHEMATICS else argument
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    nodes = syntax_of(function.source).nodes
    assigned = [node for node in nodes if isinstance(node, ast.Assign) and len(node.targets) == 1]
    for node in 2 * assigned:  # twice, since the walk is breadth-first and not in the order of the lines
        target, value = node.targets[0], value_of(node.value)
        if isinstance(target, ast.Name) and value is not None:
            known[target.id] = value
    negated = {id(node.operand) for node in nodes if isinstance(node, ast.UnaryOp)}
    values = (value_of(node) for node in nodes if id(node) not in negated)
    yield from (value for value in values if value is not None)
    yield from _plain_numbers(list(known.values()))
    yield from _plain_numbers([bare(parameter.default) for parameter in function.parameters])


def _plain_numbers(value: Any) -> Iterator[int | float]:
    """Yield the numbers in nested plain data; floats may be written as text, as in `kernels.value_to_json`."""
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
    """Yield the float32 values whose 32 bits, or whose upper or lower 16 bits, are this integer."""
    if not isinstance(number, int) or not 256 <= abs(number) < 1 << 32:
        return
    small = number < 1 << 16
    ways = (number << 16, 0x3FC00000 | number) if small else (number % (1 << 32), 0x3F800000 | number % (1 << 23))
    for bits in ways:
        value = struct.unpack("<f", struct.pack("<I", bits % (1 << 32)))[0]
        if math.isfinite(value):
            yield value


def _combined(one: float, other: float) -> list[float]:
    """Return the results of simple arithmetic on two numbers."""
    quotients = [over / under for over, under in ((one, other), (other, one)) if under]
    return [*quotients, one + other, one - other, one * other]


def _derived(number: float) -> Iterator[float]:
    """Yield values whose square, root, logarithm, exponential or reciprocal is this number."""
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
    """Return the numbers as floats, grouped by magnitude: a huge number hides what is wrong with small ones."""
    bounds = (0.0, ORDINARY * largest, FAR * largest, math.inf)
    found = numbers.floats()
    split = [tuple(it for it in found if low <= abs(it) < high) for low, high in itertools.pairwise(bounds)]
    return [group for group in split if group]


def magnitudes(generator: torch.Generator) -> list[float]:
    """Return a number of each sign for every power of two in a wide range."""
    powers = torch.arange(-LEAST_POWER, LARGEST_POWER)
    sizes = (torch.rand(2, len(powers), generator=generator, dtype=torch.float64) + 1.0) * 2.0**powers
    return [*sizes[0].tolist(), *(-sizes[1]).tolist()]


def room_in(tensor: torch.Tensor) -> int:
    """Return how many numbers `plant` writes into a tensor of that size."""
    return max(1, tensor.numel() // 2)


def fill_with(tensor: torch.Tensor, numbers: Sequence[float], turn: int, generator: torch.Generator) -> None:
    """Write as many of the numbers as there is room for, beginning where the turn before ended."""
    if not is_plain(tensor) or not tensor.numel() or 0 in tensor.stride():
        return
    room = room_in(tensor)
    chosen = [numbers[(room * (turn - 1) + number) % len(numbers)] for number in range(room)]
    flat = tensor.clone().reshape(-1)
    at = torch.randperm(len(flat), generator=generator)[:room].to(flat.device)
    flat[at] = torch.tensor(chosen, dtype=torch.float64).to(flat)
    tensor.copy_(flat.reshape(tensor.shape))


def make_equal(inputs: Sequence[torch.Tensor], own: Sequence[torch.Tensor], generator: torch.Generator) -> None:
    """Set a few elements of inputs to those of parameters and buffers that they are likely to be combined with."""
    for tensor in (it for it in inputs if is_plain(it) and it.is_floating_point() and 0 not in it.stride()):
        for other in (it for it in own if it.is_floating_point() and it.dim() and it.numel()):
            with contextlib.suppress(RuntimeError):  # shapes that do not broadcast
                wide = other.to(tensor.device).expand(tensor.shape)
                if tensor.numel() > 4 * RELATED:
                    index = _places(tensor, torch.ones(tensor.numel(), dtype=torch.bool), RELATED, generator)
                    tensor[index] = wide[index].to(tensor.dtype)


def strew(tensors: Sequence[torch.Tensor], numbers: Numbers, seed: int) -> None:
    """Replace a share of the elements of each tensor by these numbers, where only a part of it will be looked at.

    Floats are at most a few times as large as the largest element, integers in the range of their tensor. Integers
    that all differ may have to.
    """
    generator = torch.Generator().manual_seed(seed)
    for tensor in (it for it in tensors if is_plain(it) and it.numel() and 0 not in it.stride()):
        if tensor.is_floating_point():
            largest = ORDINARY * float(tensor.abs().max())
            chosen: list[float] = [number for number in numbers.floats() if abs(number) <= largest]
        elif tensor.dtype in WHOLE_DTYPES:
            low, high = int(tensor.min()), int(tensor.max())
            is_free = not is_sorted(tensor) and torch.unique(tensor).numel() < tensor.numel()
            chosen = [] if not is_free else [number for number in numbers.wholes() if low <= number <= high]
        else:
            continue
        if chosen:
            taken = torch.rand(tensor.shape, generator=generator) < STREWN_SHARE
            places = taken.nonzero(as_tuple=True)
            at = torch.randint(len(chosen), (int(taken.count_nonzero()),), generator=generator)
            tensor[places] = torch.tensor(chosen, dtype=torch.float64).to(tensor.dtype)[at]


def plant(
    tensors: Sequence[torch.Tensor],
    floats: tuple[float, ...],
    numbers: Numbers,
    generator: torch.Generator,
    *,
    rows: bool,
    anywhere: bool,
    alone: Set[float] = frozenset(),
) -> None:
    """Write the numbers, and the neighbours in the tensor's dtype of all but `alone`, at random places of each tensor.

    With `rows`, some rows are filled with one number, one is sorted ascending, one descending. Tensors of equal shape
    get equal and opposite elements at some places. Whole numbers are written into tensors whose elements are not
    sorted: within the range of their elements or, with `anywhere`, of the dtype, including its limits.
    """
    ready = [it for it in tensors if is_plain(it) and it.numel() and 0 not in it.stride()]
    free = [torch.ones(it.numel(), dtype=torch.bool) for it in ready]  # planted elements are not overwritten
    real = [i for i, it in enumerate(ready) if it.is_floating_point()]
    for i in real if rows else ():
        _plant_rows(ready[i], free[i], [value for value in numbers.row_values() if value in floats], generator)
    for i, j in itertools.combinations(real, 2):
        one, other = ready[i], ready[j]
        if one.shape == other.shape:
            index = _places(one, free[i] & free[j], 2 * RELATED, generator)
            signs = 1.0 - 2.0 * (torch.arange(len(index[0])) % 2)
            other[index] = (one[index] * signs.to(one.device)).to(other.dtype)
            for taken in (free[i], free[j]):
                taken.view(one.shape)[tuple(at.cpu() for at in index)] = False
    for tensor, left in zip(ready, free):
        if tensor.is_floating_point():
            wanted = torch.tensor(floats, dtype=torch.float64).to(tensor.dtype)
            named = [number for number in floats if number not in alone]
            exact = torch.tensor(named, dtype=torch.float64).to(tensor.dtype)
            down, up = (torch.nextafter(exact, torch.full_like(exact, way)) for way in (-math.inf, math.inf))
            _scatter(tensor, left, torch.cat([wanted, up, down]), generator)
            _place(tensor, floats, numbers, generator)
        elif tensor.dtype in WHOLE_DTYPES:
            flat, ends = tensor.reshape(-1), torch.iinfo(tensor.dtype)
            low, high = (ends.min, ends.max) if anywhere else (int(flat.min()), int(flat.max()))
            if not is_sorted(tensor):  # sorted integers may be offsets or positions
                wholes = [*((ends.min, ends.max) if anywhere else ()), *numbers.wholes()]
                wholes += _whole_magnitudes(ends.bits, generator) if anywhere else []
                chosen = [number for number in wholes if low <= number <= high]
                _scatter(tensor, left, torch.tensor(chosen, dtype=tensor.dtype), generator)


def _whole_magnitudes(bits: int, generator: torch.Generator) -> list[int]:
    """Return random integers of every size and sign."""
    drawn = torch.rand(bits - 1, WHOLE_MAGNITUDES, generator=generator, dtype=torch.float64) + 1.0
    sizes = [int(2**power * float(it)) for power, row in enumerate(drawn) for it in row]
    return [size * (1 - 2 * (number % 2)) for number, size in enumerate(sizes)]


def _place(tensor: torch.Tensor, floats: Sequence[float], numbers: Numbers, generator: torch.Generator) -> None:
    """Write named numbers at the named places of some rows, each in a row of its own as long as there are enough."""
    if tensor.dim() < 2 or tensor.numel() < 4 * PLACED_AT_MOST:
        return
    width = tensor.shape[-1]
    places = [it for it in sorted(numbers.in_text) if isinstance(it, int) and 0 <= it < width]
    values = [it for it in numbers.named() if it in floats and not (it.is_integer() and 0 <= it < width)]
    pairs = list(itertools.islice(((place, value) for value in values for place in places), PLACED_AT_MOST))
    rows = torch.randint(tensor.numel() // width, (len(pairs),), generator=generator)
    for (place, value), row in zip(pairs, rows.tolist()):
        at = tuple(int(i) for i in numpy.unravel_index(row, tensor.shape[:-1]))
        tensor[(*at, place)] = value


def _plant_rows(tensor: torch.Tensor, free: torch.Tensor, filled: list[float], generator: torch.Generator) -> None:
    """Fill rows with these numbers and with a large and a small element; sort two rows and duplicate two others.

    Both a large and a small one are used, since operators such as ReLU map a row of one sign to zero.
    """
    room = tensor.shape[0] // 2 - len(filled) - 2 if tensor.dim() > 1 else 0
    if room < 1:
        return
    some = tensor.reshape(-1)[:SAMPLED_FOR_ROWS]
    filled = [float(some.max()), float(some.min())][:room] + filled
    tensor[1].copy_(tensor[0])
    tensor[-1].copy_(tensor[-2])
    inner = torch.randperm(tensor.shape[0] - 4, generator=generator) + 2  # exclude the duplicated rows
    chosen = inner[: len(filled) + 2].tolist()
    lines = [tensor[(row, *(0 for _ in tensor.shape[1:-1]))] for row in chosen]
    if len(lines) < 3:
        return
    lines[0].copy_(lines[0].sort().values)
    lines[1].copy_(lines[1].sort(descending=True).values)
    for line, value in zip(lines[2:], filled):
        line.fill_(value)
    free.view(tensor.shape[0], -1)[[0, 1, *chosen, -2, -1]] = False


def _scatter(tensor: torch.Tensor, free: torch.Tensor, wanted: torch.Tensor, generator: torch.Generator) -> None:
    """Write at random free places, at most half of them; the first elements of `wanted` take precedence."""
    wanted = wanted[torch.isfinite(wanted.double())][: max(1, tensor.numel() // 2)]
    index = _places(tensor, free, len(wanted), generator)
    tensor[index] = wanted[: len(index[0])].to(tensor.device)


def _places(
    tensor: torch.Tensor, free: torch.Tensor, count: int, generator: torch.Generator
) -> tuple[torch.Tensor, ...]:
    """Return up to `count` different free places in random order."""
    tried = torch.randint(len(free), (4 * count + 64,), generator=generator).numpy()
    tried = tried[numpy.sort(numpy.unique(tried, return_index=True)[1])]  # shuffling millions would take a second
    chosen = torch.from_numpy(tried)
    chosen = chosen[free[chosen]][:count]
    if len(chosen) < count:  # nearly all places are taken
        left = free.nonzero().flatten()
        chosen = left[torch.randperm(len(left), generator=generator)[:count]]
    places = numpy.unravel_index(chosen.cpu().numpy(), tensor.shape)  # torch's own would import sympy (1 s)
    return tuple(torch.from_numpy(index).to(tensor.device) for index in places)

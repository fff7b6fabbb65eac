"""The interface for rules: the builder of a `Program`, and the operator call to lower.

Rules register themselves by operator name with `@lowers("add", ...)`. A rule takes the builder and the call and returns
the name of the resulting value, or one name per output. A rule that does not cover a form of the call raises
`BeyondAuthor`, and the call is left to torch. `translation.py` applies the rules to a whole graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.alignment import AlignedGraph, AlignedNode
from triton_agent.policy.author.ir.points import POINTS
from triton_agent.policy.author.ir.program import (
    DTYPES,
    FLOATS,
    VIEWS,
    Formula,
    Number,
    Operand,
    Program,
    Value,
    register_dtype,
)
from triton_agent.policy.author.ir.sizes import (
    Shape,
    Size,
    at_most,
    constant,
    contiguous_strides,
    is_constant,
    is_spread,
    minus,
    plus,
    product,
)
from triton_agent.policy.author.ir.torch_calls import BY_TAPS, TorchCall
from triton_agent.tools.graph.graph import Reference, TensorMeta

Rule = Callable[["Builder", "Call"], "str | Sequence[str | None]"]

RULES: dict[str, Rule] = {}
COMPLEX_RULES: dict[str, Rule] = {}
"""Rules for the complex forms of operators that also have a rule for real numbers."""


def lowers(*operators: str, when_complex: bool = False) -> Callable[[Rule], Rule]:
    """Register the rule for operators, named without `aten.`, or the rule for their complex form."""
    table = COMPLEX_RULES if when_complex else RULES

    def register(rule: Rule) -> Rule:
        for name in (f"aten.{operator}" for operator in operators):
            if name in table:
                raise ValueError(f"{name} has two rules: {table[name].__module__} and {rule.__module__}")
            table[name] = rule
        return rule

    return register


class Call:
    """One operator call for a rule: operands are names of values, numbers carry their value at each size."""

    def __init__(self, builder: Builder, aligned: AlignedNode) -> None:
        self._builder = builder
        self.aligned = aligned
        self.shape: Shape = aligned.shapes[0] if aligned.shapes else ()
        self.dtype: str = aligned.dtypes[0] if aligned.dtypes else ""

    def has(self, name: str) -> bool:
        return self.aligned.arguments.get(name) is not None

    def plain(self, name: str, default: Any = None) -> Any:
        """Return an argument that must not change with the sizes."""
        found = self.aligned.arguments.get(name, default)
        found = default if found is None else found
        if isinstance(found, Number) or (isinstance(found, tuple) and any(isinstance(x, Number) for x in found)):
            raise BeyondAuthor(f"{name} changes with the sizes")
        return found

    def tensor(self, name: str) -> str:
        found = self.aligned.arguments.get(name)
        # the graph may hold a tensor of one element as a number
        if isinstance(found, (int, float, Number)) and self.dtype in FLOATS:
            return self._builder.full(found, (), self.dtype)
        if not isinstance(found, Reference):
            raise BeyondAuthor(f"{name} is not a tensor")
        return self._builder.named(found.name)

    def operand(self, name: str, default: float | None = None) -> Operand:
        """Return a tensor or a number."""
        found = self.aligned.arguments.get(name, default)
        if isinstance(found, Reference):
            return self._builder.named(found.name)
        if isinstance(found, (bool, int, float, Number)):
            return self._builder.number(found)
        raise BeyondAuthor(f"{name} is neither a tensor nor a number")

    def sizes(self, name: str) -> tuple[Size, ...]:
        return tuple(self._builder.size(item) for item in self.aligned.arguments.get(name) or ())

    def tensors(self, name: str) -> tuple[str, ...]:
        found = self.aligned.arguments.get(name) or ()
        return tuple(self._builder.named(item.name) for item in found)

    def dims(self, name: str, rank: int) -> tuple[int, ...]:
        """Return dimensions, counted from the front; all of them if none are given."""
        found = self.plain(name)
        if found is None or found == ():
            return tuple(range(rank))
        found = found if isinstance(found, tuple) else (found,)
        return tuple(sorted(int(dim) % max(1, rank) for dim in found)) if rank else ()


class Builder:
    """Collects the values of a program; equal ones are made once."""

    def __init__(
        self,
        graph: AlignedGraph,
        *,
        exact: bool,
        on_cpu: bool,
        library: bool,
        tf32_convolutions: bool,
        apart: Collection[int] | None,
    ) -> None:
        self.graph = graph
        self.library = library
        self._apart = apart
        self.exact, self.tf32_convolutions = exact, tf32_convolutions
        self.on_cpu = on_cpu
        self.width = graph.width
        self.program = Program(width=graph.width)
        self.used = {name for node in graph.main.nodes for name in node.references()}
        self.used |= {*graph.main.outputs, *graph.main.updates.values()}
        """Values of the operator graph that are used."""
        self._known: dict[Any, str] = {}
        self._names: dict[str, str] = {}
        """Maps a value of the operator graph to a value of the program."""

    def joins_softmax(self, place: int) -> bool:
        """Return True if the softmax and the product of the operator at this graph position are fused."""
        return self._apart is not None and place not in self._apart

    # -- values ----------------------------------------------------------------------------------------------------

    def named(self, name: str) -> str:
        if name not in self._names:
            meta = self.graph.main.sources()[name]
            shape = self.graph.shape_of(name)
            self._names[name] = self.emit("source", shape=shape, dtype=meta.dtype, function=name)
            metas = [graph.sources()[name] for graph in self.graph.graphs]
            if any(not meta.is_contiguous for meta in metas) and not any(map(_is_expanded, metas)):
                self.program.strides[self._names[name]] = self.graph.strides_of(name)
        return self._names[name]

    def bind(self, name: str, value: str) -> None:
        self._names[name] = value
        self.program.results.add(value)
        while self.get(value).operation in VIEWS:  # a kernel stores the value behind the views
            value = self.get(value).inputs[0]
            self.program.results.add(value)

    def replace(self, old: str, new: str) -> None:
        """Let values of the operator graph that stand for `old` stand for `new` from here on."""
        self._names = {name: new if value == old else value for name, value in self._names.items()}
        self.program.results.add(new)

    def get(self, name: str) -> Value:
        return self.program.values[name]

    def shape(self, name: str) -> Shape:
        return self.get(name).shape

    def number(self, number: Any) -> Number:
        return number if isinstance(number, Number) else Number((number,) * self.width)

    def number_of(self, size: Size) -> Number:
        """Return a size as a number for computations."""
        return Number(size)

    def size(self, number: Any) -> Size:
        if isinstance(number, Number):
            return tuple(int(value) for value in number.values)
        return constant(int(number), self.width)

    def formula(self, size: Size, template: str, *operands: Size, name: str) -> None:
        """Record the formula of a size."""
        self.program.formulas.append(Formula(size, template, operands, name))

    def one(self) -> Size:
        return constant(1, self.width)

    def count(self, sizes: Sequence[Size]) -> Number:
        """Return a product of sizes as a number for computations."""
        return Number(tuple(float(entry) for entry in product(sizes, self.width)))

    def count_of(self, sizes: Sequence[Size]) -> Size:
        return product(sizes, self.width)

    def emit(
        self,
        operation: str,
        *operands: Operand,
        shape: Shape,
        dtype: str,
        function: str = "",
        detail: Any = (),
        hint: str = "",
    ) -> str:
        key = (operation, function, operands, shape, dtype, detail)
        if key not in self._known or operation == "torch":
            name = f"v{len(self.program.values)}"
            self._known[key] = name
            self.program.values[name] = Value(
                name=name,
                operation=operation,
                function=function,
                operands=operands,
                shape=shape,
                dtype=dtype,
                detail=detail,
                hint=hint,
            )
        return self._known[key]

    def view_by_torch(self, function: str, name: str, shape: Shape, dtype: str, *, gaps: bool = False) -> str:
        """Return a view of a tensor that only torch can make; equal requests share it."""
        key = ("called", function, name)
        if key not in self._known:
            call = TorchCall(arguments=(("self", ("operand", 0)),), overload="default", place=-1, gaps=(gaps,))
            made = self.emit("torch", name, shape=shape, dtype=dtype, function=function, detail=call, hint="pairs")
            self._known[key] = made
        return self._known[key]

    def forget(self, known: Mapping[str, Value]) -> None:
        """Forget all values but these."""
        self.program.values = dict(known)
        self.program.softmaxes = {name: one for name, one in self.program.softmaxes.items() if name in known}
        self._known = {key: name for key, name in self._known.items() if name in known}
        self._names = {key: name for key, name in self._names.items() if name in known}

    # -- points ----------------------------------------------------------------------------------------------------

    def point(self, function: str, *operands: Operand, dtype: str, hint: str = "", compute: str = "") -> str:
        """Apply `function` to every element, after a cast of the operands to the dtype of the computation."""
        wanted = compute or dtype
        if wanted not in DTYPES or dtype not in DTYPES:
            raise BeyondAuthor(f"no kernels for {wanted}")
        casted = tuple(self._in_dtype(operand, wanted) for operand in operands)
        return self._point(function, casted, dtype, hint)

    def _point(self, function: str, operands: tuple[Operand, ...], dtype: str, hint: str) -> str:
        shape = self.broadcast([self.shape(operand) for operand in operands if isinstance(operand, str)])
        return self.emit(
            "point", *operands, shape=shape, dtype=dtype, function=function, hint=hint or POINTS[function].hint
        )

    def _in_dtype(self, operand: Operand, dtype: str) -> Operand:
        if isinstance(operand, Number):
            if dtype in FLOATS:
                return Number(tuple(float(value) for value in operand.values))
            return operand if dtype == "bool" else Number(tuple(_whole(value) for value in operand.values))
        return (
            self.cast(operand, dtype) if register_dtype(self.get(operand).dtype) != register_dtype(dtype) else operand
        )

    def where(self, condition: str, yes: Operand, no: Operand, dtype: str, hint: str = "") -> str:
        condition = self.cast(condition, "bool")
        return self._point("where", (condition, self._in_dtype(yes, dtype), self._in_dtype(no, dtype)), dtype, hint)

    def cast(self, name: str, dtype: str) -> str:
        value = self.get(name)
        if value.dtype == dtype:
            return name
        if value.dtype not in DTYPES or dtype not in DTYPES:
            raise BeyondAuthor(f"no kernels for {value.dtype} to {dtype}")
        return self.emit("point", name, shape=value.shape, dtype=dtype, function="cast", hint=value.hint)

    def copied(self, name: str, which: int = 0) -> str:
        """Return a copy of a value. Different numbers `which` give different copies."""
        value = self.get(name)
        if value.dtype not in DTYPES:
            raise BeyondAuthor(f"no kernels for {value.dtype}")
        detail = (which,) if which else ()
        return self.emit(
            "point", name, shape=value.shape, dtype=value.dtype, function="cast", detail=detail, hint=value.hint
        )

    def rounds_to_tf32(self, dtype: str) -> bool:
        """Return True if a convolution's operands are rounded to the nearest TF32 number when they are copied.

        The matrix unit truncates instead, which errs 2.6 times as much (H200, `convolutions.csv`).
        """
        return self.tf32_convolutions and dtype == "float32"

    def laid_out(self, name: str, order: Sequence[int]) -> str:
        """Return a copy of a convolution's operand with its dimensions in this memory order, the last contiguous."""
        value = self.get(name)
        if value.dtype not in DTYPES:
            raise BeyondAuthor(f"no kernels for {value.dtype}")
        if self.rounds_to_tf32(value.dtype):
            name = self.point("to_tf32", name, dtype=value.dtype)
        made = self.emit(
            "point",
            name,
            shape=value.shape,
            dtype=value.dtype,
            function="copy",
            detail=tuple(order),
            hint=value.hint or "laid_out",
        )
        strides = contiguous_strides(tuple(value.shape[dim] for dim in order), self.width)
        self.program.strides[made] = tuple(strides[order.index(dim)] for dim in range(len(order)))
        self.program.results.add(made)  # stored in its own dtype
        return made

    def store_apart(self, name: str) -> None:
        """Have the product behind these views stored by a kernel that does not rearrange its elements."""
        while self.get(name).operation in VIEWS:
            name = self.get(name).inputs[0]
        self.program.apart.add(name)

    def prepared_by_taps(self, weight: str) -> str:
        """Return a convolution's weight as [out, *taps, in], which the host transposes once for each parameter."""
        shape = self.shape(weight)
        return self.emit(
            "torch",
            weight,
            shape=(shape[0], *shape[2:], shape[1]),
            dtype=self.get(weight).dtype,
            function=BY_TAPS,
            detail=("tf32",) if self.rounds_to_tf32(self.get(weight).dtype) else (),
            hint="weight",
        )

    def full(self, number: Any, shape: Shape, dtype: str) -> str:
        if dtype not in DTYPES:
            raise BeyondAuthor(f"no kernels for {dtype}")
        return self.emit("full", self.number(number), shape=shape, dtype=dtype)

    def iota(self, length: Size, *, start: Any = 0, step: Any = 1, dtype: str = "int64") -> str:
        return self.emit("iota", self.number(start), self.number(step), shape=(length,), dtype=dtype, hint="position")

    def broadcast(self, shapes: Sequence[Shape]) -> Shape:
        rank = max((len(shape) for shape in shapes), default=0)
        result: list[Size] = [self.one()] * rank
        for shape in shapes:
            for i, size in enumerate(shape, rank - len(shape)):
                if any(1 not in pair and pair[0] != pair[1] for pair in zip(size, result[i])):
                    raise BeyondAuthor("sizes that do not broadcast")
                result[i] = tuple(old if new == 1 else new for new, old in zip(size, result[i]))
        for shape in shapes:
            for size, wide in zip(shape, result[rank - len(shape) :]):
                self.note_step(size, wide)
        return tuple(result)

    def note_step(self, size: Size, wide: Size) -> None:
        """Record the index step of a dimension that is broadcast at some sizes only; the host computes it."""
        if size != wide and not is_constant(size, 1):
            self.formula(is_spread(size), "int({0} > 1)", size, name="step")

    # -- views -----------------------------------------------------------------------------------------------------

    def reshape(self, name: str, shape: Shape) -> str:
        value = self.get(name)
        if value.shape == shape:
            return name
        if value.operation == "reshape":
            return self.reshape(value.inputs[0], shape)
        return self.emit("reshape", name, shape=shape, dtype=value.dtype, hint=value.hint)

    def permute(self, name: str, order: Sequence[int]) -> str:
        value = self.get(name)
        if tuple(order) == tuple(range(len(value.shape))):
            return name
        shape = tuple(value.shape[i] for i in order)
        return self.emit("permute", name, shape=shape, dtype=value.dtype, detail=tuple(order), hint=value.hint)

    def swap(self, name: str, a: int, b: int) -> str:
        order = list(range(len(self.shape(name))))
        order[a], order[b] = order[b], order[a]
        return self.permute(name, order)

    def expand(self, name: str, shape: Shape) -> str:
        value = self.get(name)
        if value.shape == shape:
            return name
        for size, wide in zip(value.shape, shape[len(shape) - len(value.shape) :]):
            self.note_step(size, wide)
        return self.emit("expand", name, shape=shape, dtype=value.dtype, hint=value.hint)

    def slice(self, name: str, dim: int, start: Size, length: Size, step: int = 1) -> str:
        value = self.get(name)
        if length == value.shape[dim] and is_constant(start, 0) and step == 1:
            return name
        if value.operation == "concat" and value.detail == dim and step > 0:
            piece = self._piece(value, start, plus(start, tuple((n - 1) * step for n in length)))
            if piece is not None:
                return self.slice(piece[0], dim, piece[1], length, step)
        shape = (*value.shape[:dim], length, *value.shape[dim + 1 :])
        return self.emit("slice", name, shape=shape, dtype=value.dtype, detail=(dim, start, step), hint=value.hint)

    def _piece(self, joined: Value, first: Size, last: Size) -> tuple[str, Size] | None:
        """Return the concatenated piece that holds both positions, and the first position within it; None if there is
        none.
        """
        begin = constant(0, self.width)
        for name in joined.inputs:
            end = plus(begin, self.shape(name)[joined.detail])
            if at_most(begin, first) and all(place < limit for place, limit in zip(last, end)):
                return name, minus(first, begin)
            begin = end
        return None

    def unsqueeze(self, name: str, dim: int) -> str:
        shape = self.shape(name)
        dim %= len(shape) + 1
        return self.reshape(name, (*shape[:dim], self.one(), *shape[dim:]))

    # -- reductions ------------------------------------------------------------------------------------------------

    def reduce(
        self, function: str, name: str, dims: Sequence[int], *, keep: bool = False, dtype: str = "", hint: str = ""
    ) -> str:
        value = self.get(name)
        if value.dtype not in DTYPES:
            raise BeyondAuthor(f"no kernels for {value.dtype}")
        kept = tuple(size for i, size in enumerate(value.shape) if i not in dims)
        made = name
        if len(kept) < len(value.shape):
            made = self.emit(
                "reduce",
                name,
                shape=kept,
                dtype=dtype or value.dtype,
                function=function,
                detail=tuple(dims),
                hint=hint or REDUCTION_HINTS[function],
            )
        elif dtype and dtype != value.dtype:
            made = self.cast(name, dtype)
        return self.reshape(made, self.kept_shape(value.shape, dims)) if keep else made

    def kept_shape(self, shape: Shape, dims: Sequence[int]) -> Shape:
        return tuple(self.one() if i in dims else size for i, size in enumerate(shape))

    def mean(self, name: str, dims: Sequence[int], *, keep: bool = False, dtype: str, hint: str = "mean") -> str:
        shape = self.shape(name)
        total = self.reduce("sum", name, dims, keep=keep, dtype=dtype)
        return self.point("div", total, self.count([shape[i] for i in dims]), dtype=dtype, hint=hint)


REDUCTION_HINTS = {
    "sum": "total",
    "prod": "product",
    "max": "largest",
    "min": "smallest",
    "any": "any_true",
    "all": "all_true",
    "argmax": "where_largest",
    "argmin": "where_smallest",
}


def _is_expanded(meta: TensorMeta) -> bool:
    """Return True for an expanded tensor. Kernels must not assume its strides, because a caller may pass a full tensor
    instead.
    """
    return any(size > 1 and stride == 0 for size, stride in zip(meta.shape, meta.strides))


def _whole(value: float) -> float:
    return int(value) if float(value).is_integer() else value

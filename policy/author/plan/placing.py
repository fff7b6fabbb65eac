"""Chooses the memory layout of stored values: pieces of a concatenation, and values between kernels.

Pieces of a concatenated result are stored directly in the result, so that no kernel has to copy them. The result is
allocated first, and each kernel that stores a piece writes to a view of it. A piece that is not computed by a kernel,
such as an input, is copied. `writer.py` plans both ways and keeps the one with fewer kernels or less traffic. Not
covered: concatenations that are not outputs; their users read the pieces where they are.

Values between kernels get the layout that suits a product. A product over many small matrices whose batch is the
innermost dimension would access single elements far apart. No output shows such a value, so its batch becomes the
outermost dimension in memory. Likewise the channels of an image that a convolution reads become the innermost. What any
other kernel stores gets the order in which it reads, if all kernels that read the value can follow. A product's result
lies so that a norm of it reads neighbours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from triton_agent.policy.author.ir.program import CONVOLUTION, FLOATS, HALF, ITEM_BYTES, VIEWS, Placed, Program, Value
from triton_agent.policy.author.ir.sizes import Shape, Size, constant, contiguous_strides, is_constant, plus, product
from triton_agent.policy.author.plan.indexing import Axis, Index
from triton_agent.policy.author.plan.kernel_plan import Kernel, Root
from triton_agent.policy.author.plan.memory_order import keeps_order, order_of_results
from triton_agent.policy.author.plan.tiling import SMALLEST

SHORT_PIECE = 16
"""Fewest neighbouring elements of which half a memory line is full."""
WIDELY_SHARED = 32
"""Fewest elements that use each element of a value picked by index for the value to be stored."""
NO_VALUES_OF_THEIR_OWN = VIEWS | {"source", "torch", "full", "iota", "concat", "pad", "window", "roll", "scatter"}


def joined_results(program: Program, wanted: Collection[str]) -> list[str]:
    """Return the values that are concatenations, possibly with point functions, and are stored only as outputs."""
    for_torch = {name for value in program.values.values() if value.operation == "torch" for name in value.inputs}
    others = {_base(program, name) for name in (*program.updates.values(), *for_torch)}
    return [name for name in wanted if name not in others and _pieces(program, name, {}) is not None]


def with_pieces_placed(program: Program, name: str, wanted: Collection[str]) -> Program:
    """Return a program in which the pieces of a value are stored inside it."""
    program = _with_functions_of_pieces(program, name)
    whole, width = program.values[name], program.width
    strides, start = contiguous_strides(whole.shape, width), constant(0, width)
    copies: list[Value] = []
    pieces: list[str] = []
    placed, laid_out = dict(program.placed), dict(program.strides)
    for number, piece in enumerate(whole.inputs):
        value = program.values[piece]
        found = _behind_views(program, value, strides)
        if found is None or found[0].name in {*wanted, *laid_out} or not _fits(program, found[0], name):
            copy = dataclasses.replace(
                value, name=f"{name}_copy{number}", operation="point", function="copy", operands=(piece,), detail=()
            )
            copies.append(copy)
            found = copy, strides
        base, laid_out[base.name] = found
        placed[base.name] = Placed(whole=name, dim=whole.detail, start=start, length=value.shape[whole.detail])
        pieces.append(copies[-1].name if copies and copies[-1] is base else piece)
        start = plus(start, value.shape[whole.detail])
    program = _replaced(program, dataclasses.replace(whole, operands=tuple(pieces)), copies)
    return dataclasses.replace(program, strides=laid_out, placed=placed)


def stored_instead(program: Program, wanted: Iterable[str]) -> set[str]:
    """Return the values that kernels must store: for a value that is concatenated in place, its pieces."""
    wholes = {place.whole for place in program.placed.values()}
    return (set(wanted) - wholes) | program.placed.keys()


def work_of(program: Program, kernels: Collection[Kernel]) -> tuple[int, int]:
    """Return the number of kernels, and the bytes that they move at the main size."""
    moved = [name for kernel in kernels for name in (*kernel.loads, *(root.value for root in kernel.roots))]
    return len(kernels), sum(program.values[name].elements() * ITEM_BYTES[program.stored_dtype(name)] for name in moved)


def _pieces(program: Program, name: str, made: dict[str, Value]) -> tuple[list[str], int] | None:
    """Return the pieces of a concatenation and its dimension; None if the value is no concatenation.

    A point function of a concatenation is a concatenation of that function of each piece. These new values are added to
    `made`.
    """
    value = program.values[name]
    if value.operation == "concat":
        return list(value.inputs), value.detail
    alike = [other for other in value.inputs if program.values[other].shape == value.shape]
    inner = _pieces(program, alike[0], made) if value.operation == "point" and len(alike) == 1 else None
    if inner is None:
        return None
    pieces, dim = inner
    for other in value.inputs:
        shape = program.values[other].shape
        along = dim - len(value.shape) + len(shape)
        if other != alike[0] and along >= 0 and not is_constant(shape[along], 1):
            return None
    functions = []
    for number, piece in enumerate(pieces):
        length = (made[piece] if piece in made else program.values[piece]).shape[dim]
        functions.append(f"{name}_of{number}")
        made[functions[-1]] = dataclasses.replace(
            value,
            name=functions[-1],
            operands=tuple(piece if operand == alike[0] else operand for operand in value.operands),
            shape=(*value.shape[:dim], length, *value.shape[dim + 1 :]),
        )
    return functions, dim


def _with_functions_of_pieces(program: Program, name: str) -> Program:
    """Return a program in which the concatenation that makes this value is its last step."""
    made: dict[str, Value] = {}
    found = _pieces(program, name, made)
    assert found is not None
    value = program.values[name]
    if value.operation == "concat":
        return program
    joined = dataclasses.replace(value, operation="concat", function="", operands=tuple(found[0]), detail=found[1])
    return _replaced(program, joined, list(made.values()))


def _replaced(program: Program, value: Value, before: list[Value]) -> Program:
    """Return a program with this value in place of the one with its name, preceded by new values."""
    values: dict[str, Value] = {}
    for old in program.values.values():
        if old.name == value.name:
            values |= {new.name: new for new in before}
        values[old.name] = value if old.name == value.name else old
    known = value.name in program.results
    results = program.results | {new.name for new in before} if known else program.results
    origins = {new.name: program.origins[value.name] for new in before} if value.name in program.origins else {}
    return dataclasses.replace(program, values=values, results=results, origins=program.origins | origins)


def _fits(program: Program, base: Value, name: str) -> bool:
    """Return True if a kernel computes the value and stores it in the dtype of the whole."""
    own = base.operation not in NO_VALUES_OF_THEIR_OWN
    return own and program.stored_dtype(base.name) == program.stored_dtype(name)


def _behind_views(program: Program, value: Value, strides: Shape) -> tuple[Value, Shape] | None:
    """Return the value behind a piece's views, and the strides that it needs so that the piece has `strides`; None if
    there are no such strides.
    """
    while value.operation in ("reshape", "permute"):
        inner = program.values[value.inputs[0]]
        if value.operation == "permute":
            strides = tuple(strides[value.detail.index(dim)] for dim in range(len(inner.shape)))
        else:
            one = constant(1, program.width)
            apart = [stride for size, stride in zip(value.shape, strides) if not is_constant(size, 1)]
            if [s for s in inner.shape if not is_constant(s, 1)] != [s for s in value.shape if not is_constant(s, 1)]:
                return None
            left = iter(apart)
            strides = tuple(one if is_constant(size, 1) else next(left) for size in inner.shape)
        value = inner
    return value, strides


def _base(program: Program, name: str) -> str:
    while program.values[name].operation in VIEWS:
        name = program.values[name].inputs[0]
    return name


# -- between kernels ---------------------------------------------------------------------------------------------------


def shared_lookups(program: Program) -> list[str]:
    """Return values picked by index that many elements use: a table of biases by distance, for all heads of a batch.

    They are stored once, as they are used. Otherwise each user would load an index first, and then a scattered element.
    Numbers that hold for whole rows (the noise level of each image) are not stored: a row looks up one.
    """
    users, values = program.users(), program.values
    found: list[str] = []
    for name, value in values.items():
        if value.operation != "take" or value.dtype not in FLOATS:
            continue
        while len(users[name]) == 1 and values[users[name][0]].operation in ("permute", "reshape"):
            (name,) = users[name]
        if values[name].shape and is_constant(values[name].shape[-1], 1):
            continue
        sharing = [values[user].elements() for user in users[name] if values[user].operation == "point"]
        if sharing and min(sharing) >= WIDELY_SHARED * value.elements() and len(sharing) == len(users[name]):
            found.append(name)
    return found


def better_strides(program: Program, kernels: Iterable[Kernel], seen: Collection[str]) -> dict[str, Shape]:
    """Return new strides for values between kernels. Values in `seen`, which outputs and torch operators show, keep
    theirs.
    """
    kernels = list(kernels)
    made = {root.value for kernel in kernels for root in kernel.roots} - set(seen)
    found: dict[str, Shape] = {}
    for kernel in kernels:
        for root in kernel.roots if kernel.kind in ("rows", "points") else ():
            strides = _as_read(program, kernel, root) if root.value in made - program.strides.keys() else None
            if strides is not None and all(_can_follow(program, other, root.value, strides) for other in kernels):
                found[root.value] = strides
    for kernel in kernels:
        if kernel.kind == "product":
            for value, index in _accesses(kernel):
                if value in made and value not in program.strides and _is_innermost(program, kernel, value, index):
                    found[value] = _last_dimension_first(program.values[value].shape, program.width)
                elif value in made and value not in program.strides and _is_image(program, kernel, value, index):
                    found[value] = _second_dimension_last(program.values[value].shape, program.width)
            for root in kernel.roots:
                if root.value in made - program.strides.keys() - found.keys():
                    strides = _as_reduced(program, kernel, root, kernels)
                    found |= {} if strides is None else {root.value: strides}
    return found


def _as_reduced(program: Program, kernel: Kernel, root: Root, kernels: Iterable[Kernel]) -> Shape | None:
    """Return strides of a product's result with which reductions of it read neighbours; None to leave it as it is."""
    readers = [other for other in kernels if root.value in other.loads]
    shape = program.values[root.value].shape
    if len(shape) == 2 and _are_scattered(readers, root.value):
        return _last_dimension_first(shape, program.width)
    return _columns_last(program, kernel, root, readers)


def _columns_last(program: Program, kernel: Kernel, root: Root, readers: Collection[Kernel]) -> Shape | None:
    """Return strides with the product's columns last if each reader reduces all columns, as a norm over channels does;
    else None.
    """
    shape, width = program.values[root.value].shape, program.width
    if len(kernel.columns) != 1 or any(other.kind != "rows" or keeps_order(other) for other in readers):
        return None
    apart, plain = root.index.coefficient(kernel.columns[0]), contiguous_strides(shape, width)
    dims = [dim for dim, stride in enumerate(plain) if stride == apart and shape[dim] == kernel.columns[0].size]
    if is_constant(apart, 1) or len(dims) != 1:
        return None
    for other in readers:
        nearest = {axis for index in _indices_of(other, root.value) for axis in _axes_apart(index, apart)}
        stored = {axis for one in other.roots for axis in _axes_apart(one.index, constant(1, width))}
        is_whole = bool(nearest) and all(axis.size == kernel.columns[0].size for axis in nearest)
        if not is_whole or not nearest | stored <= set(other.reduced):
            return None
    return _strides_in_order(shape, [*(dim for dim in range(len(shape)) if dim != dims[0]), dims[0]], width)


def _indices_of(kernel: Kernel, value: str) -> list[Index]:
    """Return the indices at which a kernel loads a value."""
    read = [node.index for node in kernel.nodes if node.kind == "load" and node.tensor == value]
    return [index for index in read if index is not None]


def _axes_apart(index: Index, apart: Size) -> set[Axis]:
    """Return the axes along which neighbours are so far apart."""
    return {axis for axis in index.axes() if index.coefficient(axis) == apart}


def _are_scattered(readers: Collection[Kernel], value: str) -> bool:
    """Return True if reductions meet a few columns of each row of a matrix: the channels of a group, pixel by pixel."""
    rows = [kernel for kernel in readers if kernel.kind == "rows"]
    return all(kernel.kind in ("rows", "points") for kernel in readers) and any(
        not keeps_order(kernel) and _has_short_pieces(kernel, index)
        for kernel in rows
        for index in _indices_of(kernel, value)
    )


def _has_short_pieces(kernel: Kernel, index: Index) -> bool:
    """Return True if a row of the kernel consists of pieces in memory that fill less than half of a memory line."""
    inner = {axis for axis in kernel.reduced if not is_constant(index.coefficient(axis), 0)}
    near = [axis for axis in inner if is_constant(index.coefficient(axis), 1)]
    return len(inner) > 1 and bool(near) and near[0].size[0] < SHORT_PIECE


def _as_read(program: Program, kernel: Kernel, root: Root) -> Shape | None:
    """Return strides for a result in the order in which the kernel reads; None if that is the order of its shape."""
    kept, shape, width = order_of_results(kernel), program.values[root.value].shape, program.width
    if kept == kernel.kept or root.index.axes() != set(kept):
        return None
    by_axis = dict(zip(kept, contiguous_strides(tuple(axis.size for axis in kept), width)))
    found = []
    for size, stride in zip(shape, contiguous_strides(shape, width)):
        axis = next((axis for axis in kept if root.index.coefficient(axis) == stride), None)
        if is_constant(size, 1):
            found.append(constant(1, width))
        elif axis is None or axis.size != size:
            return None
        else:
            found.append(by_axis[axis])
    return tuple(found)


def _can_follow(program: Program, kernel: Kernel, value: str, strides: Shape) -> bool:
    """Return True if a kernel reads the value as well with these strides, or does not read it."""
    read = _indices_of(kernel, value)
    if not read or kernel.kind == "points":
        return True
    if kernel.kind == "rows":
        return not keeps_order(kernel)
    shape, one = program.values[value].shape, constant(1, program.width)
    last = strides.index(one)
    apart = contiguous_strides(shape, program.width)[last]
    inner = {axis for index in read for axis in index.axes() if index.coefficient(axis) == apart}
    is_half = program.stored_dtype(value) in HALF
    return kernel.kind == "product" and bool(inner) and (inner <= set(kernel.reduced) or is_half)


def _is_image(program: Program, kernel: Kernel, value: str, index: Index) -> bool:
    """Return True if a convolution reads the value as an image, with its channels in the second dimension."""
    shape = program.values[value].shape
    of_convolution = any(program.values[name].detail == (CONVOLUTION,) for name in kernel.covers)
    apart = [axis for axis in kernel.reduced if index.coefficient(axis) == product(shape[2:], program.width)]
    return of_convolution and len(shape) > 2 and len(apart) == 1 and apart[0].size[0] >= SMALLEST


def _second_dimension_last(shape: Shape, width: int) -> Shape:
    return _strides_in_order(shape, [0, *range(2, len(shape)), 1], width)


def _strides_in_order(shape: Shape, order: Sequence[int], width: int) -> Shape:
    """Return strides with which these dimensions lie in this order in memory, the last one contiguous."""
    strides = contiguous_strides(tuple(shape[dim] for dim in order), width)
    return tuple(strides[order.index(dim)] for dim in range(len(shape)))


def _accesses(kernel: Kernel) -> list[tuple[str, Index]]:
    """Return the operands and results of a product, each with its index."""
    read = [(node.tensor, node.index) for node in kernel.nodes if node.kind == "load" and node.index is not None]
    reduced = set(kernel.reduced)
    operands = [(tensor, index) for tensor, index in read if index.axes() & reduced]
    return operands + [(root.value, root.index) for root in kernel.roots]


def _is_innermost(program: Program, kernel: Kernel, value: str, index: Index) -> bool:
    """Return True if the product's batch runs along the last dimension."""
    shape, one = program.values[value].shape, constant(1, program.width)
    return any(index.coefficient(axis) == one and axis.size == shape[-1] for axis in kernel.batch)


def _last_dimension_first(shape: Shape, width: int) -> Shape:
    return _strides_in_order(shape, [len(shape) - 1, *range(len(shape) - 1)], width)

"""How values between kernels lie in memory, where a product asks for another order than their dimensions have.

A product of many small matrices whose count is the innermost dimension would read and write single elements far
apart. Nobody outside sees what lies between two kernels, so that dimension becomes the outermost one in memory. For the
same reason the channels of an image that a convolution reads become the innermost one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from triton_agent.policy.author.ir.program import CONVOLUTION, Program
from triton_agent.policy.author.ir.sizes import Shape, constant, contiguous_strides, product
from triton_agent.policy.author.plan.indexing import Index
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.product_tiles import SMALLEST


def better_strides(program: Program, kernels: Iterable[Kernel], seen: Collection[str]) -> dict[str, Shape]:
    """New strides by value; `seen` are the values that outputs and operators of torch show."""
    made = {root.value for kernel in kernels for root in kernel.roots} - set(seen)
    found: dict[str, Shape] = {}
    for kernel in kernels:
        if kernel.kind == "product":
            for value, index in _accesses(kernel):
                if value in made and value not in program.strides and _is_innermost(program, kernel, value, index):
                    found[value] = _last_dimension_first(program.values[value].shape, program.width)
                elif value in made and value not in program.strides and _is_image(program, kernel, value, index):
                    found[value] = _second_dimension_last(program.values[value].shape, program.width)
    return found


def _is_image(program: Program, kernel: Kernel, value: str, index: Index) -> bool:
    """Return whether a convolution reads the value, whose channels are its second dimension."""
    shape = program.values[value].shape
    of_convolution = any(program.values[name].detail == (CONVOLUTION,) for name in kernel.covers)
    apart = [axis for axis in kernel.reduced if index.coefficient(axis) == product(shape[2:], program.width)]
    return of_convolution and len(shape) > 2 and len(apart) == 1 and apart[0].size[0] >= SMALLEST


def _second_dimension_last(shape: Shape, width: int) -> Shape:
    strides = contiguous_strides((shape[0], *shape[2:], shape[1]), width)
    return (strides[0], strides[-1], *strides[1:-1])


def _accesses(kernel: Kernel) -> list[tuple[str, Index]]:
    """Operands and results, and where they are read and written."""
    read = [(node.tensor, node.index) for node in kernel.nodes if node.kind == "load" and node.index is not None]
    reduced = set(kernel.reduced)
    operands = [(tensor, index) for tensor, index in read if index.axes() & reduced]
    return operands + [(root.value, root.index) for root in kernel.roots]


def _is_innermost(program: Program, kernel: Kernel, value: str, index: Index) -> bool:
    """Return whether the last dimension counts the products."""
    shape, one = program.values[value].shape, constant(1, program.width)
    return any(index.coefficient(axis) == one and axis.size == shape[-1] for axis in kernel.batch)


def _last_dimension_first(shape: Shape, width: int) -> Shape:
    strides = contiguous_strides((shape[-1], *shape[:-1]), width)
    return (*strides[1:], strides[0])

"""Orders the axes of a kernel over rows as the elements that it reads lie in memory.

The order in which a view shows its dimensions says nothing about memory: after a transposition, neighbours along the
last dimension are far apart. Threads with neighbouring numbers should read neighbouring elements, so the kept and the
reduced axes are sorted by their distances in the tensor that is read most. What is stored follows the same order where
no output shows it (`placing.py`).
"""

from __future__ import annotations

import dataclasses
import math

from triton_agent.policy.author.ir.sizes import is_constant
from triton_agent.policy.author.plan.indexing import Axis, Index
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.tiling import depends_on


def in_memory_order(kernel: Kernel) -> Kernel:
    """Return a kernel over rows with its axes in the order of the tensor that it reads most.

    So does a kernel over elements if its results lie in the same order; else its tiles are turned (`skeleton_points`).
    """
    index = _read_most(kernel)
    if kernel.kind not in ("rows", "points") or index is None:
        return kernel
    if kernel.kind == "points" and any(
        _nearest(kernel.kept, root.index) != _nearest(kernel.kept, index) for root in kernel.roots
    ):
        return kernel
    reduced = kernel.reduced if keeps_order(kernel) else _sorted(kernel.reduced, index)
    return dataclasses.replace(kernel, kept=_sorted(kernel.kept, index), reduced=reduced)


def order_of_results(kernel: Kernel) -> tuple[Axis, ...]:
    """Return the kept axes in the order in which the kernel reads."""
    index = _read_most(kernel)
    return kernel.kept if index is None else _sorted(kernel.kept, index)


def turns(kernel: Kernel) -> bool:
    """Return True if the kernel stores elements of its rows in another order than it reads them in."""
    read, axes = _read_most(kernel), (*kernel.kept, *kernel.reduced)
    along = [root.index for root in kernel.roots if root.index.axes() & set(kernel.reduced)]
    return read is not None and any(_nearest(axes, read) != _nearest(axes, index) for index in along)


def _read_most(kernel: Kernel) -> Index | None:
    """Return the index of the load with the most elements that is not looked up."""
    live, varies = kernel.live(), depends_on(kernel)
    read: list[tuple[int, Index]] = []
    for i in sorted(live):
        index = kernel.nodes[i].index
        if kernel.nodes[i].kind == "load" and index is not None and not index.lookups():
            read.append((math.prod(axis.size[0] for axis in varies[i]), index))
    return max(read, key=lambda one: one[0])[1] if read else None


def keeps_order(kernel: Kernel) -> bool:
    """Return True if the elements of a row have to be met in their order: in a scan, or to say where an extremum is."""
    live = kernel.live()
    special = [node for i, node in enumerate(kernel.nodes) if i in live and node.kind in ("reduce", "scan")]
    return any(node.kind == "scan" or node.function.startswith("arg") for node in special)


def _sorted(axes: tuple[Axis, ...], index: Index) -> tuple[Axis, ...]:
    """Return the axes, the one with the nearest neighbours last; unchanged if it is last, or if there is none."""
    near = _nearest(axes, index)
    if near is None or near == axes[-1] or any(index.coefficient(axis)[0] <= 0 for axis in axes):
        return axes
    return tuple(sorted(axes, key=lambda axis: -index.coefficient(axis)[0]))


def _nearest(axes: tuple[Axis, ...], index: Index) -> Axis | None:
    """Return the axis along which neighbours lie beside each other; the last one if there are several."""
    return next((axis for axis in reversed(axes) if is_constant(index.coefficient(axis), 1)), None)

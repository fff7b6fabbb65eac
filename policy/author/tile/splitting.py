"""Splits a kernel in two where it would have too few programs.

A sum over a whole tensor is one row, and a product of a few rows with a long inner dimension is one tile: most of the
GPU would be idle. The row or the inner dimension is split into parts. A first kernel stores a result for each part in
scratch memory, and a second one combines the parts and computes the rest.
"""

from __future__ import annotations

import dataclasses

from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.ir.program import Program, Value
from triton_agent.policy.author.ir.sizes import Size, constant, contiguous_strides, product
from triton_agent.policy.author.plan.attempt import BEYOND_CACHE, LONG_ROW, leaves_idle
from triton_agent.policy.author.plan.indexing import Axis, Index, added, linear, of, scaled
from triton_agent.policy.author.plan.kernel_graph import Node, renumbered
from triton_agent.policy.author.plan.kernel_plan import Kernel, Root
from triton_agent.policy.author.plan.tiling import ROWS_ACROSS, is_across

MOST_PARTS = 256
ROUNDS = 32
"""Parts for each processor of what no cache holds, so that they end at about the same time."""
LONG_INNER = 1024
"""Shortest inner dimension of a product that is worth splitting."""
_WORTH_IT = 1 << 15
"""Fewest elements for which a second launch pays off."""
_PER_PART = 4096
"""Fewest elements in a part of a row."""
_PER_PART_ACROSS = 128
"""Fewest elements in a part of a row where a program takes many rows at once."""
_INNER_PER_PART = 256
_MERGED = frozenset({"sum", "max", "min", "prod", "any", "all"})
"""Reductions whose parts are combined by the same function."""


def parts_of(program: Program, kernel: Kernel, tiles: Tiles, processors: int) -> int:
    """Return the number of parts that a kernel should be split into; usually one."""
    if not (_row_is_mergeable(kernel) if kernel.kind == "rows" else kernel.kind == "product" and not kernel.side):
        return 1
    if tiles.splits:
        return tiles.splits
    length = product((axis.size for axis in kernel.reduced), program.width)[0]
    results = product((axis.size for axis in kernel.kept), program.width)[0]
    if kernel.kind == "rows":
        across = is_across(kernel)
        programs = max(1, results // (ROWS_ACROSS if across else 1))
        least = _PER_PART_ACROSS if across else _PER_PART
        enough = not leaves_idle(programs, length * results, processors)
        if enough or length * results < _WORTH_IT or length <= (least if across else LONG_ROW):
            return 1
        each = ROUNDS if length * results >= BEYOND_CACHE else 4
        return _power_below(min(MOST_PARTS, each * processors // programs, length // least))
    programs = max(1, results // (64 * 64))
    if length < LONG_INNER or 2 * programs > processors:
        return 1
    return _power_below(min(16, processors // programs, length // _INNER_PER_PART))


def _row_is_mergeable(kernel: Kernel) -> bool:
    live = kernel.live()
    special = [kernel.nodes[i] for i in live if kernel.nodes[i].kind in ("reduce", "scan")]
    reduced = set(kernel.reduced)
    if any(node.kind == "scan" or node.function not in _MERGED for node in special):
        return False
    if any(root.index.axes() & reduced for root in kernel.roots):
        return False
    return not any(_depends_on_reduction(kernel, i) for i in live if kernel.nodes[i].kind == "reduce")


def _depends_on_reduction(kernel: Kernel, node: int) -> bool:
    waiting, seen = list(kernel.nodes[node].inputs), set[int]()
    while waiting:
        current = waiting.pop()
        if kernel.nodes[current].kind == "reduce":
            return True
        if current not in seen:
            seen.add(current)
            waiting.extend(kernel.nodes[current].inputs)
    return False


def _power_below(number: int) -> int:
    return 1 << max(0, max(1, number).bit_length() - 1)


def split(program: Program, kernel: Kernel, parts: int) -> tuple[Kernel, Kernel]:
    """Return the kernel that computes the parts, and the kernel that combines them."""
    width = program.width
    part = Axis("part", constant(parts, width))
    kept = linear(
        [of(axis) for axis in kernel.kept],
        contiguous_strides(tuple(axis.size for axis in kernel.kept), width),
        width,
    )
    results = product((axis.size for axis in kernel.kept), width)
    # Parts of a row are adjacent, parts of a tile are a whole result apart: the order in which the second kernel reads.
    if kernel.kind == "rows":
        where = added(scaled(kept, part.size), of(part))
        shape = (*(axis.size for axis in kernel.kept), part.size)
    else:
        where = added(scaled(of(part), results), kept)
        shape = (part.size, *(axis.size for axis in kernel.kept))
    live = kernel.live()
    cut = [i for i in sorted(live) if kernel.nodes[i].kind in ("reduce", "dot")]
    scratch = {i: _scratch(program, kernel, i, shape) for i in cut}
    first = dataclasses.replace(
        kernel, part=part, roots=tuple(Root(value=scratch[i], node=i, index=where) for i in cut)
    )
    return first, _second(kernel, part, where, scratch)


def _scratch(program: Program, kernel: Kernel, node: int, shape: tuple[Size, ...]) -> str:
    found = kernel.nodes[node]
    name = f"{kernel.key}/{node}"
    program.values[name] = Value(
        name=name, operation="torch", function="scratch", shape=shape, dtype=found.dtype, hint="parts"
    )
    return name


def _second(kernel: Kernel, part: Axis, where: Index, scratch: dict[int, str]) -> Kernel:
    """Return the kernel that loads and combines the parts in place of each reduction and product."""
    needed, waiting = set[int](), [root.node for root in kernel.roots]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting.extend(() if node in scratch else kernel.nodes[node].inputs)
    nodes: list[Node] = []
    places: dict[int, int] = {}
    for i in sorted(needed):
        found = kernel.nodes[i]
        if i in scratch:
            nodes.append(Node(kind="load", tensor=scratch[i], index=where, dtype=found.dtype, hint="part"))
            function = found.function if found.kind == "reduce" else "sum"
            found = Node(
                kind="reduce", function=function, arguments=(len(nodes) - 1,), dtype=found.dtype, hint=found.hint
            )
        else:
            found = renumbered(found, places)
        places[i] = len(nodes)
        nodes.append(found)
    roots = tuple(dataclasses.replace(root, node=places[root.node]) for root in kernel.roots)
    return Kernel(kind="rows", roots=roots, nodes=tuple(nodes), kept=kernel.kept, reduced=(part,), covers=kernel.covers)

"""The plan of one kernel: which axes it runs over, what it loads, computes and stores."""

from __future__ import annotations

import dataclasses
import functools

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.plan.indexing import Axis, Index
from triton_agent.policy.author.plan.kernel_graph import Node


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A value that a kernel stores."""

    value: str
    node: int
    index: Index
    """Where its elements go."""
    adds: bool = False
    """True if they are added to what is there already: several may go to one place."""
    how: str = ""
    """What becomes of them where they are not added: `put`, `max` or `min`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel: what it stores, from what, over which axes. Without slots, so that it remembers what it loads."""

    kind: str
    """`points`, `rows` (with reductions or scans along the reduced axes), `product` or `attention`."""
    roots: tuple[Root, ...]
    nodes: tuple[Node, ...]
    kept: tuple[Axis, ...]
    reduced: tuple[Axis, ...] = ()
    batch: tuple[Axis, ...] = ()
    rows: tuple[Axis, ...] = ()
    columns: tuple[Axis, ...] = ()
    """Of a product: the axes of its leading dimensions, of m and of n; the reduced ones are those of k."""
    side: tuple[Axis, ...] = ()
    """The inner axes of another product: of a slight one that goes into the same sums, or of attention's scores."""
    part: Axis | None = None
    """Where the reduced axes are cut into parts, each of which is a result: the axis that counts them."""
    covers: frozenset[str] = frozenset()
    """Values that are computed in it."""

    @property
    def multiplies(self) -> bool:
        """True if it is made around products of the matrix unit."""
        return self.kind in ("product", "attention", "chain")

    @property
    def key(self) -> str:
        return self.roots[0].value

    @functools.cached_property
    def loads(self) -> tuple[str, ...]:
        """Tensors it reads, in the order they are met."""
        used = self.live()
        return tuple(
            dict.fromkeys(node.tensor for i, node in enumerate(self.nodes) if node.kind == "load" and i in used)
        )

    def live(self) -> frozenset[int]:
        """Nodes that a root depends on."""
        return self._live

    @functools.cached_property
    def _live(self) -> frozenset[int]:
        waiting = [node for root in self.roots for node in (root.node, *root.index.lookups())]
        found: set[int] = set()
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting.extend(self.nodes[node].inputs)
        return frozenset(found)


class Stuck(BeyondAuthor):
    """No kernel was found for this value."""

    def __init__(self, value: str, why: str) -> None:
        super().__init__(f"{value}: {why}")
        self.value = value
        self.why = why

"""The plan of one kernel: the axes that it runs over, and the values that it loads, computes and stores."""

from __future__ import annotations

import dataclasses
import functools

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.plan.indexing import Axis, Index
from triton_agent.policy.author.plan.kernel_graph import Guard, Node


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A value that a kernel stores."""

    value: str
    node: int
    index: Index
    """Index at which its elements are stored."""
    adds: bool = False
    """True if elements are added to memory, where several may go to one index."""
    how: str = ""
    """How elements are combined with memory if they are not added: `put`, `max` or `min`."""
    guards: tuple[Guard, ...] = ()
    """Conditions under which an element is stored."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Kernel:
    """The plan of one kernel. The class has no slots so that it can cache its loads."""

    kind: str
    """`points`, `rows` (with reductions or scans along the reduced axes), `product`, `attention`, `recurrence` or
    `chain`.
    """
    roots: tuple[Root, ...]
    nodes: tuple[Node, ...]
    kept: tuple[Axis, ...]
    reduced: tuple[Axis, ...] = ()
    batch: tuple[Axis, ...] = ()
    rows: tuple[Axis, ...] = ()
    columns: tuple[Axis, ...] = ()
    """Axes of a product's leading dimensions (of a recurrence's steps), of its m and of its n. The reduced axes are
    those of its k.
    """
    side: tuple[Axis, ...] = ()
    """Inner axes of a second product: of a low-rank product that joins the sums, or of attention's scores."""
    part: Axis | None = None
    """The axis that numbers the parts if the reduced axes are split into parts, each of which is a result."""
    covers: frozenset[str] = frozenset()
    """Values that this kernel computes."""

    @property
    def multiplies(self) -> bool:
        """True if the kernel is built around products on the matrix unit."""
        return self.kind in ("product", "attention", "recurrence", "chain")

    @property
    def key(self) -> str:
        return self.roots[0].value

    @functools.cached_property
    def loads(self) -> tuple[str, ...]:
        """Tensors that the kernel reads, in the order in which its nodes load them."""
        used = self.live()
        return tuple(
            dict.fromkeys(node.tensor for i, node in enumerate(self.nodes) if node.kind == "load" and i in used)
        )

    def live(self) -> frozenset[int]:
        """Return the nodes that a root depends on."""
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
    """Raised if no kernel can be planned for a value."""

    def __init__(self, value: str, why: str) -> None:
        super().__init__(f"{value}: {why}")
        self.value = value
        self.why = why

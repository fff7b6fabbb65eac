"""Where a launch may reach, and what it did there.

A pointer that came from a tensor argument may reach that argument's extent and nothing else: from the view's first
element to its last, holes of strides included, not its whole storage. A pointer whose origin is lost (an integer from
`data_ptr()`, a table of pointers, a choice between two) may reach the extent of any argument, and of any tensor whose
address host code asked for (`addresses.py`).
Also kept here: bytes moved, which arguments were read and written, and which elements two programs gave different
values. Reading what another program wrote is not noticed, since programs run one after another.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import triton.runtime.interpreter as stock

from triton_agent.tools.emulate.addresses import known
from triton_agent.tools.emulate.faults import OutOfBounds
from triton_agent.tools.emulate.floats import Array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The memory of one tensor argument, as `[start, end)` in bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int
    item_bytes: int

    def __str__(self) -> str:
        return f"`{self.name}` ({self.dtype}[{', '.join(map(str, self.shape))}])"

    def holds(self, low: int, high: int) -> bool:
        return self.start <= low and high <= self.end


class Memory:
    """The extents of one launch and what was done to them."""

    def __init__(self, extents: list[Extent]) -> None:
        self.extents = extents
        self.bytes_loaded = 0
        self.bytes_stored = 0
        self.has_atomics = False
        self.read: set[int] = set()
        self.written: set[int] = set()
        self.contested: set[int] = set()
        self._writers: dict[tuple[int, int], Array] = {}

    def admit(self, action: str, addresses: Array, item_bytes: int, origin: int | None) -> int | None:
        """The extent that holds all these accesses; None if several do. Raises `OutOfBounds` otherwise."""
        low, high = int(addresses.min()), int(addresses.max()) + item_bytes
        if origin is not None:
            if self.extents[origin].holds(low, high):
                return origin
            raise OutOfBounds(self._complaint(action, addresses, item_bytes, [self.extents[origin]]))
        for index, extent in enumerate(self.extents):
            if extent.holds(low, high):
                return index
        places = [*((extent.start, extent.end) for extent in self.extents), *known()]
        if not _inside(addresses, item_bytes, places).all():
            raise OutOfBounds(self._complaint(action, addresses, item_bytes, self.extents))
        return None

    def note_store(self, addresses: Array, values: Array, origin: int, program: int) -> None:
        """Remembers which program wrote each element, and whether another one had given it a different value."""
        item_bytes = values.itemsize
        extent = self.extents[origin]
        writers = self._writers.get((origin, item_bytes))
        if writers is None:
            writers = np.zeros((extent.end - extent.start) // item_bytes + 1, np.int32)
            self._writers[origin, item_bytes] = writers
        slots = (addresses - np.uint64(extent.start)) // np.uint64(item_bytes)
        earlier = writers[slots]
        foreign = (earlier != 0) & (earlier != program)
        if origin not in self.contested and foreign.any():
            bits = np.ascontiguousarray(values[foreign]).view(f"u{item_bytes}")
            before = stock._interpreter.load(addresses[foreign], np.ones(bits.shape, bool), bits, bits.dtype)
            if (before != bits).any():
                self.contested.add(origin)
        writers[slots] = program

    def names(self, indices: set[int]) -> list[str]:
        """The arguments' names, in the order of the parameters."""
        return [self.extents[index].name for index in sorted(indices)]

    def _complaint(self, action: str, addresses: Array, item_bytes: int, extents: list[Extent]) -> str:
        outside = addresses[~_inside(addresses, item_bytes, [(extent.start, extent.end) for extent in extents])]
        lanes = f"{action} of {outside.size}/{addresses.size} lanes"
        first = int(outside[0])
        if not extents:
            return f"{lanes} through a pointer, but no tensor was passed to the launch"
        nearest = min(extents, key=lambda extent: max(extent.start - first, first - extent.end))
        element = (first - nearest.start) // nearest.item_bytes
        side = "before the start of" if first < nearest.start else "past the end of"
        if len(extents) > 1:
            return f"{lanes} outside every tensor of the launch, the nearest being {nearest} at element {element}"
        return f"{lanes} {side} {str(nearest)[:-1]}, first at element {element})"


def _inside(addresses: Array, item_bytes: int, places: list[tuple[int, int]]) -> Array:
    inside = np.zeros(addresses.shape, bool)
    after = addresses + np.uint64(item_bytes)
    for start, end in places:
        inside |= (addresses >= start) & (after <= end) & (after > addresses)
    return inside

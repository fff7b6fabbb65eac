"""The memory that a launch may access, and a record of its accesses.

A pointer that came from a tensor argument may access the extent of that argument and nothing else: from the view's
first element to its last, gaps of strides included, but not its whole storage. A pointer of unknown origin (an integer
from `data_ptr()`, a table of pointers, a choice between two) may access the extent of any argument, and of any tensor
whose address the tape takes (`reveal`).

The record holds the bytes moved and the races: elements in which two programs stored different values, or which one
program stored and another one read, unless atomics order the two. Overlapping arguments count as one memory. Not
detected: races through pointers of unknown origin, between accesses to the same bytes with different element sizes, and
stores after another program's read once there were atomics.
"""

from __future__ import annotations

import bisect
import ctypes
import dataclasses
from typing import Any

import numpy as np
import torch
import triton.runtime.interpreter as stock

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


SEVERAL = -1
"""Marks more than one program, in place of a program number."""

_revealed: dict[tuple[int, int], torch.Tensor] = {}
"""Tensors that kernels may receive by address, by start and end address. They live as long as the process, so that no
address is reused for other memory."""


def reveal(tensor: torch.Tensor) -> None:
    """Let pointers of unknown origin access this tensor, as they can on a GPU."""
    start, end = extent_of(tensor)
    if end > start:
        _revealed[start, end] = tensor


def extent_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the addresses of the first element and of the end of the last one."""
    start = tensor.data_ptr()
    if not tensor.numel():
        return start, start
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    return start, start + (last + 1) * tensor.element_size()


class Order:
    """The order of programs by atomics: what one stored before a release is visible to who acquires afterwards.

    Which memory the atomics access is not looked at, so a release is visible to every later acquire.
    """

    def __init__(self) -> None:
        self.now = 0
        self._releases: dict[int, list[int]] = {}
        self._acquired: dict[int, int] = {}

    @property
    def has_begun(self) -> bool:
        return self.now > 0

    def released(self, program: int) -> None:
        self.now += 1
        self._releases.setdefault(program, []).append(self.now)

    def acquired(self, program: int) -> None:
        self.now += 1
        self._acquired[program] = self.now

    def shows(self, writers: Array, times: Array, program: int) -> bool:
        """Return True if this program sees what these programs stored at these times."""
        seen = self._acquired.get(program, 0)
        for writer in np.unique(writers).tolist():
            releases = self._releases.get(writer, [])
            after = bisect.bisect_right(releases, int(times[writers == writer].max()))
            if after == len(releases) or releases[after] > seen:
                return False
        return True


@dataclasses.dataclass(slots=True)
class Users:
    """The program that accessed each element of a memory, counted from 1; 0 for none, or `SEVERAL`."""

    writers: Array
    """The last program to store, or `SEVERAL` if several stored equal values."""
    readers: Array
    times: Array
    """When the last program stored, by `Order.now`."""
    was_read: bool = False
    was_stored: bool = False


def read(addresses: Array, kind: np.dtype[Any]) -> Array:
    """Return the elements at these addresses, which must have been checked."""
    found = _elements(addresses, kind)
    if found is None:
        values: Array = stock._interpreter.load(
            addresses, np.ones(addresses.size, bool), np.empty(addresses.size, kind), kind
        )
        return values
    elements, indices = found
    return elements[indices]


def write(addresses: Array, values: Array) -> None:
    """Store elements at these addresses, which must have been checked; of several at one address the last one stays."""
    found = _elements(addresses, values.dtype)
    if found is None:
        stock._interpreter.store(addresses, values, np.ones(addresses.size, bool))
    else:
        elements, indices = found
        elements[indices] = values


def _elements(addresses: Array, kind: np.dtype[Any]) -> tuple[Array, Array] | None:
    """Return the memory from the first to the last address as elements, and the index of each address in it.

    None if the addresses are not whole elements apart: then Triton's own access is used, which is many times slower.
    """
    if not addresses.size:
        return None
    low, high = int(addresses.min()), int(addresses.max())
    offsets = (addresses - np.uint64(low)).view(np.int64)
    if (offsets & (kind.itemsize - 1)).any():
        return None
    memory: Any = (ctypes.c_char * (high - low + kind.itemsize)).from_address(low)
    return np.frombuffer(memory, kind), offsets >> (kind.itemsize.bit_length() - 1)


class Memory:
    """The extents of one launch, and the accesses to them."""

    def __init__(self, extents: list[Extent]) -> None:
        self.extents = extents
        self.bytes_loaded = 0
        self.bytes_stored = 0
        self.order = Order()
        self.written: set[int] = set()
        """Extents that a program stored into."""
        self.contested: set[int] = set()
        """Extents with an element in which two programs stored different values."""
        self.read_beside_stores: set[int] = set()
        """Extents with an element that one program stored and another one read."""
        self._spans = _merged(extents)
        self._users: dict[tuple[int, int], Users] = {}

    def admit(self, action: str, addresses: Array, item_bytes: int, origin: int | None) -> int | None:
        """Return the extent that holds all accesses, or None if they span several; otherwise raise `OutOfBounds`."""
        low, high = int(addresses.min()), int(addresses.max()) + item_bytes
        if origin is not None:
            if self.extents[origin].holds(low, high):
                return origin
            raise OutOfBounds(self._complaint(action, addresses, item_bytes, [self.extents[origin]]))
        for index, extent in enumerate(self.extents):
            if extent.holds(low, high):
                return index
        places = [*((extent.start, extent.end) for extent in self.extents), *_revealed]
        if not _inside(addresses, item_bytes, places).all():
            raise OutOfBounds(self._complaint(action, addresses, item_bytes, self.extents))
        return None

    def span(self, origin: int) -> tuple[int, int]:
        """Return start and end of the memory of an extent, including all extents that overlap it."""
        return self._spans[origin]

    def note_load(self, addresses: Array, item_bytes: int, origin: int, program: int) -> None:
        """Record the program that read each element; detect elements that another program stored before."""
        users, slots = self._used(addresses, item_bytes, origin)
        users.was_read = True
        if users.was_stored and origin not in self.read_beside_stores:
            writers = users.writers[slots]
            others = (writers > 0) & (writers != program)
            if others.any() and not self.order.shows(writers[others], users.times[slots][others], program):
                self.read_beside_stores.add(origin)
        readers = users.readers[slots]
        if not readers.any():
            users.readers[slots] = program
        elif (readers != program).any():
            is_mine = (readers == 0) | (readers == program)
            users.readers[slots] = np.where(is_mine, np.int32(program), np.int32(SEVERAL))

    def note_store(self, addresses: Array, values: Array, origin: int, program: int) -> None:
        """Record the program that stored each element; detect different values stored by another program before.

        A store that changes a value which another program has read is a race as well, until atomics order programs.
        """
        users, slots = self._used(addresses, values.itemsize, origin)
        writers = users.writers[slots]
        was_stored = (writers != 0) & (writers != program)
        was_read = np.zeros(1, bool)
        if users.was_read and not self.order.has_begun:
            readers = users.readers[slots]
            was_read = (readers != 0) & (readers != program)
        users.was_stored = True
        if was_stored.any() or was_read.any():
            bits = np.ascontiguousarray(values).view(f"u{values.itemsize}")
            changed = read(addresses, bits.dtype) != bits
            users.writers[slots] = np.where(was_stored & ~changed, np.int32(SEVERAL), np.int32(program))
            overwritten = was_stored & changed & (writers > 0)
            if (was_stored & changed & (writers < 0)).any() and not self.order.has_begun:
                self.contested.add(origin)
            if overwritten.any() and not self.order.shows(
                writers[overwritten], users.times[slots][overwritten], program
            ):
                self.contested.add(origin)
            if (was_read & changed).any():
                self.read_beside_stores.add(origin)
        else:
            users.writers[slots] = program
        if self.order.has_begun:
            users.times[slots] = self.order.now

    def note_atomic_of_a_program(self, addresses: Array, item_bytes: int, origin: int, program: int) -> None:
        """Record atomics that hold among the threads of one program only; those of two programs lose updates."""
        users, slots = self._used(addresses, item_bytes, origin)
        writers = users.writers[slots]
        if ((writers != 0) & (writers != program)).any():
            self.contested.add(origin)
        users.writers[slots] = program

    def _used(self, addresses: Array, item_bytes: int, origin: int) -> tuple[Users, Array | slice]:
        """Return the users of the memory of these elements, and the elements' indices in it.

        The indices are a slice if possible, which is faster.
        """
        start, end = self._spans[origin]
        users = self._users.get((start, item_bytes))
        if users is None:
            count = (end - start) // item_bytes + 2
            writers, readers, times = (np.zeros(count, np.int32) for _ in range(3))
            users = self._users[start, item_bytes] = Users(writers, readers, times)
        shift = item_bytes.bit_length() - 1
        slots = (addresses.view(np.int64) >> shift) - (start >> shift)
        first, last = int(slots[0]), int(slots[-1])
        if last - first == slots.size - 1 and (slots[1:] - slots[:-1] == 1).all():
            return users, slice(first, last + 1)
        return users, slots

    def names(self, indices: set[int]) -> list[str]:
        """Return the names of these arguments, in the order of the parameters."""
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


def _merged(extents: list[Extent]) -> list[tuple[int, int]]:
    """Return, for each extent, start and end of the union of the extents that overlap it, directly or not."""
    spans: list[tuple[int, int]] = []
    for extent in sorted(extents, key=lambda extent: extent.start):
        if spans and extent.start < spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], extent.end)
        else:
            spans.append((extent.start, extent.end))
    return [next(span for span in spans if span[0] <= each.start and each.end <= span[1]) for each in extents]

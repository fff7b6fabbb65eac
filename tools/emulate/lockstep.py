"""Run many programs of a launch together, each operation for all of them at once.

    Lockstep(memory).run(program, indices)

The cost of an interpreted operation is Python's, not the numbers': eight programs together take little longer than one.
They give what they give one by one, in any order, as long as no program touches what another one stores. So every
access is compared with those of the other programs, and where programs meet, all stores are undone and `Apart` is
raised: the caller runs the launch one program at a time. `Apart` also stands for what has no meaning for many programs
at once: atomics, volatile loads, pointers of unknown origin, output, loops that wait.

Programs that take different branches, or loop a different number of times, raise `Diverged`: what they stored is undone
and each part is run again by itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triton_agent.tools.emulate.bounds import SEVERAL, Memory, read, write
from triton_agent.tools.emulate.floats import Array

LANES_AT_ONCE = 1 << 17
"""Elements of the largest block, of all programs together. Beyond that, caches miss and little more is saved."""
PROGRAMS_AT_ONCE = 1 << 12
"""Programs together in a kernel without blocks."""
REMEMBERED_LANES = 1 << 20
"""Addresses of loads that are kept for the case that something is stored there."""
UNDONE_BYTES = 1 << 28
"""Overwritten values and their addresses that are kept; a launch that stores more runs one by one."""
REPEATED_ROUNDS = 100
"""Rounds of a `while` loop with the same loads and no store, after which the loop counts as waiting."""


class Apart(BaseException):
    """The programs cannot run together."""


class Diverged(BaseException):
    """The programs that run together differ in a value that Python asks for; `values` has one for each."""

    def __init__(self, values: Array) -> None:
        super().__init__()
        self.values = values


@dataclasses.dataclass(slots=True)
class _Marks:
    """Which program accessed each element of a memory, counted from 1; 0 for none, `SEVERAL` for more than one."""

    start: int
    item_bytes: int
    count: int
    writers: Array | None = None
    """None until the first store."""
    readers: Array | None = None
    """None until a load has to be entered."""
    loads: list[tuple[Array, Array, Any]] = dataclasses.field(default_factory=list)
    """Loads that are not entered in `readers`: addresses, programs, and the number of addresses of each."""
    lanes: int = 0
    """Addresses in `loads`."""

    def slots(self, addresses: Array) -> Array:
        """Return the indices of these elements."""
        offsets = addresses.view(np.int64) - self.start
        if (offsets & (self.item_bytes - 1)).any():
            raise Apart
        return offsets >> (self.item_bytes.bit_length() - 1)

    def enter_loads(self) -> None:
        """Enter who read what."""
        if not self.loads:
            return
        if self.readers is None:
            self.readers = np.zeros(self.count, np.int32)
        readers = self.readers
        for addresses, numbers, counts in self.loads:
            slots, programs = self.slots(addresses), _repeated(numbers, counts)
            old = readers[slots]
            new = np.where((old == 0) | (old == programs), programs, np.int32(SEVERAL))
            readers[slots] = new
            readers[slots[readers[slots] != new]] = SEVERAL
        self.loads.clear()
        self.lanes = 0


class Lockstep:
    """The programs of one launch that run together, and what all programs of the launch accessed."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._marks: dict[tuple[int, int], _Marks] = {}
        self._undo: list[tuple[Array, Array]] = []
        """Addresses and their values before, of every store."""
        self._undone_bytes = 0
        self._room = PROGRAMS_AT_ONCE
        """Programs that run together at most."""

    def run(self, program: Callable[[], object], indices: Array) -> None:
        """Run the programs with these indices in the grid, of shape (programs, 3); undo everything if that fails."""
        try:
            self._run(program, np.column_stack([np.arange(1, len(indices) + 1), indices]))
        except BaseException:
            self._restore(0)
            raise

    def _run(self, program: Callable[[], object], rows: Array) -> None:
        waiting = [rows]
        attempts = len(rows)
        while waiting:
            group = waiting.pop()
            if len(group) > self._room:
                waiting += reversed(np.array_split(group, math.ceil(len(group) / self._room)))
                continue
            attempts -= 1
            if attempts < 0:
                raise Apart  # so much was run in vain that one by one is faster
            self.numbers, self.indices = group[:, 0].astype(np.int32), group[:, 1:]
            self._round: list[Any] = []
            self._last_round: list[Any] = []
            self._repeated = 0
            stores, loaded, stored = len(self._undo), self._memory.bytes_loaded, self._memory.bytes_stored
            try:
                program()
            except Diverged as parted:
                self._restore(stores)
                self._memory.bytes_loaded, self._memory.bytes_stored = loaded, stored
                waiting += [group[parted.values == value] for value in np.unique(parted.values)[::-1]]

    def make_room(self, shape: Sequence[int]) -> None:
        """Run fewer programs together from now on if a block of this shape asks for it."""
        room = max(1, LANES_AT_ONCE // math.prod(shape))
        if len(self.numbers) > room:
            self._room = room
            raise Diverged(np.arange(len(self.numbers)) // room)

    def agreed(self, values: Array) -> Any:
        """Return the value that all programs have."""
        first = values[0]
        if (values != first).any():
            raise Diverged(values)
        return first

    # memory

    def note_load(self, addresses: Array, item_bytes: int, origin: int | None, counts: Any) -> None:
        """Note which program reads which address.

        `counts` says how many addresses each program reads, or that all programs read all of them (None).
        """
        marks = self._marks_of(origin, item_bytes)
        if marks.writers is not None:
            writers = marks.writers[marks.slots(addresses)]
            if ((writers != 0) & (writers != _repeated(self.numbers, counts))).any():
                raise Apart
        marks.loads.append((addresses, self.numbers, counts))
        marks.lanes += addresses.size
        if marks.lanes > REMEMBERED_LANES:
            marks.enter_loads()
        self._round.append((int(addresses[0]), addresses.size))

    def note_store(self, addresses: Array, kind: np.dtype[Any], origin: int | None, counts: Any) -> None:
        """Note which program stores to which address, and keep what is there."""
        programs = _repeated(self.numbers, counts)
        marks = self._marks_of(origin, kind.itemsize)
        marks.enter_loads()
        slots = marks.slots(addresses)
        if marks.writers is None:
            marks.writers = np.zeros(marks.count, np.int32)
        for users in (marks.writers, marks.readers):
            if users is not None:
                found = users[slots]
                if ((found != 0) & (found != programs)).any():
                    raise Apart
        marks.writers[slots] = programs
        if (marks.writers[slots] != programs).any():
            raise Apart
        old = read(addresses, kind)
        self._undo.append((addresses, old))
        self._undone_bytes += addresses.nbytes + old.nbytes
        if self._undone_bytes > UNDONE_BYTES:
            raise Apart
        self._round.append(object())

    def loop_tested(self) -> None:
        """Note that a `while` loop is about to test its condition; it may be one that waits for another program."""
        self._repeated = self._repeated + 1 if self._round and self._round == self._last_round else 0
        if self._repeated > REPEATED_ROUNDS:
            raise Apart
        self._last_round, self._round = self._round, []

    def _marks_of(self, origin: int | None, item_bytes: int) -> _Marks:
        """Return the marks of the memory that an extent lies in, if elements of this size only are accessed there."""
        if origin is None:
            raise Apart
        start, end = self._memory.span(origin)
        marks = self._marks.get((start, end))
        if marks is None:
            marks = self._marks[start, end] = _Marks(start, item_bytes, (end - start) // item_bytes + 1)
        if marks.item_bytes != item_bytes:
            raise Apart
        return marks

    def _restore(self, stores: int) -> None:
        """Undo all but the first stores."""
        while len(self._undo) > stores:
            addresses, old = self._undo.pop()
            self._undone_bytes -= addresses.nbytes + old.nbytes
            write(addresses, old)


def _repeated(numbers: Array, counts: Any) -> Any:
    """Return the program of each address."""
    if counts is None:
        return numbers[0] if len(numbers) == 1 else np.int32(SEVERAL)
    return np.repeat(numbers, counts)

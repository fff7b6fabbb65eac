"""Runs many programs of a launch together, each operation for all of them at once.

    Lockstep(memory).run(program, indices)

The cost of an interpreted operation is Python's overhead, so eight programs together take little longer than one. The
results are the same as one by one, in any order, as long as no program accesses memory that another one stores.
Therefore every access is compared with those of the other programs. If two programs access the same element, all stores
are undone and `Apart` is raised, and the caller runs the launch one program at a time. `Apart` is also raised for
operations that cannot be done for many programs at once: atomics, volatile loads, pointers of unknown origin, output,
and loops that wait.

Programs that take different branches, or loop a different number of times, raise `Diverged`: their stores are undone,
and each group is run again separately.
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
"""Maximum number of elements of the largest block, over all programs together. Beyond this, caches miss and little more
is saved."""
PROGRAMS_AT_ONCE = 1 << 12
"""Maximum number of programs together in a kernel without blocks."""
REMEMBERED_LANES = 1 << 20
"""Maximum number of addresses of loads that are kept before they are entered as readers."""
UNDONE_BYTES = 1 << 28
"""Maximum size of the overwritten values and addresses that are kept; a launch that stores more runs one by one."""
REPEATED_ROUNDS = 100
"""After this many rounds with the same loads and no store, a `while` loop counts as waiting."""


class Apart(BaseException):
    """The programs cannot run together."""


class Diverged(BaseException):
    """The programs that run together have different values where Python needs one; `values` has each program's."""

    def __init__(self, values: Array) -> None:
        super().__init__()
        self.values = values


@dataclasses.dataclass(slots=True)
class _Marks:
    """The program that accessed each element of a memory, counted from 1; 0 for none, `SEVERAL` for more than one."""

    start: int
    item_bytes: int
    count: int
    writers: Array | None = None
    """None until the first store."""
    readers: Array | None = None
    """None until the first loads are entered."""
    loads: list[tuple[Array, Array, Any]] = dataclasses.field(default_factory=list)
    """Loads not yet entered in `readers`: addresses, programs, and the number of addresses of each program."""
    lanes: int = 0
    """Number of addresses in `loads`."""

    def slots(self, addresses: Array) -> Array:
        """Return the indices of these elements."""
        offsets = addresses.view(np.int64) - self.start
        if (offsets & (self.item_bytes - 1)).any():
            raise Apart
        return offsets >> (self.item_bytes.bit_length() - 1)

    def enter_loads(self) -> None:
        """Enter the recorded loads in `readers`."""
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
    """The programs of one launch that run together, and the accesses of all programs of the launch."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._marks: dict[tuple[int, int], _Marks] = {}
        self._undo: list[tuple[Array, Array]] = []
        """Addresses of every store, with the values they held before."""
        self._undone_bytes = 0
        self._room = PROGRAMS_AT_ONCE
        """Maximum number of programs that run together."""

    def run(self, program: Callable[[], object], indices: Array) -> None:
        """Run the programs with these indices in the grid, of shape (programs, 3); on failure undo everything."""
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
                raise Apart  # so many runs were wasted that one by one is faster
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
        """If a block of this shape is too large for all programs, run fewer programs together from now on."""
        room = max(1, LANES_AT_ONCE // math.prod(shape))
        if len(self.numbers) > room:
            self._room = room
            raise Diverged(np.arange(len(self.numbers)) // room)

    def agreed(self, values: Array) -> Any:
        """Return the common value of all programs; raise `Diverged` if they differ."""
        first = values[0]
        if (values != first).any():
            raise Diverged(values)
        return first

    # memory

    def note_load(self, addresses: Array, item_bytes: int, origin: int | None, counts: Any) -> None:
        """Record the addresses that each program reads.

        `counts` is the number of addresses per program; None means that all programs read all of them.
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
        """Record the addresses that each program stores to, and save their values."""
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
        """Note that a `while` loop tests its condition; raise `Apart` if it seems to wait for another program."""
        self._repeated = self._repeated + 1 if self._round and self._round == self._last_round else 0
        if self._repeated > REPEATED_ROUNDS:
            raise Apart
        self._last_round, self._round = self._round, []

    def _marks_of(self, origin: int | None, item_bytes: int) -> _Marks:
        """Return the marks of an extent's memory; raise `Apart` if it is accessed with several element sizes."""
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
        """Undo all stores after the first `stores`."""
        while len(self._undo) > stores:
            addresses, old = self._undo.pop()
            self._undone_bytes -= addresses.nbytes + old.nbytes
            write(addresses, old)


def _repeated(numbers: Array, counts: Any) -> Any:
    """Return the program of each address."""
    if counts is None:
        return numbers[0] if len(numbers) == 1 else np.int32(SEVERAL)
    return np.repeat(numbers, counts)

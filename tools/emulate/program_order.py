"""Runs the programs of one launch in random order, several of them interleaved, or now and then in the grid's order.

    Interleaving(...).run()

A GPU guarantees no order, so a kernel must be correct in any order. Each active program has a thread. Exactly one
thread runs at a time, and it passes control to another one only at memory operations: always at atomics and volatile
loads, and with a fixed probability at other loads and stores. A random order is never the grid's, in which a GPU mostly
starts programs, so some launches run one program after another in that order. All choices come from the random
generator, so a seed reproduces a run.

A program spins if a `while` loop repeats the same accesses while memory does not change. A spinning program lets others
run first. If all active programs spin, the next program is started, in the order in which a GPU starts them (x
fastest). If they still spin when as many are active as a GPU runs at the same time, the launch ends with `Deadlock`.

Not covered: weak memory (all programs see each store at once), and programs that change memory while they wait.
"""

from __future__ import annotations

import collections
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from triton_agent.tools.emulate.faults import Deadlock
from triton_agent.tools.errors import InstrumentError

IN_FLIGHT = 8
"""Number of active programs, as long as at least one of them does not spin."""
PROGRAMS_PER_MULTIPROCESSOR = 4
"""Assumed number of programs per multiprocessor that a GPU runs at once; most kernels with a grid barrier launch
fewer."""
SWITCH_PROBABILITY = 1 / 8
"""Probability of a switch before a plain load or store. A switch costs about as much as a load of a few elements."""
IN_ORDER_SHARE = 1 / 4
"""Share of launches in the grid's order, without a switch unless a program spins."""
SPINS_TO_WAIT = 2
"""A program counts as spinning after this many rounds of a `while` loop without a new access or a change in memory."""
FRUITLESS_ACCESSES = 10_000
"""Number of accesses by spinning programs without a change in memory that counts as a deadlock: about a second."""
REMEMBERED_ACCESSES = 8
"""Number of recent accesses kept per program, more than one round of a spinning loop makes."""
STACK_BYTES = 2 << 20
"""Stack size of a program's thread: kernels are shallow, and the sandbox counts reserved stacks as memory."""

Index = tuple[int, int, int]


class _Abandoned(BaseException):
    """Raised inside a program to end it after another program failed."""


class _Lane:
    """A thread that runs one program after another, with its program's recent accesses."""

    def __init__(self, index: Index) -> None:
        self.turn = threading.Lock()
        self.turn.acquire()
        self.recent: collections.deque[Any] = collections.deque(maxlen=REMEMBERED_ACCESSES)
        self.begin(index)

    def begin(self, index: Index) -> None:
        self.index = index
        self.recent.clear()
        self.accesses = 0
        """Accesses since the last test of a `while` loop."""
        self.has_new = False
        """True if one of these accesses was new."""
        self.spins = 0
        self.changes = 0
        """Count of memory changes in the launch when `spins` was last updated."""


class Interleaving:
    """The active programs of one launch, and the schedule of their turns.

    Only the thread whose turn it is accesses these fields, except for `_is_ending`, which the launching thread sets
    when it is interrupted.
    """

    def __init__(
        self,
        *,
        grid: Index,
        program: Callable[[], None],
        enter: Callable[[int, int, int], None],
        randomness: random.Random,
        side_by_side: int,
    ) -> None:
        """`enter(x, y, z)` selects the current program; `program` runs it."""
        self._grid = grid
        self._program = program
        self._enter = enter
        self._random = randomness
        self._side_by_side = max(side_by_side, IN_FLIGHT)
        count = grid[0] * grid[1] * grid[2]
        self._is_in_order = randomness.random() < IN_ORDER_SHARE
        shuffled = np.random.default_rng(randomness.getrandbits(64)).permutation(count)
        self._order = np.arange(count) if self._is_in_order else shuffled
        self._is_started = np.zeros(count, bool)
        self._unstarted = count
        self._next_in_order = self._next_on_gpu = 0
        self._lanes: list[_Lane] = []
        self._running: _Lane | None = None
        self._threads: list[threading.Thread] = []
        self._changes = 0
        self._fruitless = 0
        self._error: BaseException | None = None
        self._is_ending = False
        self._over = threading.Lock()

    def run(self) -> None:
        """Run all programs. When every thread has ended, raise the first error that a program raised."""
        self._over.acquire()
        try:
            for _ in range(1 if self._is_in_order else min(IN_FLIGHT, len(self._order))):
                self._add_lane(as_on_gpu=False)
            self._hand_to(self._random.choice(self._lanes))
            self._over.acquire()
        except BaseException:
            self._is_ending = True
            if self._running is None and self._lanes:
                self._hand_to(self._lanes[0])
            raise
        finally:
            for thread in self._threads:
                thread.join()
        if self._error is not None:
            raise self._error

    # called by the running program

    def before_access(self, key: Any, *, always: bool) -> None:
        """Switch to another program first, always or at random. Equal keys mean the same operation and addresses."""
        lane = self._running
        assert lane is not None
        lane.accesses += 1
        if key not in lane.recent:
            lane.recent.append(key)
            lane.has_new = True
        switches = not self._is_in_order and (always or self._random.random() < SWITCH_PROBABILITY)
        if switches or self._is_ending or self._waits(lane):
            self._switch(lane)

    def memory_changed(self) -> None:
        self._changes += 1
        self._fruitless = 0

    def loop_tested(self) -> None:
        """Note that a `while` loop tests its condition."""
        lane = self._running
        if lane is None or not lane.accesses:
            return
        if lane.has_new or lane.changes != self._changes:
            lane.spins = 0
            lane.changes = self._changes
        else:
            lane.spins += 1
        lane.accesses, lane.has_new = 0, False

    # turns

    def _waits(self, lane: _Lane) -> bool:
        return lane.spins >= SPINS_TO_WAIT and lane.changes == self._changes

    def _switch(self, lane: _Lane) -> None:
        if not self._is_ending:
            chosen = self._choose()
            if chosen is not lane:
                self._hand_to(chosen)
                lane.turn.acquire()
        if self._is_ending:
            raise _Abandoned
        self._enter(*lane.index)

    def _choose(self) -> _Lane:
        """Return a lane that does not spin. If all spin, start one more program, as long as a GPU would run it too."""
        awake = [lane for lane in self._lanes if not self._waits(lane)]
        if awake:
            return self._random.choice(awake)
        if len(self._lanes) < self._side_by_side and self._unstarted:
            return self._add_lane(as_on_gpu=True)
        self._fruitless += 1
        if self._fruitless > FRUITLESS_ACCESSES:
            raise Deadlock(len(self._lanes), unstarted=self._unstarted)
        return self._random.choice(self._lanes)

    def _hand_to(self, lane: _Lane) -> None:
        self._running = lane
        lane.turn.release()

    # lanes

    def _add_lane(self, *, as_on_gpu: bool) -> _Lane:
        lane = _Lane(self._take(as_on_gpu=as_on_gpu))
        thread = threading.Thread(target=self._live, args=(lane,), daemon=True)
        before = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        except RuntimeError as error:
            if len(self._lanes) > IN_FLIGHT:  # all of which wait for one that was not started
                raise Deadlock(len(self._lanes), unstarted=self._unstarted) from error
            raise InstrumentError(f"cannot start a thread for another program of a launch: {error}") from error
        finally:
            threading.stack_size(before)
        self._lanes.append(lane)
        self._threads.append(thread)
        return lane

    def _live(self, lane: _Lane) -> None:
        """Run one program after another in the lane's thread, until more than `IN_FLIGHT` programs are active."""
        lane.turn.acquire()
        try:
            with np.errstate(all="ignore"):
                while not self._is_ending:
                    self._enter(*lane.index)
                    self._program()
                    if len(self._lanes) > IN_FLIGHT or not self._unstarted:
                        break
                    lane.begin(self._take(as_on_gpu=False))
        except _Abandoned:
            pass
        except BaseException as error:
            if self._error is None:
                self._error = error
            self._is_ending = True
        self._lanes.remove(lane)
        if self._lanes:
            self._hand_to(self._lanes[0] if self._is_ending else self._random.choice(self._lanes))
        else:
            self._running = None
            self._over.release()

    # programs, numbered in the order in which a GPU starts them

    def _take(self, *, as_on_gpu: bool) -> Index:
        """Mark the next unstarted program as started, in random order or in a GPU's order, and return its index."""
        if as_on_gpu:
            self._next_on_gpu += int(np.argmin(self._is_started[self._next_on_gpu :]))
            number = self._next_on_gpu
        else:
            while self._is_started[self._order[self._next_in_order]]:
                self._next_in_order += 1
            number = int(self._order[self._next_in_order])
        self._is_started[number] = True
        self._unstarted -= 1
        return (
            number % self._grid[0],
            number // self._grid[0] % self._grid[1],
            number // (self._grid[0] * self._grid[1]),
        )

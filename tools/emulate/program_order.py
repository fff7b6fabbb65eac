"""Programs of one launch in random order, several of them under way at once.

    Interleaving(...).run()

A GPU promises no order, so a kernel must be right in any. Each program under way has a thread; exactly one thread
runs at any time, and control is handed over at memory operations only: always at atomics and volatile loads, at other
loads and stores with a fixed probability. The generator that is passed in decides everything, so a seed repeats a run.

A program spins if a `while` loop repeats the same accesses while memory does not change. It then waits for others: they
go first, and if all programs under way spin, the next one starts in the order in which a GPU starts them (x fastest).
Once as many programs wait as a GPU runs side by side, the launch ends with `Deadlock`.

Not covered: weak memory (each store is seen by all at once), and programs that change memory while they wait. The
threads have the dispatch modes of the launching one, but not its profiler, on which the witness relies.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import os
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack, _pop_mode, _push_mode

from triton_agent.tools.emulate.faults import Deadlock
from triton_agent.tools.errors import InstrumentError

IN_FLIGHT = 8
"""Programs under way at once, as long as one of them does not wait."""
PROGRAMS_PER_MULTIPROCESSOR = 4
"""How many programs a GPU is taken to run side by side: more than most kernels with a grid barrier launch."""
SWITCH_PROBABILITY = 1 / 8
"""Of handing over before a plain load or store; each hand-over costs about as much as a load of a few elements."""
SPINS_TO_WAIT = 2
"""Rounds of a `while` loop without a new access or a change in memory, after which others go first."""
FRUITLESS_ACCESSES = 10_000
"""Accesses without a change in memory, all programs under way waiting, that make a deadlock: about a second."""
REMEMBERED_ACCESSES = 8
"""More than a loop that waits makes in a round."""
STACK_BYTES = 2 << 20
"""Of a program's thread: kernels are shallow, and the sandbox counts reserved stacks as memory."""

Index = tuple[int, int, int]


class _Abandoned(BaseException):
    """Unwinds a program after another one failed."""


class _Lane:
    """A thread that runs one program after another, and what its program did lately."""

    def __init__(self, index: Index) -> None:
        self.turn = threading.Lock()
        self.turn.acquire()
        self.recent: collections.deque[Any] = collections.deque(maxlen=REMEMBERED_ACCESSES)
        self.begin(index)

    def begin(self, index: Index) -> None:
        self.index = index
        self.recent.clear()
        self.accesses = 0
        """Since the last test of a `while` loop."""
        self.has_new = False
        """Whether one of them was not a repetition."""
        self.spins = 0
        self.changes = 0
        """The launch's count of changes when the spins were counted."""


class ThreadStarter:
    """Starts threads from a thread of its own, on whose stack no kernel file is: the guard refuses a candidate's."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._pool = concurrent.futures.ThreadPoolExecutor(1, "starter of programs")
        self._pool.submit(int).result()

    def is_usable(self) -> bool:
        """False in a process forked since: threads stay behind in the parent."""
        return self._pid == os.getpid()

    def start(self, threads: list[threading.Thread]) -> None:
        self._pool.submit(_start, threads).result()

    def close(self) -> None:
        if self.is_usable():
            self._pool.shutdown()


def _start(threads: list[threading.Thread]) -> None:
    before = threading.stack_size(STACK_BYTES)
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:
        raise InstrumentError(f"no thread for another program of a launch: {error}") from error
    finally:
        threading.stack_size(before)


class Interleaving:
    """One launch's programs under way, and whose turn it is.

    Only the thread whose turn it is touches these fields, but for `_is_ending`, which the launching thread sets when
    it is interrupted.
    """

    def __init__(
        self,
        *,
        grid: Index,
        program: Callable[[], None],
        enter: Callable[[int, int, int], None],
        randomness: random.Random,
        side_by_side: int,
        starter: ThreadStarter,
    ) -> None:
        """`enter` makes its argument the current program, and `program` runs it."""
        self._grid = grid
        self._program = program
        self._enter = enter
        self._random = randomness
        self._side_by_side = max(side_by_side, IN_FLIGHT)
        self._starter = starter
        count = grid[0] * grid[1] * grid[2]
        self._order = np.random.default_rng(randomness.getrandbits(64)).permutation(count)
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
        self._modes = _get_current_dispatch_mode_stack()

    def run(self) -> None:
        """Run all programs; raises what the first failing one raised, after every thread has ended."""
        self._over.acquire()
        try:
            self._add_lanes(min(IN_FLIGHT, len(self._order)), as_on_gpu=False)
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
        """Another program may go first. `key` is equal for accesses that do the same in the same place."""
        lane = self._running
        assert lane is not None
        lane.accesses += 1
        if key not in lane.recent:
            lane.recent.append(key)
            lane.has_new = True
        if always or self._is_ending or self._waits(lane) or self._random.random() < SWITCH_PROBABILITY:
            self._switch(lane)

    def memory_changed(self) -> None:
        self._changes += 1
        self._fruitless = 0

    def loop_tested(self) -> None:
        """A `while` loop is about to decide on another round."""
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
        """One that does not wait, or else one more program, as long as a GPU would surely run it beside these."""
        awake = [lane for lane in self._lanes if not self._waits(lane)]
        if awake:
            return self._random.choice(awake)
        if len(self._lanes) < self._side_by_side and self._unstarted:
            self._add_lanes(1, as_on_gpu=True)
            return self._lanes[-1]
        self._fruitless += 1
        if self._fruitless > FRUITLESS_ACCESSES:
            raise Deadlock(len(self._lanes), unstarted=self._unstarted)
        return self._random.choice(self._lanes)

    def _hand_to(self, lane: _Lane) -> None:
        self._running = lane
        lane.turn.release()

    # lanes

    def _add_lanes(self, count: int, *, as_on_gpu: bool) -> None:
        lanes = [_Lane(self._take(as_on_gpu=as_on_gpu)) for _ in range(count)]
        threads = [threading.Thread(target=self._live, args=(lane,), daemon=True) for lane in lanes]
        try:
            self._starter.start(threads)
        finally:
            started = [(lane, thread) for lane, thread in zip(lanes, threads) if thread.ident is not None]
            self._lanes += [lane for lane, _ in started]
            self._threads += [thread for _, thread in started]

    def _live(self, lane: _Lane) -> None:
        """Run in the lane's thread, one program after another, as long as no more are under way than usual."""
        lane.turn.acquire()
        try:
            with np.errstate(all="ignore"), _dispatch_modes(self._modes):
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
        """The first program in random order, or in a GPU's, that was not started."""
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


@contextlib.contextmanager
def _dispatch_modes(modes: list[Any]) -> Iterator[None]:
    """The launching thread's modes, which are a thread's own: what a kernel does through torch is to be seen."""
    for mode in modes:
        _push_mode(mode)
    try:
        yield
    finally:
        for _ in modes:
            _pop_mode()

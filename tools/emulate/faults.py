"""What can go wrong inside an emulated launch, as exceptions that name the kernel and the line of the candidate's file.

    EmulationError
    ├── OutOfBounds     a lane that was not masked reached outside the tensors of the launch
    ├── Deadlock        all programs under way wait for a change in memory that none of them makes
    ├── Unsupported     the interpreter cannot run this: says nothing of the candidate
    └── KernelError     anything else that was raised inside a kernel; the cause is chained

`OutOfBounds`, `Deadlock` and `KernelError` are the candidate's failures. These live in the candidate's process, which
turns them into text; they are not meant to be pickled.
"""

from __future__ import annotations

import os
from types import FrameType, TracebackType

import numpy as np
import triton

_LIBRARIES = tuple(os.path.dirname(path) + os.sep for path in (np.__file__, triton.__file__, __file__))


class EmulationError(RuntimeError):
    """Base: `reason`, and where it happened as far as it is known."""

    def __init__(self, reason: str, *, kernel: str = "", line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.kernel = kernel
        self.line = line

    def __str__(self) -> str:
        place = self.kernel if self.line is None else f"{self.kernel} line {self.line}".lstrip()
        return f"{place}: {self.reason}" if place else self.reason


class OutOfBounds(EmulationError):
    """A load, store or atomic touched memory outside the tensors passed to the launch; nothing was accessed."""


class Deadlock(EmulationError):
    """Every program under way spins, and there are as many as a GPU surely runs side by side."""

    def __init__(self, under_way: int, *, unstarted: int) -> None:
        if unstarted:
            whom = "a program that was not started"
            rest = f"{under_way} are under way, {unstarted} more cannot start before one of these ends"
        else:
            whom, rest = "each other", f"all {under_way} that have not ended are under way"
        super().__init__(f"deadlock: programs wait for {whom} ({rest})")


class Unsupported(EmulationError):
    """The interpreter has no meaning for `function`, so the candidate cannot be judged here."""

    def __init__(self, function: str) -> None:
        super().__init__(f"{function} cannot be emulated without a GPU")


class KernelError(EmulationError):
    """An exception inside a kernel: what the compiler would refuse, a failed assertion, a plain mistake."""


class StaticAssertionFailed(AssertionError):
    """A `tl.static_assert` did not hold; the autotuner skips such a configuration."""


def line_of(error: BaseException) -> int | None:
    """The line of the innermost frame of `error`'s traceback that belongs to the candidate."""
    line = None
    step: TracebackType | None = error.__traceback__
    while step is not None:
        if not _is_library(step.tb_frame):
            line = step.tb_lineno
        step = step.tb_next
    return line


def _is_library(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_LIBRARIES)

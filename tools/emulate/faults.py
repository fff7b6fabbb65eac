"""Errors of an interpreted launch. Each names the kernel and the line of the kernel's file.

    EmulationError
    ├── OutOfBounds     an unmasked lane accessed memory outside the tensors of the launch
    ├── Deadlock        all running programs wait for a change in memory that none of them makes
    ├── Unsupported     the interpreter cannot run this; not a failure of the candidate
    └── KernelError     any other exception inside a kernel; the cause is chained

`OutOfBounds`, `Deadlock` and `KernelError` are failures of the candidate. The executor turns them into text; they
cannot be pickled.
"""

from __future__ import annotations

import os
from types import TracebackType

import numpy as np
import triton

LIBRARIES = tuple(os.path.dirname(path) + os.sep for path in (np.__file__, triton.__file__, __file__))


class EmulationError(RuntimeError):
    """An error with its reason and, if known, the kernel and line."""

    def __init__(self, reason: str, *, kernel: str = "", line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.kernel = kernel
        self.line = line

    def __str__(self) -> str:
        place = self.kernel if self.line is None else f"{self.kernel} line {self.line}".lstrip()
        return f"{place}: {self.reason}" if place else self.reason


class OutOfBounds(EmulationError):
    """A load, store or atomic outside the tensors of the launch; raised before memory is accessed."""


class Deadlock(EmulationError):
    """All running programs spin, and a GPU would not run more programs at the same time."""

    def __init__(self, under_way: int, *, unstarted: int) -> None:
        if unstarted:
            whom = "a program that was not started"
            rest = f"{under_way} are under way, {unstarted} more cannot start before one of these ends"
        else:
            whom, rest = "each other", f"all {under_way} that have not ended are under way"
        super().__init__(f"deadlock: programs wait for {whom} ({rest})")


class Unsupported(EmulationError):
    """The interpreter cannot run `function`, so the candidate cannot be judged without a GPU."""

    def __init__(self, function: str) -> None:
        super().__init__(f"{function} cannot be emulated without a GPU")


class KernelError(EmulationError):
    """Any other exception in a kernel, such as a type error that the compiler would report."""


class StaticAssertionFailed(AssertionError):
    """A `tl.static_assert` did not hold; such a configuration of an autotuned launch is skipped."""


def line_of(error: BaseException) -> int | None:
    """Return the line of the innermost frame of the traceback that is not in a library."""
    line = None
    step: TracebackType | None = error.__traceback__
    while step is not None:
        if not step.tb_frame.f_code.co_filename.startswith(LIBRARIES):
            line = step.tb_lineno
        step = step.tb_next
    return line

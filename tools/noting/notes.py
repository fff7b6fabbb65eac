"""Notes every operation of the kernels that run: the numbers that they compute with, and their predicates.

Noted numbers are those that fill a whole block, or a whole row of one, in any operation. A kernel that treats a number
in another way from all others has to bring that number together with its inputs, however it was computed. Not covered:
blocks of different numbers, such as one for every place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from triton_agent.tools.emulate.arithmetic import ArithmeticBuilder, Handle, numbers
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.noting.counterparts import Counterparts
from triton_agent.tools.noting.origins import handles_in
from triton_agent.tools.noting.predicates import Predicates

NOTED_AT_MOST = 4096
"""Maximum count of noted numbers, by far more than a kernel names."""


class Notes:
    """Notes the operands and the results of a builder's operations, from `start` to `stop`."""

    def __init__(self, builder: ArithmeticBuilder) -> None:
        self._builder = builder
        self.numbers: set[float] = set()
        self._notes_numbers = True
        self.counterparts = Counterparts()
        self.predicates = Predicates()

    def start(self, *, forced: str | None = None) -> None:
        """Note numbers and predicates from now on; or only force another result at this place (see `Predicates`)."""
        self.predicates.forced = forced or ""
        self._notes_numbers = forced is None
        for name in dir(type(self._builder)):
            if name.startswith("create_"):
                setattr(self._builder, name, self._noting(name, getattr(self._builder, name)))

    def stop(self) -> None:
        """Forget the numbers, too."""
        for name in [name for name in vars(self._builder) if name.startswith("create_")]:
            delattr(self._builder, name)
        self.numbers = set()
        self.counterparts.clear()
        self.predicates.clear()

    def _noting(self, name: str, create: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(create)
        def noted(*args: Any, **kwargs: Any) -> Any:
            result = create(*args, **kwargs)
            try:
                return self._note(name, create, args, (*args, *kwargs.values()), result)
            except MemoryError:
                raise
            except Exception as error:
                raise InstrumentError(
                    f"a bug of ours: {name} could not be noted ({type(error).__name__}: {error})",
                    remedy="report it with the candidate",
                ) from error

        return noted

    def _note(self, name: str, create: Callable[..., Any], args: Any, every: Any, result: Any) -> Any:
        """Note an operation with its positional and with all arguments; return its result, or the one forced there."""
        if self._notes_numbers:
            for operand in handles_in(every):
                if len(self.numbers) < NOTED_AT_MOST:
                    self.numbers |= _same_in_a_row(operand)
            self.counterparts.note(name, create, args, result)
        return self.predicates.noted(name, create, every, result)


def _same_in_a_row(operand: Handle) -> set[float]:
    """Return, for each program, the number that all of its elements are; of integers only one that all programs use."""
    element, values = operand.dtype.scalar, numbers(operand)
    if element.is_ptr() or element == tl.int1 or not values.size or values.dtype.kind not in "fiu":
        return set()
    rows = values.reshape(len(values) if values.ndim else 1, -1)
    same = np.unique(rows[(rows == rows[:, :1]).all(axis=1), 0])
    if len(same) > 1 and not element.is_floating():
        return set()
    return set(same[np.isfinite(same)].astype(float).tolist())

"""The arguments of a kernel: tensors, sizes, numbers and constants, with the host's expression for each.

Equal sizes share one argument. Small numbers that never change are written into the kernel.
"""

from __future__ import annotations

import keyword
import re

from triton_agent.policy.author.ir.program import Number
from triton_agent.policy.author.ir.sizes import LITERAL_LIMIT, Size, is_constant
from triton_agent.policy.author.tile.descriptors import Matrix

RESERVED = frozenset({"tl", "triton", "torch", "math", "libdevice", "self", "range", "max", "min", "float", "int"})


class Names:
    """Issues identifiers, each once."""

    def __init__(self, taken: frozenset[str] | set[str] = frozenset()) -> None:
        self._taken = set(taken) | RESERVED | set(keyword.kwlist)

    def new(self, wanted: str) -> str:
        name = plain = identifier(wanted)
        count = 1
        while name in self._taken:
            count += 1
            name = f"{plain}{count}" if not plain[-1].isdigit() else f"{plain}_{count}"
        self._taken.add(name)
        return name

    def release(self, name: str) -> None:
        self._taken.discard(name)

    def state(self) -> frozenset[str]:
        return frozenset(self._taken)

    def back_to(self, state: frozenset[str]) -> None:
        """Release every name that was issued since `state`."""
        self._taken = set(state)

    def is_free(self, name: str) -> bool:
        return name not in self._taken


def identifier(text: str) -> str:
    """Return a Python identifier made from any text."""
    made = re.sub(r"\W+", "_", text).strip("_") or "value"
    return f"n{made}" if made[0].isdigit() else made


class Arguments:
    """The signature of one kernel as it grows."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.names = Names()
        self.tensors: dict[str, str] = {}
        """Maps an argument to the value whose memory it points to."""
        self.matrices: dict[str, Matrix] = {}
        """Maps an argument to the matrix that it describes, or points to if the matrix is not aligned."""
        self.sizes: dict[str, Size] = {}
        self.numbers: dict[str, Number] = {}
        self.divisors: set[str] = set()
        """Sizes that are divisors. They are constants for the compiler, because a division by a variable is slow."""
        self.constants: dict[str, str] = {}
        """Maps an argument to the host's expression for it."""

    def pointer(self, value: str, wanted: str) -> str:
        for name, known in self.tensors.items():
            if known == value:
                return name
        name = self.names.new(f"{wanted}_ptr")
        self.tensors[name] = value
        return name

    def loaded(self) -> list[str]:
        """Return every value whose memory the kernel is given."""
        return [*self.tensors.values(), *(matrix.value for matrix in self.matrices.values())]

    def matrix(self, matrix: Matrix, wanted: str) -> str:
        for name, known in self.matrices.items():
            if known == matrix:
                return name
        name = self.names.new(f"{wanted}_matrix")
        self.matrices[name] = matrix
        return name

    def size(self, size: Size, wanted: str) -> str:
        """Return the text of a size inside the kernel."""
        if is_constant(size) and abs(size[0]) <= LITERAL_LIMIT:
            return str(size[0])
        return self.size_argument(size, wanted)

    def size_argument(self, size: Size, wanted: str) -> str:
        for name, known in self.sizes.items():
            if known == size:
                return name
        name = self.names.new(wanted)
        self.sizes[name] = size
        return name

    def known_size(self, values: tuple[float | int | bool, ...]) -> str | None:
        """Return an argument that already holds these numbers; None if there is none."""
        return next((name for name, size in self.sizes.items() if tuple(values) == tuple(size)), None)

    def number(self, number: Number, wanted: str) -> str:
        for name, known in self.numbers.items():
            if known == number:
                return name
        name = self.names.new(wanted)
        self.numbers[name] = number
        return name

    def constant(self, name: str, expression: str) -> str:
        self.constants[name] = expression
        return name

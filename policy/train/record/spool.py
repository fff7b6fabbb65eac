"""Stores the numbers of samples in a file: tokens and log-probabilities of 100,000 turns take gigabytes.

The layout is that of memory: 4 bytes per token, 4 or 8 bytes per log-probability.
"""

from __future__ import annotations

import array
import dataclasses
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of one sample."""

    prompt_ids: array.array[int]
    token_ids: array.array[int]
    log_probabilities: array.array[float] | None
    """Log-probabilities at sampling; None if they were not stored."""

    def load(self) -> Numbers:
        return self


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Spooled:
    """The numbers of one sample in a file."""

    spool: Spool
    prompt: int
    """Position of the prompt; answers to one question share it."""
    prompt_tokens: int
    answer: int
    """Position of the answer's tokens, which its log-probabilities follow."""
    tokens: int
    kind: str
    """Type of the log-probabilities: `f`, `d`, or empty without any."""

    def load(self) -> Numbers:
        size = 4 * self.tokens
        more = self.tokens * array.array(self.kind).itemsize if self.kind else 0
        packed = self.spool.read(self.answer, size + more)
        return Numbers(
            prompt_ids=array.array("I", self.spool.read(self.prompt, 4 * self.prompt_tokens)),
            token_ids=array.array("I", packed[:size]),
            log_probabilities=array.array(self.kind, packed[size:]) if self.kind else None,
        )

    @property
    def place(self) -> list[Any]:
        """The positions in the file, as plain data."""
        return [self.prompt, self.prompt_tokens, self.answer, self.tokens, self.kind]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers | Spooled) and self.load() == other.load()

    def __hash__(self) -> int:
        return hash((self.answer, self.tokens))


class Spool:
    """A file of numbers."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self._end = 0
        self._prompts: dict[bytes, int] = {}

    @classmethod
    def scratch(cls, folder: Path | None = None) -> Spool:
        """Create a temporary file, which disappears with the process."""
        return cls(tempfile.TemporaryFile(dir=folder, buffering=1 << 20))

    def __getstate__(self) -> str:
        """Pickle a named file by its name, for another process that reads it."""
        self.file.flush()
        return str(self.file.name)

    def __setstate__(self, path: str) -> None:
        self.__init__(Path(path).open("rb"))  # type: ignore[misc]  # noqa: SIM115

    def add(self, numbers: Numbers) -> Spooled:
        """Write the numbers of one sample."""
        prompt = numbers.prompt_ids.tobytes()
        if prompt not in self._prompts:  # answers to one prompt are added one after the other
            self._prompts = {prompt: self._write(prompt)}
        likely = numbers.log_probabilities
        return Spooled(
            self,
            prompt=self._prompts[prompt],
            prompt_tokens=len(numbers.prompt_ids),
            answer=self._write(numbers.token_ids.tobytes() + (likely.tobytes() if likely is not None else b"")),
            tokens=len(numbers.token_ids),
            kind="" if likely is None else likely.typecode,
        )

    def read(self, start: int, size: int) -> bytes:
        if not self.file.closed and self.file.writable():
            self.file.flush()
        return os.pread(self.file.fileno(), size, start)

    def _write(self, data: bytes) -> int:
        start, self._end = self._end, self._end + len(data)
        self.file.write(data)
        return start


def packed_tokens(values: Sequence[int]) -> array.array[int]:
    return array.array("I", values)


def packed_floats(values: Sequence[float]) -> array.array[float]:
    """Pack numbers in single precision if that keeps every bit, as it does for engines' log-probabilities."""
    import numpy as np

    double = np.array(values, dtype="f8")
    with np.errstate(over="ignore"):
        single = double.astype("f4")
    exact = bool((single == double).all())
    return array.array("f", single.tobytes()) if exact else array.array("d", double.tobytes())

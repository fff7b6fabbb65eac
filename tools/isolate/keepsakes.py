"""What a candidate keeps between calls, and whether an answer is among it: a kernel may know its inputs again.

A file that compares inputs with those of an earlier call, and copies the old answer where they agree, launches what it
always launches, and is right for ever. So the worker looks which memory of the candidate's a call has written that was
not given to it, and spoils the answer in there, if it finds it. Whoever works that answer out does so again; whoever
keeps it hands out what was spoiled.

Not covered: an answer that is kept in another form, and what no tensor of Python's stands for.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterable

import torch

from triton_agent.tools.isolate.watch import memory_of

ROWS_SOUGHT = 4
"""Of an answer; one of them spoiled is enough."""
SHORTEST_ROW = 16
"""Elements; of an answer with shorter rows, or longer ones than the next, a stretch of so many is sought."""
STRETCH = 64
LEAST_DIFFERENT = 8
"""Elements with different bits in a row: one of noughts lies everywhere."""
MARKED_AT_ONCE = 1 << 24
"""Words, which take several times their memory meanwhile."""
PLACES_AT_MOST = 16
"""Of one row, in one piece of memory."""
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

Mark = tuple[int, int, int]
_bases: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
"""Without asking the class, which may be a candidate's."""


class Keepsakes:
    """Memory that the process holds beside what it was given."""

    def __init__(self) -> None:
        self._before: dict[int, Mark] = {}
        self._written: list[torch.Tensor] = []

    def note(self, given: Iterable[torch.Tensor]) -> None:
        """Before a call."""
        self._before = {memory_of(held): _mark(held) for held in _held_beside(given)}

    def compare(self, given: Iterable[torch.Tensor]) -> None:
        """After it: what the call has made or written, and somebody still holds."""
        held = _held_beside(given)
        self._written = [one for one in held if self._before.get(memory_of(one)) != _mark(one)]
        self._before = {}

    def spoil(self, answers: Iterable[torch.Tensor]) -> int:
        """Where what was written then holds a part of an answer, it holds something else now; in how many places."""
        written, self._written = self._written, []
        return sum(_spoil(held, row) for answer in answers for row in _rows(answer) for held in written)


def _held_beside(given: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """All memory of tensors in this process but that of these, each piece as a row of bytes."""
    known = {memory_of(tensor) for tensor in given}
    found: dict[int, torch.Tensor] = {}
    for thing in gc.get_objects():
        if torch.Tensor in _bases(type(thing)):
            whole = _bytes_of(thing)
            if whole is not None and memory_of(whole) not in known:
                found.setdefault(memory_of(whole), whole)
    return list(found.values())


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """All of its memory; None where it has none that could be read so. No class of its own is asked."""
    with torch._C.DisableTorchFunctionSubclass():
        try:
            storage = torch.Tensor.untyped_storage(tensor)
            if tensor.layout is not torch.strided or not storage.nbytes() or storage.device.type == "meta":
                return None
            return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        except (RuntimeError, NotImplementedError):  # of a kind that has no memory of its own
            return None


def _mark(whole: torch.Tensor) -> Mark:
    """Other contents, another mark, but by chance or design."""
    words, plain, weighted = _as_words(whole, 4 if whole.numel() >= 4 else 1), 0, 0
    for start in range(0, words.numel(), MARKED_AT_ONCE):
        piece = words[start : start + MARKED_AT_ONCE].long()
        position = torch.arange(start + 1, start + 1 + piece.numel(), device=piece.device)
        plain, weighted = plain + int(piece.sum()), weighted + int((piece * position).sum())
    return whole.numel(), plain, weighted


def _rows(answer: torch.Tensor) -> list[torch.Tensor]:
    """Some rows of an answer, as words, that hardly lie anywhere by chance."""
    answer = torch.Tensor.detach(answer)
    if answer.layout is not torch.strided or answer.element_size() not in WORDS or not answer.numel():
        return []
    words = _as_words(answer.contiguous().reshape(-1).view(torch.uint8), answer.element_size())
    last = answer.shape[-1] if answer.dim() else 1
    length = last if SHORTEST_ROW <= last <= words.numel() and last <= STRETCH**2 else min(words.numel(), STRETCH)
    count = words.numel() // length
    chosen = random.SystemRandom().sample(range(count), min(count, ROWS_SOUGHT))
    rows = [words[index * length : (index + 1) * length].clone() for index in chosen]
    return [row for row in rows if torch.unique(row).numel() >= LEAST_DIFFERENT]


def _spoil(held: torch.Tensor, row: torch.Tensor) -> int:
    if held.device != row.device or held.numel() < row.numel() * row.element_size():
        return 0
    words = _as_words(held, row.element_size())
    starts, length = words.numel() - row.numel() + 1, row.numel()
    likely = words[:starts] == row[0]
    for offset in (length // 3, length // 2, length - 1):
        likely &= words[offset : offset + starts] == row[offset]
    places = [at for at in likely.nonzero()[:PLACES_AT_MOST, 0].tolist() if torch.equal(words[at : at + length], row)]
    for at in places:
        words[at : at + length].bitwise_not_()
    return len(places)


def _as_words(whole: torch.Tensor, size: int) -> torch.Tensor:
    """Bytes as whole numbers of a size; what is left over at the end is left out."""
    return whole[: whole.numel() // size * size].view(WORDS[size])

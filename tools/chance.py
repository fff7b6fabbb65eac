"""Draws that a candidate must not foresee: seeds of its inputs, and which of several questions it is asked.

They come from the system's source, so no two verdicts draw the same. Tests draw from a seed instead: one of them that
fails then fails each time. Nothing in a candidate's process draws from here, and nothing there is told the seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_source: random.Random = random.SystemRandom()


def draw_from(seed: int | str) -> None:
    """Draw from this seed from now on, which only tests should do."""
    global _source
    _source = random.Random(seed)


def seed_for_checker() -> int | None:
    """Return the seed that a checker is to draw from; None if this process draws from the system's source."""
    return None if isinstance(_source, random.SystemRandom) else secret_seed()


def secret_seed() -> int:
    """Return a number of 48 bits, for a generator or for another process."""
    return _source.getrandbits(48)


def below(limit: int) -> int:
    """Return one of 0, 1, ..., `limit` - 1."""
    return _source.randrange(limit)


def one_of(choices: Sequence[T]) -> T:
    return _source.choice(choices)


def some_of(choices: Sequence[T], count: int) -> list[T]:
    """Return `count` of them, each at most once, in an order drawn as well."""
    return _source.sample(choices, count)

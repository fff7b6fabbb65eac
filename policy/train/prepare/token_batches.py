"""Divides rows into batches with equal numbers of tokens that have a loss (C3PO), instead of equal numbers of rows.

Steps then weigh all tokens the same however long the answers are, and a step of short answers is no noisier than one of
long answers. Prompts do not count.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from triton_agent.policy.train.prepare.prepared import TrainingRow


def batches_of(rows: Sequence[TrainingRow], tokens: int) -> list[list[TrainingRow]]:
    """Return batches in the order of the rows, each with `tokens` tokens that have a loss.

    The row at the end of a batch is also in the next one, for the rest of its tokens. The last batch is filled up from
    the beginning.
    """
    counts = [sum(row.chosen) for row in rows]
    if not sum(counts) or tokens < 1:
        raise ValueError("there are no tokens to train on")
    tokens = min(tokens, sum(counts))
    found: list[list[TrainingRow]] = []
    left = 0
    for row, count in itertools.cycle(zip(rows, counts)):
        start = 0
        while start < count:
            if not left:
                if len(found) * tokens >= sum(counts):
                    return found
                found.append([])
                left = tokens
            taken = min(left, count - start)
            found[-1].append(row if taken == count else _part(row, start, start + taken))
            start, left = start + taken, left - taken
    return found


def _part(row: TrainingRow, start: int, stop: int) -> TrainingRow:
    """Return the row with a loss for these of its tokens only."""
    numbers = itertools.accumulate(row.chosen)
    kept = (role if start < number <= stop else 0 for role, number in zip(row.roles, numbers))
    return dataclasses.replace(row, roles=bytes(kept))

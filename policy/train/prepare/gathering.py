"""Computes credit when the turns of a group are spread over several processes: rewards are gathered before comparing.

Only keys and rewards are exchanged, no tokens. Every process computes the same exact sums and keeps its own part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from triton_agent.policy.train.prepare.credit import Credit, Turn, assign
from triton_agent.policy.train.prepare.recipes import Recipe


def assign_together(turns: Iterable[Turn], recipe: Recipe) -> Credit:
    """Run `assign` over the turns of all processes and return this process's part. Every process must call it."""
    from torch import distributed

    own = list(turns)
    if not (distributed.is_available() and distributed.is_initialized()):
        return assign(own, recipe)
    parcels: list[list[Turn]] = [[] for _ in range(distributed.get_world_size())]
    distributed.all_gather_object(parcels, own)
    everything = {turn.key: turn for parcel in parcels for turn in parcel}
    credit = assign(everything.values(), recipe)
    keys = {turn.key for turn in own}
    return dataclasses.replace(credit, advantages={k: a for k, a in credit.advantages.items() if k in keys})

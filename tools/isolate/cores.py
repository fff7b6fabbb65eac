"""Cores that compilers leave alone, so that the clock's two processes find an idle one when a call is timed.

A call's latency is the host's work, and where a dozen compilers fill every core it reads up to three times too long, by
chance. Not covered: other programs, which know nothing of this; machines with few cores, where a compiler needs them.
"""

from __future__ import annotations

import os
from collections.abc import Collection

CORES_LEFT = 2
"""One for the checker, one for the candidate."""
MANY = 8
"""With fewer, all of them are needed."""


def leave_cores_to_the_clock() -> None:
    """For this process and whatever it starts; asked by what compiles beside a clock."""
    os.sched_setaffinity(0, for_compilers(os.sched_getaffinity(0)))


def for_compilers(cores: Collection[int]) -> set[int]:
    """All but the last two, of many."""
    return set(sorted(cores)[:-CORES_LEFT]) if len(cores) >= MANY else set(cores)

"""Signs that a candidate knows inputs by their contents and hands out an answer that it made before.

Right for ever, it never fails a comparison; a clock that asks the same things again and again is what it is made for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triton_agent.tools.results import KernelLaunch

LEAST_SHARE = 0.5
"""Of what a kernel does in a call, which may depend a little on what the inputs hold."""
MEMORY = "the answer is a memory of an earlier one"

Launched = Mapping[str, KernelLaunch]
"""By kernel, in one call."""


def launched_less(now: Launched, before: Sequence[Launched]) -> str:
    """A kernel that every call launched before, and that does far less now than in any of them; empty if none does."""
    for kernel in set.intersection(*map(set, before)) if before else ():
        then = [launched[kernel] for launched in before]
        if kernel not in now or _far_less(now[kernel], then):
            return kernel
    return ""


def _far_less(now: KernelLaunch, then: Sequence[KernelLaunch]) -> bool:
    if now.programs < LEAST_SHARE * min(launch.programs for launch in then):
        return True
    stored = [launch.bytes_stored for launch in then if launch.bytes_stored is not None]
    return bool(stored) and now.bytes_stored is not None and now.bytes_stored < LEAST_SHARE * min(stored)

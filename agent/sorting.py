"""Quick looks before verdicts, where an author is trusted and a GPU is there: many variants in, the most promising out.

The built-in author's variants differ in numbers it chose itself. Judging each in full would take most of a run's time;
a short race in a worker that is used again tells which of them deserve it. What was looked at is noted with the run.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from triton_agent.memory.records import Completion
from triton_agent.policy.answer import read_answer
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.verdict import Sketch

LOOKS_PER_VERDICT = 6
"""Variants looked at for each that is judged."""
AT_ONCE = 12
LOOKING_S = 15.0
"""No look begins after this: where inputs are large, a few looks have to do."""


@runtime_checkable
class Sketcher(Protocol):
    """A judge that can take a quick look."""

    @property
    def sketches(self) -> bool:
        """Whether it can, on this device."""

    def sketch(self, source: str) -> Sketch:
        """Right once, and a short race; no verdict."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One variant and what was seen of it."""

    completion: Completion
    sketch: Sketch | None
    """None where the instrument failed, or time was up."""

    @property
    def speedup(self) -> float:
        """Over the original, in the figure where it is smaller; 0 where something was wrong."""
        if self.sketch is None or self.sketch.finding is not None or not self.sketch.timings:
            return 0.0
        return min(timing.speedup.median for timing in self.sketch.timings)

    def to_plain(self) -> dict[str, Any]:
        found = self.sketch.finding if self.sketch else None
        return {"speedup": round(self.speedup, 4), "finding": found.value if found else None}


async def most_promising(
    completions: Sequence[Completion], judge: Sketcher, keep: int
) -> tuple[list[Completion], list[Look]]:
    """The fastest at first sight, and all that was seen. If none is right, the first ones, for their verdicts."""
    if len(completions) <= keep:
        return list(completions), []
    gate, until_s = asyncio.Semaphore(AT_ONCE), time.monotonic() + LOOKING_S
    looks = await asyncio.gather(*(_look(completion, judge, gate, until_s) for completion in completions))
    ranked = sorted((look for look in looks if look.speedup > 0), key=lambda look: look.speedup, reverse=True)
    return [look.completion for look in (ranked or looks)[:keep]], list(looks)


async def _look(completion: Completion, judge: Sketcher, gate: asyncio.Semaphore, until_s: float) -> Look:
    source = read_answer(completion.text).source
    if source is None:
        return Look(completion=completion, sketch=None)
    async with gate:
        if time.monotonic() > until_s:
            return Look(completion=completion, sketch=None)
        try:
            return Look(completion=completion, sketch=await asyncio.to_thread(judge.sketch, source))
        except InstrumentError:  # no verdict is lost: it is judged, or another is
            return Look(completion=completion, sketch=None)

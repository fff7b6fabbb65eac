"""Sorts a trusted author's variants by a quick look on a GPU before full verdicts.

The built-in author's variants differ in numbers that the author chose itself. Judging each in full would take most of a
run's time; a short race in a reused worker shows which ones are worth a verdict. The looks are stored with the run.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import statistics
import time
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from triton_agent.agent.pool import LeftOut, Pool
from triton_agent.memory.records import Completion
from triton_agent.policy.answer import read_answer
from triton_agent.policy.episode import Judge
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.ranking import LATENCY_NOISE
from triton_agent.tools.results import Sketch

LOOKS_PER_VERDICT = 6
"""Variants that get a quick look for each variant that gets a verdict."""
AT_ONCE = 12
"""Quick looks under way per judge."""
LOOKING_S = 15.0
"""No quick look begins after this time. With large inputs, only the variants examined by then are compared."""


@runtime_checkable
class Sketcher(Protocol):
    @property
    def sketches(self) -> bool:
        """True if quick looks are possible on this device."""

    def sketch(self, source: str) -> Sketch:
        """Check one case and run a short race. The result is no verdict."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QuickLook:
    """The result of a quick look at one variant."""

    completion: Completion
    sketch: Sketch | None
    """None if the instrument failed or time was up."""
    failure: str = ""
    """Why there was no quick look; says nothing about the variant."""

    @property
    def speedup(self) -> float:
        """Speed-up over the reference: the lowest over device time, latency and sets of inputs; 0 if the answer was
        wrong.
        """
        if self.sketch is None or self.sketch.finding is not None or not self.sketch.timings:
            return 0.0
        return min(timing.speedup.median for timing in self.sketch.timings)

    def of_kind(self, kind: str) -> float:
        """Return the speed-up in one kind of time, as the geometric mean over several sets of inputs."""
        timings = self.sketch.timings if self.sketch is not None else ()
        found = [timing.speedup.median for timing in timings if timing.kind == kind]
        return statistics.geometric_mean(found) if found else 0.0

    def to_plain(self) -> dict[str, Any]:
        found = self.sketch.finding if self.sketch else None
        return {"speedup": round(self.speedup, 4), "finding": found.value if found else None}


def can_look(judge: object) -> bool:
    """Return True if this judge takes quick looks."""
    return isinstance(judge, Sketcher) and judge.sketches


async def most_promising(
    completions: Sequence[Completion],
    judges: Pool[Judge],
    keep: int,
    left_out: LeftOut[Judge] | None = None,
) -> tuple[list[Completion], list[QuickLook]]:
    """Return the fastest variants by a quick look, and all looks. If no variant is right, return the first variants.

    The judges share the looks. A look is a ratio of two times measured on one card, so looks of different cards
    compare.
    """
    if len(completions) <= keep:
        return list(completions), []
    until_s, at_once = time.monotonic() + LOOKING_S, AT_ONCE * len(judges.members)

    async def seen(completion: Completion) -> QuickLook:
        look = functools.partial(_look, completion, until_s)
        return await judges.tried(look, lambda found: found.failure, at_once=at_once, left_out=left_out)

    looks = await asyncio.gather(*map(seen, completions))
    ranked = fastest_first([look for look in looks if look.speedup > 0])
    return [look.completion for look in (ranked or looks)[:keep]], list(looks)


def fastest_first(looks: Sequence[QuickLook]) -> list[QuickLook]:
    """Sort by device time. The latency of a variant lowers its rank only where it exceeds the best by more than
    noise.
    """
    enough = (1 - LATENCY_NOISE) * max((look.of_kind("latency") for look in looks), default=0.0)

    def promise(look: QuickLook) -> float:
        return look.of_kind("device") * (min(1.0, look.of_kind("latency") / enough) if enough else 1.0)

    return sorted(looks, key=promise, reverse=True)


async def _look(completion: Completion, until_s: float, judge: Judge) -> QuickLook:
    source = read_answer(completion.whole).source
    if source is None or not isinstance(judge, Sketcher):
        return QuickLook(completion=completion, sketch=None)
    if time.monotonic() > until_s:
        return QuickLook(completion=completion, sketch=None, failure="no time was left")
    try:
        return QuickLook(completion=completion, sketch=await asyncio.to_thread(judge.sketch, source))
    except InstrumentError as error:  # no verdict is lost: this variant or another is judged in full
        return QuickLook(completion=completion, sketch=None, failure=error.what or type(error).__name__)

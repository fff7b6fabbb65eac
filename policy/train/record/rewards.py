"""Rewards in named parts: pure functions from a verdict and a few facts to a number.

A reward is the sum of its parts, and every part is recorded. `recipes.py` defines which parts a recipe pays, and how
much; `credit.py` turns rewards into advantages.

A part that could not be measured is None, never 0: a turn without a verdict has no reward, and a speed that was not
timed is an unknown part of a known total.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping
from typing import Any

from triton_agent.policy.train.record.novelty import bare_text
from triton_agent.tools.candidate.screen import SOURCE_LIMIT_BYTES
from triton_agent.tools.results import Evaluation, Finding, Interval, Status

FORMAT, RULE, CORRECT, SPEED, SHARE = "format", "rule", "correct", "speed", "share"
MILESTONE, OVERLONG, NOVELTY, REASONING, HACK = "milestone", "overlong", "novelty", "reasoning", "hack"
GAIN = "gain"
PARTS = (FORMAT, RULE, CORRECT, SPEED, GAIN, SHARE, MILESTONE, OVERLONG, NOVELTY, REASONING, HACK)
"""Names of the parts, as recorded."""

MILESTONE_MARGIN = 1.05
"""Speed-up over the baseline at which a milestone is reached, with confidence."""

_KERNEL = re.compile(
    r"^[ \t]*@(?:[^\n]*\btriton\.jit\b[^\n]*|jit[ \t]*)\n(?:(?![ \t]*(?:def|class)\b)[^\n]*\n)*[ \t]*def[ \t]+(\w+)",
    re.MULTILINE,
)
"""Matches a function under `triton.jit`, possibly with other decorators in between. Parsing syntax trees would take a
sixth of the time of preparing a training.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts beside the verdict that a reward may depend on; None if unknown."""

    source: str = ""
    problem_sound: bool | None = None
    """True if the problem passed `check-problem`."""
    kernel_share: float | None = None
    """Share of device time in the candidate's own kernels."""
    tokens: int = 0
    """Number of tokens of the answer."""
    token_limit: int | None = None
    """Token limit of the answer."""
    shown_passed: bool = False
    """True if the prompt contained a kernel of this run that passed."""
    shown_speedup: Interval | None = None
    """Largest speed-up among those kernels; None if none was timed."""

    def __post_init__(self) -> None:
        if self.kernel_share is not None and not 0.0 <= self.kernel_share <= 1.0:
            raise ValueError(f"a share must be from 0 to 1, not {self.kernel_share}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """The reward of a turn, part by part."""

    recipe: str
    total: float | None
    """Sum of the measured parts; None without a verdict."""
    parts: Mapping[str, float | None]
    """Value of each part; None if it could not be measured. Parts that do not apply are absent."""
    hack: bool = False
    """True if the candidate cheated."""
    passed: bool = False
    why: str = ""
    """Why nothing was paid or measured; empty for ordinary rewards."""

    def __post_init__(self) -> None:
        if not set(self.parts) <= set(PARTS):
            raise ValueError(f"unknown parts: {sorted(set(self.parts) - set(PARTS))}")
        if self.total is None and (self.parts or self.hack or not self.why):
            raise ValueError("a turn that was not measured has no parts but a reason")
        if self.total is not None and not math.isclose(self.total, _sum(self.parts), abs_tol=1e-9):
            raise ValueError(f"the parts {dict(self.parts)} do not add up to {self.total}")

    @classmethod
    def of(cls, recipe: str, parts: Mapping[str, float | None], **rest: Any) -> Reward:
        return cls(recipe=recipe, total=_sum(parts), parts=dict(parts), **rest)

    @classmethod
    def unmeasured(cls, recipe: str, why: str) -> Reward:
        return cls(recipe=recipe, total=None, parts={}, why=why)

    def plus(self, name: str, paid: float) -> Reward:
        """Return this reward with one more part; a reward that was not measured stays unmeasured."""
        if self.total is None:
            return self
        return dataclasses.replace(self, total=self.total + paid, parts={**self.parts, name: paid})

    def of_a_copy(self, why: str) -> Reward:
        """Return this reward for a copy of an earlier candidate: it earns nothing, and penalties remain."""
        if self.total is None or self.hack:
            return self
        if self.total <= 0.0:
            return dataclasses.replace(self, why=why)
        return Reward.of(self.recipe, {}, passed=self.passed, why=why)

    def stream(self, names: frozenset[str]) -> float | None:
        """Return the sum of these parts: the reward of the tokens that are credited with them. A hack counts for all
        tokens.
        """
        if self.total is None:
            return None
        return _sum({name: paid for name, paid in self.parts.items() if name in names or name == HACK})


def _sum(parts: Mapping[str, float | None]) -> float:
    return math.fsum(paid for paid in parts.values() if paid is not None)


# -- format and rule ---------------------------------------------------------------------------------------------------


def answered(evaluation: Evaluation) -> bool:
    """Return True if the answer contained a kernel file."""
    return evaluation.status is not Status.NO_ANSWER


def launches_triton(evaluation: Evaluation, source: str) -> bool:
    """Return True if the candidate's own Triton kernels do the work, judged by its behaviour first and its text
    second.
    """
    if evaluation.status is Status.PASSED:
        return True
    if evaluation.status in (Status.NO_ANSWER, Status.NOT_TRITON) or evaluation.finding is Finding.SYNTAX:
        return False
    if evaluation.diagnosis is not None and evaluation.diagnosis.launches:
        return True
    return contains_triton(source)


@functools.lru_cache(maxsize=1 << 10)
def contains_triton(source: str) -> bool:
    """Return True if a file defines a `triton.jit` function and launches one with that name."""
    if len(source) > SOURCE_LIMIT_BYTES or "jit" not in source:
        return False
    text = bare_text(source)
    kernels = "|".join(set(_KERNEL.findall(text)))
    return bool(kernels) and re.search(rf"(?<![\w.])(?:{kernels})\s*\[", text) is not None


# -- speed -------------------------------------------------------------------------------------------------------------


def speedup_over(evaluation: Evaluation, baseline: str) -> Interval | None:
    """Return the device-time speed-up over `eager` or `compile`, the smallest over several baselines; None if it was
    not timed.
    """
    found = [timing.speedup for timing in evaluation.against(baseline, "device")]
    return min(found, key=lambda speedup: speedup.low, default=None)


def linear_speed(speedup: Interval | None, *, most: float = math.inf) -> float | None:
    """Return the clipped lower bound of the speed-up: the measurement supports no larger value."""
    return None if speedup is None else min(max(speedup.low, 0.0), most)


def log_speed(speedup: Interval | None, *, least: float, most: float) -> float | None:
    """Return the clipped doublings: a gain by the interval's lower bound, a loss by its upper bound.

    An interval that contains 1 pays nothing, so noise earns nothing.
    """
    if speedup is None:
        return None
    supported = max(speedup.low, 1.0) if speedup.high >= 1.0 else speedup.high
    if supported <= 0.0:
        return least
    return min(max(math.log2(supported), least), most)


def gain(speedup: Interval | None, shown: Interval | None, *, most: float) -> float | None:
    """Return the doublings over the best kernel in the prompt, at least 0 because that kernel can still be used.

    None if only one of the two was timed; 0 if neither was, since being right was no gain.
    """
    if speedup is None or shown is None:
        return 0.0 if speedup is shown else None
    if shown.low <= 0.0:
        return None
    over = Interval(low=speedup.low / shown.high, median=speedup.median / shown.median, high=speedup.high / shown.low)
    return log_speed(over, least=0.0, most=most)


def ahead(speedup: Interval | None) -> bool | None:
    """Return True if the speed-up exceeds the milestone with confidence."""
    return None if speedup is None else speedup.low > MILESTONE_MARGIN


# -- the rest ----------------------------------------------------------------------------------------------------------


def overlong(tokens: int, limit: int | None, *, buffer_share: float = 0.2) -> float:
    """Return 0 up to a buffer before the limit, then fall linearly to -1 at the limit."""
    if not limit:
        return 0.0
    buffer = buffer_share * limit
    return -min(max((tokens - (limit - buffer)) / buffer, 0.0), 1.0)


def novelty(alike: int) -> float:
    """Return 1 for the only candidate of its structure, falling with the square root of their number."""
    return 1.0 / math.sqrt(alike)


def reasoning_worth(gain: float) -> float:
    """Return the worth of a gain in the log-likelihood of a right answer, in nats per token, from -1 to 1."""
    return math.tanh(gain)

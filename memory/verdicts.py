"""The part of a grading that lists and recall need, extracted once when it is stored.

The newest verdict of an attempt counts. An instrument failure never replaces a verdict, and a later check without a
clock keeps the measured speed-up as long as the candidate still passes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re

from triton_agent.memory.records import Grading
from triton_agent.tools.ranking import standing
from triton_agent.tools.results import Evaluation, Interval, Status

DEVICE_TIME = "device"
LONGEST_MESSAGE = 240
_FIGURES = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AttemptState:
    """The state of an attempt after its gradings so far, as the store keeps it in columns."""

    graded_us: int | None = None
    status: str | None = None
    finding: str | None = None
    failure_key: int | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    device: str | None = None
    merit: float | None = None
    unmeasured: str | None = None

    @property
    def passed(self) -> bool:
        return self.status == Status.PASSED

    def after(self, grading: Grading, graded_us: int) -> AttemptState:
        """Return the state after one more grading; gradings may arrive in any order."""
        if grading.evaluation is None:
            unmeasured = grading.failure.kind if grading.failure is not None and self.status is None else None
            return dataclasses.replace(self, unmeasured=unmeasured)
        if self.graded_us is not None and graded_us < self.graded_us:
            return self
        return _standing_of(grading.evaluation, graded_us, self)


def _standing_of(evaluation: Evaluation, graded_us: int, before: AttemptState) -> AttemptState:
    good, speedup, device = passed(evaluation), speedup_of(evaluation), evaluation.environment.device
    if good and speedup is None and before.passed and before.speedup is not None:
        return dataclasses.replace(before, graded_us=graded_us)
    return AttemptState(
        graded_us=graded_us,
        status=evaluation.status.value,
        finding=evaluation.finding.value if evaluation.finding is not None else None,
        failure_key=failure_key(evaluation) if not good else None,
        speedup=speedup.median if speedup else None,
        speedup_low=speedup.low if speedup else None,
        speedup_high=speedup.high if speedup else None,
        device=device,
        merit=standing(evaluation).merit if good else None,
    )


def passed(evaluation: Evaluation | None) -> bool:
    """Return True if the evaluation exists and its status is `passed`."""
    return evaluation is not None and evaluation.status is Status.PASSED


def speedup_of(evaluation: Evaluation | None) -> Interval | None:
    """Return the speed-up over the eager reference in device time; None if it was not timed."""
    timing = evaluation.timing("eager", DEVICE_TIME) if evaluation is not None else None
    return timing.speedup if timing is not None else None


def condensed(message: str) -> str:
    """Join the first two lines of a message."""
    return " ".join(line.strip() for line in message.strip().splitlines()[:2])[:LONGEST_MESSAGE]


def failure_key(evaluation: Evaluation) -> int:
    """Hash the finding and the message without figures, so that messages that differ only in figures agree."""
    text = f"{evaluation.finding}:{_FIGURES.sub('#', condensed(evaluation.message))}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little", signed=True)

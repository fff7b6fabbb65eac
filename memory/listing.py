"""What lists of runs and attempts show, and what they can be asked for: small values, without texts."""

from __future__ import annotations

import dataclasses
import datetime
import enum

from triton_agent.tools.results import Finding, Interval, Status


class RunState(enum.StrEnum):
    """True if a run has come to its end."""

    ENDED = "ended"
    OPEN = "open"
    """It goes on, or was killed and can be resumed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs; what is None does not matter."""

    problem: str | None = None
    """Its name, its fingerprint, or its digest or the beginning of it."""
    policy: str | None = None
    state: RunState | None = None
    since: datetime.datetime | None = None
    """Started then or later."""
    continues: str | None = None
    """Id of a run: only those that were forked from one of its attempts."""
    before: str | None = None
    """Id of a run: only what is older than that, for the next page."""
    limit: int | None = 50


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run in a line."""

    id: str
    problem: str
    """Its name."""
    problem_digest: str
    fingerprint: str
    policy: str
    device: str
    started_at: datetime.datetime
    last_at: datetime.datetime
    """When something was last added."""
    ended_at: datetime.datetime | None
    stop_reason: str
    """Empty while it is open."""
    forked_from: str | None
    attempts: int
    turns: int
    judged: int
    """Attempts with a verdict."""
    passed: int
    tokens: int
    best: str | None
    """Key of what was shipped; while the run is open, of the best so far."""
    speedup: Interval | None
    """Of the best."""

    @property
    def state(self) -> RunState:
        return RunState.OPEN if self.ended_at is None else RunState.ENDED


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AttemptHeader:
    """An attempt in a line, as its newest verdict has it."""

    key: str
    turn: int
    index: int
    parent: str | None
    status: Status | None
    """None where there is no verdict yet."""
    finding: Finding | None
    unmeasured: str
    """Name of the error that kept a verdict from being reached; empty where none did."""
    speedup: Interval | None
    device: str
    """Where the verdict was reached."""
    policy: str
    policy_version: str
    source: str | None
    """Hash of the source: what evaluations call the candidate."""
    tokens: int
    created_at: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFilter:
    """Which attempts, over all runs; what is None does not matter."""

    runs: tuple[str, ...] | None = None
    """Ids."""
    problem: str | None = None
    """Its name, its fingerprint, or its digest or the beginning of it."""
    policy: str | None = None
    policy_version: str | None = None
    statuses: tuple[Status, ...] | None = None
    since: datetime.datetime | None = None
    with_tokens: bool = False
    """Only what has the tokens that were sampled."""

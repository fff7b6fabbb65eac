"""Filters and rows of the lists of runs and attempts: small values, without texts."""

from __future__ import annotations

import dataclasses
import datetime
import enum

from triton_agent.tools.results import Finding, Interval, Status


class RunState(enum.StrEnum):
    ENDED = "ended"
    OPEN = "open"
    """The run is under way, or was killed and can be resumed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Selects runs; a field that is None selects all."""

    id: str | None = None
    search: str | None = None
    """Part of a problem's name, or the beginning of a run's id or of a problem's digest."""
    problem: str | None = None
    """Name, fingerprint, or (the beginning of a) digest of the problem."""
    policy: str | None = None
    state: RunState | None = None
    since: datetime.datetime | None = None
    continues: str | None = None
    """Id of a run: only runs that were forked from one of its attempts."""
    before: str | None = None
    """Id of a run: only older runs, for the next page."""
    limit: int | None = 50
    with_best: bool = True
    """Look up the best attempt of each run, which takes most of the time of a long list."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One line of the list of runs."""

    id: str
    problem: str
    problem_digest: str
    fingerprint: str
    policy: str
    device: str
    started_at: datetime.datetime
    last_at: datetime.datetime
    """Time of the newest record."""
    ended_at: datetime.datetime | None
    stop_reason: str
    """Empty while the run is open."""
    forked_from: str | None
    attempts: int
    turns: int
    judged: int
    """Attempts with a verdict."""
    passed: int
    tokens: int
    best: str | None
    """Key of the attempt that was shipped or, while the run is open, of the best so far."""
    speedup: Interval | None
    """Speed-up of the best."""

    @property
    def state(self) -> RunState:
        return RunState.OPEN if self.ended_at is None else RunState.ENDED


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AttemptHeader:
    """One line of the list of attempts, by the newest verdict."""

    key: str
    turn: int
    index: int
    parent: str | None
    status: Status | None
    """None without a verdict."""
    finding: Finding | None
    unmeasured: str
    """Name of the error that prevented a verdict; empty otherwise."""
    speedup: Interval | None
    device: str
    """Device of the verdict."""
    policy: str
    policy_version: str
    source: str | None
    """Hash of the source, which evaluations call `candidate`."""
    tokens: int
    created_at: datetime.datetime

    @property
    def passed(self) -> bool:
        return self.status is Status.PASSED

    @property
    def state(self) -> str:
        """The status in a word, for tables."""
        if self.status is not None:
            return self.status.value
        return "not measured" if self.unmeasured else "not judged"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeaderFilter:
    """Selects attempts of one run."""

    status: Status | None = None
    timed: bool = False
    """Only attempts with a speed-up."""
    children_of: str | None = None
    """Key of the parent."""
    best_first: bool = False
    """Only attempts that passed, the best first by merit; otherwise by turn and answer."""
    after: str | None = None
    """Key of an attempt: only later ones by turn and answer, for the next page."""
    before: str | None = None
    """Key of an attempt: only earlier ones, the nearest first."""
    limit: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFilter:
    """Selects attempts over all runs; a field that is None selects all."""

    runs: tuple[str, ...] | None = None
    """Ids of runs."""
    problem: str | None = None
    """Name, fingerprint, or (the beginning of a) digest of the problem."""
    policy: str | None = None
    policy_version: str | None = None
    statuses: tuple[Status, ...] | None = None
    since: datetime.datetime | None = None
    with_tokens: bool = False
    """Only attempts with the sampled tokens."""

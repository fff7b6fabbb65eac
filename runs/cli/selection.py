"""Selects runs by id, problem, policy, state and start, as given on the command line."""

from __future__ import annotations

import dataclasses
import datetime
import re

from triton_agent.memory.listing import RunFilter, RunState, RunSummary
from triton_agent.memory.store import Store
from triton_agent.runs.cli.store_option import run_id
from triton_agent.tools.errors import UsageError

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunSelection:
    """The selection on the command line; empty selects every run."""

    ids: tuple[str, ...] = ()
    """Ids, beginnings of ids, or `last`."""
    problem: str | None = None
    """Name, fingerprint, or beginning of the digest of the problem."""
    policy: str | None = None
    status: str | None = None
    """`open`, `ended`, or a stop reason."""
    since: str | None = None
    before: str | None = None
    limit: int | None = None
    with_best: bool = True
    """Look up the best attempt of each run, which takes most of the time of a long list."""

    @property
    def is_everything(self) -> bool:
        """True if nothing was given."""
        return self == RunSelection()


def select_runs(store: Store, chosen: RunSelection) -> list[RunSummary]:
    """Return the matching runs, newest first."""
    if chosen.limit is not None and chosen.limit < 0:
        raise UsageError(f"--limit {chosen.limit}", remedy="a number of runs; 0: all")
    now = datetime.datetime.now(datetime.UTC)
    since = None if chosen.since is None else parse_moment(chosen.since, "--since", now)
    before = None if chosen.before is None else parse_moment(chosen.before, "--older-than", now)
    states = {state.value: state for state in RunState}
    ids = {run_id(store, name) for name in chosen.ids}
    stopped_so = chosen.status if chosen.status not in (None, *states) else None
    filtered_here = bool(ids or before or stopped_so)
    wanted = RunFilter(
        problem=chosen.problem,
        policy=chosen.policy,
        state=states.get(chosen.status or ""),
        since=since,
        with_best=chosen.with_best,
        limit=None if filtered_here else chosen.limit,
    )
    found = [
        run
        for run in store.runs(wanted)
        if (not ids or run.id in ids)
        and (before is None or run.started_at < before)
        and (stopped_so is None or run.stop_reason == stopped_so)
    ]
    return found[: chosen.limit] if chosen.limit is not None else found


def parse_moment(text: str, option: str, now: datetime.datetime) -> datetime.datetime:
    """Parse a date, a date with a time (local by default), or an age before `now`."""
    if found := _AGE.fullmatch(text.strip()):
        try:
            return now - datetime.timedelta(**{_UNITS[found[2]]: float(found[1])})
        except OverflowError:
            raise UsageError(f"{option} {text} is too long ago") from None
    try:
        return datetime.datetime.fromisoformat(text.strip()).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"{option} {text}", remedy="a date as 2026-01-31, or an age as 90m, 12h, 7d, 4w") from None

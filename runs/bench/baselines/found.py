"""The baselines of a problem: read off the races of its kernels, or measured, which a cache keeps between benchmarks.

The user's cache folder holds measurements by problem, card, driver and versions, so another run or another policy can
use them. A problem without any measurement is not cached; a benchmark's own record remembers it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import platformdirs

from triton_agent.memory.sql.encoding import from_plain
from triton_agent.runs.bench.rows import ONE, Against, BaselineTime, ProblemRow, Speed
from triton_agent.runs.bench.standing import standing_for
from triton_agent.tools.machine.hardware import Gpu
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.results import Interval, to_json
from triton_agent.tools.versions import installed

METHOD = 2
"""Version of the measurement; raised when earlier figures would come out differently."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Baselines:
    """Baselines of one problem."""

    times: tuple[BaselineTime, ...]
    notes: tuple[str, ...] = ()
    """Missing baselines, each with the reason."""
    failure: str = ""
    """Why nothing was measured."""
    measured_at: str = ""
    """Date and time, UTC."""
    commit: str = ""
    """Commit of this project."""
    limit_s: float = 0.0
    """Time limit that torch.compile was given."""

    @property
    def not_compiled(self) -> bool:
        """True if torch.compile was tried and gave no baseline."""
        return bool(self.times) and not any(item.against is Against.COMPILE for item in self.times)

    def settles(self, limit_s: float) -> bool:
        """Return whether another measurement with this limit for torch.compile would add nothing."""
        return not (self.failure or self.not_compiled) or limit_s <= self.limit_s


def from_races(row: ProblemRow) -> tuple[BaselineTime, ...]:
    """Return the baselines that the row's kernel raced against, with their times; none if one is missing."""
    sample = standing_for(row)
    speeds = sample.speeds if sample else ()
    if {Against.EAGER, Against.COMPILE} - {speed.against for speed in speeds}:
        return ()
    eager = {speed.kind: speed for speed in speeds if speed.against is Against.EAGER}
    return tuple(
        BaselineTime(
            against=speed.against,
            kind=speed.kind,
            ms=speed.baseline_ms,
            over_eager=ONE if speed.against is Against.EAGER else _ratio(eager[speed.kind], speed),
        )
        for speed in speeds
        if speed.kind in eager
    )


def _ratio(eager: Speed, other: Speed) -> Interval:
    """Return the speed-up of a baseline over eager, from the kernel's speed-ups over both."""
    return Interval(
        median=eager.speedup.median / other.speedup.median,
        low=eager.speedup.low / other.speedup.high,
        high=eager.speedup.high / other.speedup.low,
    )


def with_baselines(row: ProblemRow, found: Baselines | None) -> ProblemRow:
    """Return the row with its baselines, and notes on those that are missing."""
    if found is None:
        return row
    reason = f"its baselines were not measured: {found.failure}" if found.failure else ""
    notes = dict.fromkeys((*row.notes, *filter(None, (reason,)), *found.notes))
    return dataclasses.replace(row, baselines=found.times, notes=tuple(notes))


def place_of(gpu: Gpu) -> str:
    """Return the key of the machine that figures hold for: card, driver and versions."""
    return " ".join(map(str, (gpu.uuid, gpu.driver, installed("torch"), installed("triton"), METHOD)))


def cached(spec: ProblemSpec, places: Iterable[str]) -> Baselines | None:
    """Return the baselines measured by the first of these cards that has some; None without any."""
    for place in places:
        try:
            return from_plain(Baselines, json.loads(_file(spec, place).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            continue
    return None


def cache(spec: ProblemSpec, place: str, result: Baselines) -> None:
    """Write baselines into the cache, atomically; do nothing if the cache cannot be written."""
    path = _file(spec, place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as file:
            json.dump(to_json(result), file)
        os.replace(file.name, path)
    except OSError:
        return


def _file(spec: ProblemSpec, place: str) -> Path:
    key = hashlib.sha256(f"{spec.digest} {place}".encode()).hexdigest()
    return Path(platformdirs.user_cache_dir("triton-agent")) / "baselines" / f"{key}.json"

"""The highest measured rates of a GPU, and the least time of a kernel that follows from them.

The rates are measured once per machine, driver, card and torch version (see `race/rates.py`), which takes about ten
seconds, and are kept in the user's cache folder. The floor is the larger of two times: bytes moved at the rate of a
copy, and operations at the rate of their unit. Data-sheet rates are not used, since no real kernel reaches them.

Not covered: a proof that nothing is faster. A ceiling is the best of several readings, and data may be in the L2 cache,
so a time slightly below the floor is possible. A time far below it is an error or a forgery.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from triton_agent.tools.errors import InstrumentError

UNITS = ("bf16", "fp16", "tf32", "fp32", "fp64")
"""Precisions of a matrix product; `fp32` is exact, without tensor cores."""
_TENSOR_CORE_UNITS = ("bf16", "fp16", "tf32")
"""Precisions computed by the same tensor cores, so their times add up. The others may overlap with them."""
_LAYOUT = 2
"""Version of the cached file. Files of other versions are not read."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """The best rates measured on one card."""

    gpu: str
    uuid: str
    driver: str
    torch: str
    measured_at: str
    """Date and time, UTC."""
    copy_bytes_per_s: float
    """Rate of a copy on the device, counting bytes read plus bytes written."""
    flops_per_s: Mapping[str, float]
    """Rate of matrix products of random data, by unit."""
    launch_ms: float
    """Latency of one launch of an empty Triton kernel, by the host's clock, from an idle GPU to an idle GPU."""
    launch_enqueue_ms: float
    """The part of `launch_ms` until the launch call returned."""
    empty_kernel_ms: float
    """Device time of that kernel between two events, which is the lowest possible reading."""
    copies_ms: tuple[tuple[int, float], ...] = ()
    """For copies of ascending size: bytes read plus bytes written, and the time of the copy with a cold cache. Empty in
    records of older versions."""

    def __post_init__(self) -> None:
        figures = (self.copy_bytes_per_s, *self.flops_per_s.values(), self.launch_ms, self.empty_kernel_ms)
        if not all(figure > 0 for figure in (*figures, *(ms for _, ms in self.copies_ms))):
            raise ValueError(f"ceilings must be above zero: {figures}")
        if unknown := set(self.flops_per_s) - set(UNITS):
            raise ValueError(f"unknown units {sorted(unknown)}; known are {', '.join(UNITS)}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The ceilings that an author is told before any candidate was timed."""

    copy_bytes_per_s: float
    flops_per_s: Mapping[str, float]

    @classmethod
    def of(cls, measured: Ceilings) -> Rates:
        return cls(copy_bytes_per_s=measured.copy_bytes_per_s, flops_per_s=dict(measured.flops_per_s))


def floor_ms(bytes_moved: float, flops_by_unit: Mapping[str, float], ceilings: Ceilings) -> float:
    """Return the least time for moving this many bytes and computing this many operations of each unit."""
    if missing := set(flops_by_unit) - set(ceilings.flops_per_s):
        raise ValueError(f"no rate was measured for {sorted(missing)}, only for {', '.join(ceilings.flops_per_s)}")
    seconds = {unit: flops / ceilings.flops_per_s[unit] for unit, flops in flops_by_unit.items()}
    shared_s = sum(spent for unit, spent in seconds.items() if unit in _TENSOR_CORE_UNITS)
    return 1e3 * max(bytes_moved / ceilings.copy_bytes_per_s, shared_s, *seconds.values(), 0.0)


def copy_ms(bytes_moved: float, ceilings: Ceilings) -> float | None:
    """Return the time of a copy that moves `bytes_moved` on this card; None if copies were not measured.

    Interpolated, since the rate depends on the size: a copy of 100 MB takes a fifth longer than the peak rate implies.
    """
    if not ceilings.copies_ms:
        return None
    points = [(0, ceilings.empty_kernel_ms), *ceilings.copies_ms]
    for (fewer, sooner), (more, later) in itertools.pairwise(points):
        if bytes_moved <= more:
            return sooner + (later - sooner) * (bytes_moved - fewer) / (more - fewer)
    most, longest = points[-1]
    return longest + 1e3 * (bytes_moved - most) / ceilings.copy_bytes_per_s


def cache_folder() -> Path:
    """Return the user's private folder of ceilings. `save` creates it."""
    return Path(platformdirs.user_cache_dir("triton-agent")) / "ceilings"


def cache_path(folder: Path, identity: Mapping[str, str]) -> Path:
    """Return the path of the file for one machine, card and set of software versions."""
    text = json.dumps({**identity, "machine": platform.node(), "layout": _LAYOUT}, sort_keys=True)
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def load(path: Path) -> Ceilings | None:
    """Read a cached file; return None if it is missing or invalid."""
    try:
        facts = json.loads(path.read_text())
        return Ceilings(**{**facts, "copies_ms": tuple((int(size), float(ms)) for size, ms in facts["copies_ms"])})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def save(path: Path, measured: Ceilings) -> None:
    """Write the file atomically, since several processes may write it at once."""
    try:
        for folder in reversed([path.parent, *path.parent.parents]):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as part:
            json.dump({**dataclasses.asdict(measured), "flops_per_s": dict(measured.flops_per_s)}, part)
        os.replace(part.name, path)
    except OSError as error:
        raise InstrumentError(
            f"the ceilings cannot be saved: {error.strerror}",
            where=str(path),
            remedy="make the folder writable, or set XDG_CACHE_HOME to another",
        ) from error

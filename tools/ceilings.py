"""What a GPU reaches at best, measured on that card, and the floor under a kernel's time that follows from it.

The figures are measured once for each machine, driver, card and torch (see `timing/rates.py`), which takes some ten
seconds, and kept in the user's cache folder. The floor is the larger of two times: bytes at the copy rate, operations
at the rate of their unit.

Not covered: a proof that nothing can be faster. A ceiling is the best of what was tried, data may sit in the L2 cache,
so a time somewhat below the floor is possible, one far below it is an error or a lie. Data-sheet rates are not used.
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
from typing import TYPE_CHECKING

import platformdirs

from triton_agent.tools.errors import InstrumentError

if TYPE_CHECKING:
    import torch

UNITS = ("bf16", "fp16", "tf32", "fp32", "fp64")
"""What a matrix product can be computed in; `fp32` is the strict one, without tensor cores."""
_ONE_UNIT = ("bf16", "fp16", "tf32")
"""Done by the same tensor cores, so their times add up; the others may run at the same time as these."""
_LAYOUT = 2
"""Of the cached file; a higher number makes old files unread."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """The best that was measured on one card."""

    gpu: str
    uuid: str
    driver: str
    torch: str
    measured_at: str
    """Date and time, UTC."""
    copy_bytes_per_s: float
    """Device-to-device copy, counting bytes read plus bytes written."""
    flops_per_s: Mapping[str, float]
    """Matrix products of random data, by unit."""
    launch_ms: float
    """From an idle GPU through one launch of an empty Triton kernel to an idle GPU, by the host's clock."""
    launch_enqueue_ms: float
    """The part of it that the host spends in the launch."""
    empty_kernel_ms: float
    """Device time of that kernel, between events: no reading can be lower."""
    copies_ms: tuple[tuple[int, float], ...] = ()
    """Bytes read plus bytes written, and how long a copy of so many takes with a cold cache, its start and its end
    included; the fewest first. Empty in records of older versions."""

    def __post_init__(self) -> None:
        figures = (self.copy_bytes_per_s, *self.flops_per_s.values(), self.launch_ms, self.empty_kernel_ms)
        if not all(figure > 0 for figure in (*figures, *(ms for _, ms in self.copies_ms))):
            raise ValueError(f"a ceiling that is not above zero: {figures}")
        if unknown := set(self.flops_per_s) - set(UNITS):
            raise ValueError(f"unknown units {sorted(unknown)}; known are {', '.join(UNITS)}")


def floor_ms(bytes_moved: float, flops_by_unit: Mapping[str, float], ceilings: Ceilings) -> float:
    """The least time for moving so many bytes and doing so many operations, each in its unit."""
    if missing := set(flops_by_unit) - set(ceilings.flops_per_s):
        raise ValueError(f"no measured rate for {sorted(missing)}; there are {', '.join(ceilings.flops_per_s)}")
    seconds = {unit: flops / ceilings.flops_per_s[unit] for unit, flops in flops_by_unit.items()}
    shared_s = sum(spent for unit, spent in seconds.items() if unit in _ONE_UNIT)
    return 1e3 * max(bytes_moved / ceilings.copy_bytes_per_s, shared_s, *seconds.values(), 0.0)


def copy_ms(bytes_moved: float, ceilings: Ceilings) -> float | None:
    """How long a copy that moves so many bytes takes on this card; None where that was not measured.

    No rate: a copy of 100 MB takes a fifth longer than its bytes at the rate of a large one, and so does any kernel.
    """
    if not ceilings.copies_ms:
        return None
    points = [(0, ceilings.empty_kernel_ms), *ceilings.copies_ms]
    for (fewer, sooner), (more, later) in itertools.pairwise(points):
        if bytes_moved <= more:
            return sooner + (later - sooner) * (bytes_moved - fewer) / (more - fewer)
    most, longest = points[-1]
    return longest + 1e3 * (bytes_moved - most) / ceilings.copy_bytes_per_s


def ceilings(device: torch.device | str = "cuda", *, folder: Path | None = None, renew: bool = False) -> Ceilings:
    """The ceilings of a card, measured now unless they are known.

    Hold its lease meanwhile, or what was measured under load would be kept.
    """
    from triton_agent.tools.timing import rates

    identity = rates.identity(device)
    path = cache_path(folder or cache_folder(), identity)
    known = None if renew else load(path)
    if known is None:
        known = rates.measure_ceilings(device)
        save(path, known)
    return known


def known(device: torch.device | str = "cuda", *, folder: Path | None = None) -> bool:
    """Whether they need not be measured."""
    from triton_agent.tools.timing import rates

    return load(cache_path(folder or cache_folder(), rates.identity(device))) is not None


def cache_folder() -> Path:
    """Where ceilings are kept for this user; made on first use, private."""
    return Path(platformdirs.user_cache_dir("triton-agent")) / "ceilings"


def cache_path(folder: Path, identity: Mapping[str, str]) -> Path:
    """One file for each machine and what `identity` says of the card and its software."""
    text = json.dumps({**identity, "machine": platform.node(), "layout": _LAYOUT}, sort_keys=True)
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def load(path: Path) -> Ceilings | None:
    """What was kept, or None where nothing usable was."""
    try:
        facts = json.loads(path.read_text())
        return Ceilings(**{**facts, "copies_ms": tuple((int(size), float(ms)) for size, ms in facts["copies_ms"])})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def save(path: Path, measured: Ceilings) -> None:
    """Keeps the figures; whole or not at all, should several processes do so at once."""
    try:
        _private(path.parent)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as part:
            json.dump({**dataclasses.asdict(measured), "flops_per_s": dict(measured.flops_per_s)}, part)
        os.replace(part.name, path)
    except OSError as error:
        raise InstrumentError(
            f"the ceilings cannot be kept: {error.strerror}",
            where=str(path),
            remedy="make the folder writable, or set XDG_CACHE_HOME to another",
        ) from error


def _private(folder: Path) -> None:
    """The folder and what had to be made above it, for this user's eyes only."""
    missing = [folder, *folder.parents]
    for above in reversed(missing):
        if not above.exists():
            above.mkdir(mode=0o700, exist_ok=True)

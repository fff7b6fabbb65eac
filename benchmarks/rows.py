"""Rows of benchmark results in tracked CSV files: where and of what code a figure was measured stands beside it.

Every file has one schema, the columns that all share first and then the benchmark's own. A file whose columns are
others is refused, not mended: figures of two kinds in one column would be compared one day. Nothing is ever rewritten.
"""

from __future__ import annotations

import csv
import datetime
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from triton_agent.tools.machine import hardware
from triton_agent.tools.versions import installed

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"

SHARED_COLUMNS = ("measured_at", "commit", "cpu", "cores", "load", "gpu", "python", "torch", "triton")
"""`load` is what else ran: the kernel's one-minute average just before."""


class SchemaMismatch(Exception):
    """A file holds other columns than the rows that should go into it."""


def provenance() -> dict[str, str]:
    """Return the shared columns. Call it before measuring, so that `load` is not the benchmark's own."""
    gpus = sorted({gpu.name for gpu in hardware.gpus()})
    return {
        "measured_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(ROOT),
        "cpu": cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load": f"{os.getloadavg()[0]:.1f}",
        "gpu": " + ".join(gpus) or "none",
        "python": platform.python_version(),
        "torch": installed("torch") or "none",
        "triton": installed("triton") or "none",
    }


def append(path: Path, shared: Mapping[str, str], rows: Sequence[Mapping[str, object]]) -> None:
    """Add rows, each with the shared columns in front; the file and its header are made when missing."""
    if not rows:
        return
    columns = (*SHARED_COLUMNS, *rows[0])
    merged = [{**shared, **row} for row in rows]
    for row in merged:
        _require_same(path, tuple(row), columns)
    _require_same(path, _header(path) or columns, columns)
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = _header(path) is None
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(merged)


def _header(path: Path) -> tuple[str, ...] | None:
    """Return the columns of a file; None if there is no file or it is empty."""
    if not path.exists():
        return None
    with path.open(newline="", encoding="utf-8") as file:
        first = next(csv.reader(file), None)
    return tuple(first) if first else None


def _require_same(path: Path, found: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    if found != wanted:
        raise SchemaMismatch(f"{path}: its columns are {', '.join(found)}; the rows have {', '.join(wanted)}")


def commit(folder: Path) -> str:
    """Return the checked-out commit, with `+dirty` if other files than results differ from it."""
    name = _git(folder, "rev-parse", "--short=12", "HEAD")
    if not name:
        return "unknown"
    changed = _git(folder, "status", "--porcelain", "--", ".", ":(exclude)benchmarks/results")
    return f"{name}+dirty" if changed else name


def _git(folder: Path, *arguments: str) -> str:
    argv = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def cpu_model() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()

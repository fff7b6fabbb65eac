"""Where rows are made: the machine, its versions, and the commit of this project's code."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

from triton_agent import __version__
from triton_agent.runs.bench.rows import Where
from triton_agent.tools.hardware import gpus
from triton_agent.tools.versions import installed

ROOT = Path(__file__).resolve().parents[2]
RESULTS = "benchmarks/results"
"""Written by benchmarks: that does not make the code another one."""


def here(device: str) -> Where:
    """As it is now."""
    found = gpus() if device == "cuda" else ()
    return Where(
        device=device,
        gpu=found[0].name if found else "",
        driver=(found[0].driver or "") if found else "",
        python=platform.python_version(),
        torch=installed("torch") or "",
        triton=installed("triton") or "",
        commit=commit(),
    )


def commit() -> str:
    """The commit checked out, with `+dirty` where files differ from it; an installed package has its version only."""
    name = _git("rev-parse", "--short=12", "HEAD") if (ROOT / ".git").exists() else ""
    if not name:
        return __version__
    changed = _git("status", "--porcelain", "--", ".", f":(exclude){RESULTS}")
    return f"{name}+dirty" if changed else name


def _git(*arguments: str) -> str:
    argv = ["git", "--no-optional-locks", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""

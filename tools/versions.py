"""The supported versions of torch and triton, checked before they are imported, and the version of this project."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import triton_agent
from triton_agent.tools.errors import UsageError

TORCH_OLDEST, TORCH_NEWEST_TESTED = (2, 11), (2, 15)
TRITON_OLDEST, TRITON_NEWEST_TESTED, TRITON_BELOW = (3, 6), (3, 7), (3, 10)
"""3.5 and older have other entry points for compilation. 3.9 has no block pointers; kernels with them fail there."""
TRITON_OF_TORCH = (((2, 15), "3.9.0"), ((2, 14), "3.8.0"), ((2, 12), "3.7.1"), (TORCH_OLDEST, "3.6.0"))
"""The triton release that each torch release requires, from the newest torch to the oldest."""
GIT_TIMEOUT_S = 10.0
"""git answers in milliseconds, or in a second on a network drive."""


def installed(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def require_supported() -> list[str]:
    """Raise UsageError if an installed version is not supported; return warnings about versions that are not tested."""
    if sys.platform != "linux":
        system = {"win32": "Windows (use WSL 2)", "darwin": "macOS"}.get(sys.platform, sys.platform)
        raise UsageError(f"triton-agent runs on Linux, since Triton does, not on {system}")
    torch, triton = installed("torch"), installed("triton")
    if torch is None:
        raise UsageError("torch is not installed", remedy="pip install 'torch>=2.11,<2.16' 'triton>=3.6,<3.10'")
    if triton is None:
        raise UsageError(
            "triton is not installed (a CPU build of torch does not bring it)", remedy=_triton_remedy(torch)
        )
    if numbers(torch) < TORCH_OLDEST:
        raise UsageError(f"torch {torch} is too old; 2.11 to 2.15 are tested", remedy="pip install 'torch>=2.11,<2.16'")
    if not TRITON_OLDEST <= numbers(triton) < TRITON_BELOW:
        raise UsageError(f"triton {triton} does not fit; 3.6 to 3.9 do", remedy=_triton_remedy(torch))
    warnings = []
    if numbers(torch) > TORCH_NEWEST_TESTED:
        warnings.append(f"torch {torch} is newer than the tested versions (2.11 to 2.15)")
    if numbers(triton) > TRITON_NEWEST_TESTED:
        warnings.append(
            f"triton {triton} is newer than the tested versions (3.6 and 3.7): its maxima with positions, small "
            "products and 64-bit histograms differ, and so may verdicts without a GPU"
        )
    return warnings


@functools.cache
def project_version() -> str:
    """Return the version of this project, with the commit if it runs from a clone."""
    return version_at(Path(triton_agent.__file__).resolve().parents[2])


def version_at(root: Path) -> str:
    """Return a version such as `0.1.0`, or `0.1.0+g0a1b2c3d4e5f` in a clone, with `.dirty` if files have changed.

    A folder without this project's sources is not a clone of it, even if it lies inside another repository.
    """
    if not (root / ".git").exists() or not (root / "src" / "triton_agent").is_dir():
        return triton_agent.__version__
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return triton_agent.__version__
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return f"{triton_agent.__version__}+g{commit}{'.dirty' if changed else ''}"


def _git(folder: Path, *arguments: str) -> str:
    """Return the output of git, or "" if it fails. git takes no locks, so it does not wait for another git command."""
    argv = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def numbers(version: str) -> tuple[int, int]:
    """Return the major and the minor number of a version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _triton_remedy(torch: str) -> str:
    fitting = next((triton for since, triton in TRITON_OF_TORCH if numbers(torch) >= since), "3.6.0")
    return f"pip install 'triton=={fitting}'"

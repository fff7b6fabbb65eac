"""Which Python, torch and triton go together, told before anything heavy is imported."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
import sys

from triton_agent.tools.errors import UsageError

TORCH_OLDEST, TORCH_NEWEST_TESTED = (2, 11), (2, 13)
TRITON_OLDEST, TRITON_BELOW = (3, 6), (3, 8)
"""3.9 removed block pointers, 3.8 was not tried; 3.5 and older know other compile entry points."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What is installed; None for what is not."""

    python: str
    torch: str | None
    triton: str | None
    warnings: tuple[str, ...]


def installed(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def require_supported() -> Versions:
    """The versions at hand; raises UsageError with one sentence where they cannot work."""
    if sys.platform != "linux":
        system = {"win32": "Windows (use WSL 2)", "darwin": "macOS"}.get(sys.platform, sys.platform)
        raise UsageError(f"triton-agent runs on Linux, since Triton does, not on {system}")
    torch, triton = installed("torch"), installed("triton")
    if torch is None:
        raise UsageError("torch is not installed", remedy="pip install 'torch>=2.11,<2.14' 'triton>=3.6,<3.8'")
    if triton is None:
        raise UsageError(
            "triton is not installed (a CPU build of torch does not bring it)", remedy=_triton_remedy(torch)
        )
    if numbers(torch) < TORCH_OLDEST:
        raise UsageError(f"torch {torch} is too old; 2.11 to 2.13 are tested", remedy="pip install 'torch>=2.11,<2.14'")
    if not TRITON_OLDEST <= numbers(triton) < TRITON_BELOW:
        raise UsageError(f"triton {triton} does not fit; 3.6 and 3.7 do", remedy=_triton_remedy(torch))
    warnings = []
    if numbers(torch) > TORCH_NEWEST_TESTED:
        warnings.append(f"torch {torch} is newer than what was tested (2.11 to 2.13)")
    return Versions(python=sys.version.split()[0], torch=torch, triton=triton, warnings=tuple(warnings))


def numbers(version: str) -> tuple[int, int]:
    """Major and minor."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _triton_remedy(torch: str) -> str:
    fitting = "3.6.0" if numbers(torch) < (2, 12) else "3.7.1"
    return f"pip install 'triton=={fitting}'"

"""The evaluator's temporary folder, and the check that a full disk did not cause a failure.

On a full disk, compilers and kernels fail as if the candidate were at fault. Free space is therefore checked at the
start, and again before a candidate's failure is accepted. Folders of killed drivers are removed at the next start.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from triton_agent.tools.errors import InstrumentError, UsageError

PREFIX = "triton-agent-"
ROOM_TO_START_BYTES = 256 << 20
"""Space for compiler caches and the outputs of a few candidates at once."""
ROOM_TO_BELIEVE_BYTES = 8 << 20
"""With less space than this, the disk may be the cause of a failure."""


def make() -> Path:
    """Make a private folder for this process, and remove those of killed drivers of this user."""
    parent = Path(tempfile.gettempdir())
    if parent.resolve().is_relative_to("/dev/shm"):
        raise UsageError(
            "TMPDIR is under /dev/shm, which sandboxed processes do not share", remedy="point TMPDIR to a disk"
        )
    for folder in parent.glob(f"{PREFIX}[0-9]*-*"):
        owner = folder.name.removeprefix(PREFIX).split("-")[0]
        with contextlib.suppress(OSError):
            gone = owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.stat().st_uid == os.getuid()
            if gone and folder.is_dir() and not folder.is_symlink():
                shutil.rmtree(folder, ignore_errors=True)
    free = shutil.disk_usage(parent).free
    if free < ROOM_TO_START_BYTES:
        raise InstrumentError(
            f"only {free >> 20} MB are free in {parent}",
            remedy=f"free some space ({ROOM_TO_START_BYTES >> 20} MB), or point TMPDIR elsewhere",
        )
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def require_room(folder: Path) -> None:
    """Raise InstrumentError if the disk is full."""
    if shutil.disk_usage(folder).free < ROOM_TO_BELIEVE_BYTES:
        raise InstrumentError(
            f"the disk of {folder.parent} is full", remedy="free some space, or point TMPDIR elsewhere"
        )

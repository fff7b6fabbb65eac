"""The evaluator's temporary folder: made where there is room, and told apart from a kernel's failure when there is not.

A full disk makes compilers and candidates fail in ways that look like theirs; so room is checked before, and again
before any failure is believed. Folders of drivers that were killed are swept when the next one starts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from triton_agent.tools.errors import InstrumentError, UsageError

PREFIX = "triton-agent-"
ROOM_TO_START_BYTES = 256 << 20
"""Compiler caches and outputs of a few candidates at once."""
ROOM_TO_BELIEVE_BYTES = 8 << 20
"""With less than this left, a failure may be the disk's."""


def make() -> Path:
    """A private folder for this process."""
    parent = Path(tempfile.gettempdir())
    if parent.resolve().is_relative_to("/dev/shm"):
        raise UsageError("TMPDIR is under /dev/shm, which candidates do not share", remedy="point TMPDIR to a disk")
    _sweep(parent)
    free = shutil.disk_usage(parent).free
    if free < ROOM_TO_START_BYTES:
        raise InstrumentError(
            f"only {free >> 20} MB are free in {parent}",
            remedy=f"free some space ({ROOM_TO_START_BYTES >> 20} MB), or point TMPDIR elsewhere",
        )
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def require_room(folder: Path) -> None:
    """Raise rather than let a full disk be taken for a candidate's fault."""
    if shutil.disk_usage(folder).free < ROOM_TO_BELIEVE_BYTES:
        raise InstrumentError(
            f"the disk of {folder.parent} is full", remedy="free some space, or point TMPDIR elsewhere"
        )


def _sweep(parent: Path) -> None:
    """Folders of this user whose driver is gone."""
    for folder in parent.glob(f"{PREFIX}[0-9]*-*"):
        owner = folder.name.removeprefix(PREFIX).split("-")[0]
        try:
            gone = owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.stat().st_uid == os.getuid()
        except OSError:
            continue
        if gone and folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)

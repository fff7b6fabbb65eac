"""How much of the host's memory one candidate holds: its processes, and the files that it made.

Read from outside, by whoever started it, so that nothing inside has to be believed. Counted are anonymous pages beyond
those that came with the fork, shared and in-memory pages, files in the scratch folder (what is written stays in memory
until the disk has it), files that have no name any more, and a /dev/shm of the candidate's own. Each is counted as far
as the kernel lets this user look; what it does not show counts as nothing.

Not covered: page tables, socket buffers and other memory that the kernel keeps for a process, and memory that a GPU's
driver pins. A control group counts these, too; see `cgroup.py`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from triton_agent.tools.isolate.reach import SHARED_MEMORY

LIBRARIES_BYTES = 3 << 30
"""Of mapped files, up to here those of torch and CUDA; only what goes beyond counts."""
ENTRIES_AT_MOST = 20_000
"""Of the scratch folder, looked at in one go."""
_BLOCK_BYTES = 512
"""Unit of `st_blocks`, whatever the file system."""


class Family:
    """A process and everything descended from it, also what lost its parent since it was first seen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._inherited_bytes = memory_of(pid).get("RssAnon", 0)
        self._members = {pid: started(pid)}

    def members(self) -> list[int]:
        """Those that live; a number that has come to mean another process is left out."""
        waiting = list(self._members)
        seen: dict[int, int] = {}
        while waiting:
            pid = waiting.pop()
            since = started(pid)
            if pid in seen or since == 0 or since != self._members.get(pid, since):
                continue
            seen[pid] = since
            waiting += children(pid)
        self._members = seen or self._members
        return list(seen)

    def process_bytes(self) -> tuple[int, int]:
        """Private and shared bytes of all members. Pages that members share since a fork of theirs count for each."""
        private = shared = 0
        for pid in self.members():
            held = memory_of(pid)
            private += max(0, held.get("RssAnon", 0) - self._inherited_bytes)
            private += max(0, held.get("RssFile", 0) - LIBRARIES_BYTES)
            shared += held.get("RssShmem", 0)
        return private, shared

    def nameless_bytes(self) -> int:
        """Open files without a name, and a /dev/shm that is the family's own; one that is mapped is shared, too."""
        sizes: dict[tuple[int, int], int] = {}
        for pid in self.members():
            for state in _open_files(pid):
                if stat.S_ISREG(state.st_mode) and state.st_nlink == 0:
                    sizes[state.st_dev, state.st_ino] = state.st_blocks * _BLOCK_BYTES
        return sum(sizes.values()) + max(map(_own_shared_memory, self._members), default=0)


def children(pid: int) -> list[int]:
    """Processes that a process forked and that have not been waited for."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def started(pid: int) -> int:
    """When a process began, in the kernel's ticks; 0 where there is none."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    return 0


def memory_of(pid: int) -> dict[str, int]:
    """Resident bytes of one process by the kernel's names for them."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        return {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines if line.startswith("Rss")}
    return {}


def folder_bytes(folder: str) -> int:
    """What the files in a folder take up, each once, as far as so many entries show."""
    sizes: dict[int, int] = {}
    left, waiting = ENTRIES_AT_MOST, [folder]
    while waiting and left > 0:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                left -= 1
                with contextlib.suppress(OSError):
                    state = entry.stat(follow_symlinks=False)
                    sizes[state.st_ino] = state.st_blocks * _BLOCK_BYTES
                    if stat.S_ISDIR(state.st_mode):
                        waiting.append(entry.path)
                if left <= 0:
                    break
    return sum(sizes.values())


def _open_files(pid: int) -> Iterator[os.stat_result]:
    with contextlib.suppress(OSError):  # a process that cannot be looked into, or is gone
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield os.stat(f"/proc/{pid}/fd/{name}")


def _own_shared_memory(pid: int) -> int:
    """Used bytes of the process's /dev/shm where it is not this process's."""
    inside = f"/proc/{pid}/root{SHARED_MEMORY}"
    with contextlib.suppress(OSError):
        if os.stat(inside).st_dev != os.stat(SHARED_MEMORY).st_dev:
            state = os.statvfs(inside)
            return (state.f_blocks - state.f_bfree) * state.f_frsize
    return 0

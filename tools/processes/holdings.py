"""Measures the host memory of one candidate: of its processes, and of the files that it made.

The measurement is made from outside, by the process that started it, so nothing inside is trusted. It counts anonymous
pages beyond those inherited by the fork, shared and in-memory pages, files in the scratch folder (written data stays in
memory until it is on disk), open files without a name, and a /dev/shm of the candidate's own. Anything that the kernel
does not show to this user counts as zero.

Not covered: page tables, socket buffers and other kernel memory of a process, and memory pinned by a GPU's driver. A
control group counts these as well; see `cgroup.py`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from triton_agent.tools.sandbox.reach import SHARED_MEMORY

LIBRARIES_BYTES = 3 << 30
"""Size of mapped files of torch and CUDA; only mapped files beyond this count."""
ENTRIES_AT_MOST = 20_000
"""Maximum number of entries of the scratch folder that are counted at a time."""
MAPPINGS_AT_ONCE = 4
"""Maximum number of mappings of one file in a candidate's process: it keeps the inputs of up to three calls, and the
next mapping is made before an old one ends."""
_BLOCK_BYTES = 512
"""Unit of `st_blocks` on every file system."""

File = tuple[int, int]
"""Device and inode number of a file, which identify it without a name."""


class Family:
    """A process and all its descendants, including those that lost their parent after they were first seen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._inherited_bytes = memory_of(pid).get("RssAnon", 0)
        self._members = {pid: started(pid)}

    def members(self) -> list[int]:
        """Return the living members; a pid that was reused by another process is left out."""
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
        """Return the private and shared bytes of all members. Pages shared since a fork count for each member."""
        private = shared = 0
        for pid in self.members():
            held = memory_of(pid)
            private += max(0, held.get("RssAnon", 0) - self._inherited_bytes)
            private += max(0, held.get("RssFile", 0) - LIBRARIES_BYTES)
            shared += held.get("RssShmem", 0)
        return private, shared

    def lent_bytes(self, files: Mapping[File, int]) -> int:
        """Return how many of the shared bytes are pages of these files, which are not charged to the candidate.

        If the kernel does not show it, return an upper bound.
        """
        total = 0
        for pid in self.members():
            try:
                total += _resident_of(pid, files)
            except (FileNotFoundError, ProcessLookupError):  # the process has ended meanwhile
                continue
            except OSError:
                return MAPPINGS_AT_ONCE * sum(files.values())
        return total

    def nameless_bytes(self, besides: Container[File] = ()) -> int:
        """Return the bytes of open files without a name and of a private /dev/shm; mapped ones also count as shared."""
        sizes: dict[File, int] = {}
        for pid in self.members():
            for state in _open_files(pid):
                file = state.st_dev, state.st_ino
                if stat.S_ISREG(state.st_mode) and state.st_nlink == 0 and file not in besides:
                    sizes[file] = state.st_blocks * _BLOCK_BYTES
        return sum(sizes.values()) + max(map(_own_shared_memory, self._members), default=0)


def children(pid: int) -> list[int]:
    """Return the processes that a process forked and has not waited for."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def started(pid: int) -> int:
    """Return a process's start time in clock ticks; 0 if there is no such process."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    return 0


def memory_of(pid: int) -> dict[str, int]:
    """Return a process's resident bytes by their names in /proc."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        return {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines if line.startswith("Rss")}
    return {}


def _resident_of(pid: int, files: Container[File]) -> int:
    """Return the resident bytes of mapped files, without pages that the process has written to."""
    total, counts = 0, False
    lines = Path(f"/proc/{pid}/smaps").read_text(errors="replace").split("\n")  # splitlines() would cut files' names
    for line in filter(None, lines):
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):
            major, minor = (int(part, 16) for part in rest[2].split(":"))
            counts = (os.makedev(major, minor), int(rest[3])) in files
        elif counts and first in ("Rss:", "Anonymous:"):
            total += (1024 if first == "Rss:" else -1024) * int(rest[0])
    return total


def folder_bytes(folder: str) -> int:
    """Return the bytes of the files in a folder, each counted once, up to `ENTRIES_AT_MOST` entries."""
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
    with contextlib.suppress(OSError):  # the process is not accessible, or has ended
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield os.stat(f"/proc/{pid}/fd/{name}")


def _own_shared_memory(pid: int) -> int:
    """Return the used bytes of the process's /dev/shm, unless it is also this process's."""
    inside = f"/proc/{pid}/root{SHARED_MEMORY}"
    with contextlib.suppress(OSError):
        if os.stat(inside).st_dev != os.stat(SHARED_MEMORY).st_dev:
            state = os.statvfs(inside)
            return (state.f_blocks - state.f_bfree) * state.f_frsize
    return 0

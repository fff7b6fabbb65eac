"""A control group (v2) that limits the memory and the number of processes of one candidate and its children.

The parent process makes it if this user is allowed to: as root, or if systemd or a container delegates a branch of the
tree. Version 1 is not used. Without a control group, `watchdog.py` limits memory.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from pathlib import Path
from typing import Self

NEEDED = frozenset({"memory", "pids"})
EMPTYING_LIMIT_S = 2.0
"""How long to wait for killed processes to leave before the group is left behind, soon empty and harmless."""
POLL_S = 0.002

_numbers = itertools.count()


def delegated_group() -> tuple[Path | None, str]:
    """Return the nearest group upwards that this user may divide, or None, and the group's path or the reason."""
    mounts = (line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines())
    mount = next((Path(before.split()[4]) for before, _, after in mounts if after.startswith("cgroup2 ")), None)
    groups = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.removeprefix("0::") for line in groups if line.startswith("0::")), None)
    if mount is None or own is None:
        return None, "no cgroup v2 hierarchy is mounted"
    group = mount / own.lstrip("/")
    if not _words(mount / "cgroup.controllers") >= NEEDED:
        return None, f"{mount} has no memory and pids controllers"
    for candidate in (group, *group.parents):
        if _words(candidate / "cgroup.subtree_control") >= NEEDED and os.access(candidate, os.W_OK):
            return candidate, str(candidate)
        if candidate == mount:
            break
    return None, f"no group from {group} upwards is this user's to divide"


class CgroupBox:
    """A limited control group as a context: made on entry; on exit its processes are killed and it is removed."""

    def __init__(self, *, memory_bytes: int, processes: int) -> None:
        self.memory_bytes = memory_bytes
        self.processes = processes
        self.path: Path | None = None

    def __enter__(self) -> Self:
        """Make the group with its limits; raise OSError if `delegated_group` finds no parent for it."""
        parent, why = delegated_group()
        if parent is None:
            raise OSError(f"cannot make a control group: {why}")
        path = parent / f"triton-agent-{os.getpid()}-{next(_numbers)}"
        path.mkdir()
        self.path = path
        (path / "memory.max").write_text(str(self.memory_bytes))
        (path / "pids.max").write_text(str(self.processes))
        for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
            with contextlib.suppress(OSError):  # these files do not exist without swap, or before Linux 4.19
                (path / name).write_text(value)
        return self

    def add(self, pid: int) -> None:
        """Move a process into the group; its future children follow, existing ones do not."""
        (self._made() / "cgroup.procs").write_text(str(pid))

    def ran_out_of_memory(self) -> bool:
        """Return True if the kernel killed a process in the group because of its memory limit."""
        lines = (self._made() / "memory.events").read_text().splitlines()
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)

    def __exit__(self, *exception: object) -> None:
        """Kill the processes in the group and remove it."""
        if self.path is None:
            return
        path, self.path = self.path, None
        with contextlib.suppress(OSError):
            (path / "cgroup.kill").write_text("1")
        deadline = time.monotonic() + EMPTYING_LIMIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                path.rmdir()
                return
            time.sleep(POLL_S)

    def _made(self) -> Path:
        if self.path is None:
            raise OSError("the control group has not been made, or is gone")
        return self.path


def _words(path: Path) -> frozenset[str]:
    try:
        return frozenset(path.read_text().split())
    except OSError:
        return frozenset()

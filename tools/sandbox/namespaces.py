"""Namespaces: gives a process its own process ids, mounts, network and shared memory, without privileges.

Inside, the user keeps its uid and gains rights over the new namespaces only; `privileges.py` drops these once the
mounts are made. No daemon escapes the pid namespace: when its first process dies, the kernel kills the rest.

    caller's child ──fork──> first process of the pid namespace: `enter` returns here
          └ waits outside and ends like the inner process; if it is killed, the inner process is killed too

Signals that the first process of a pid namespace sends to itself do not end it by default. An abort that would end with
SIGABRT elsewhere therefore ends with SIGSEGV there (the C library's second way to abort).
"""

from __future__ import annotations

import os
import resource
import select
import signal
import struct
from collections.abc import Collection, Iterable
from typing import NoReturn

from triton_agent.tools.sandbox import inheritance, privileges, syscalls

FLAGS = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "pid": 0x20000000,
    "network": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
}

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x40000
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID = 0x1, 0x2

PID_MAX_PER_NAMESPACE = (6, 14)
"""Kernel version since which /proc/sys/kernel/pid_max is per namespace. Before, writing it would change the machine."""
RESERVED_PIDS = 300
"""Pids below this are not reused after the first round, so they do not count as available."""

PROC_STEERING_KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")


def enter(kinds: Collection[str]) -> None:
    """Move into new namespaces of these kinds. With `pid` among them, return in a new process inside."""
    uid, gid = os.geteuid(), os.getegid()
    flags = 0
    for kind in kinds:
        flags |= FLAGS[kind]
    syscalls.call("unshare", flags)
    if "user" in kinds:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    if "mount" in kinds:
        syscalls.call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    if "pid" in kinds:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        alive, kept_by_mirror = os.pipe()
        pid = os.fork()
        if pid:
            _mirror(pid, kept_by_mirror)
        os.close(kept_by_mirror)
        privileges.die_with_parent()
        if select.select([alive], [], [], 0)[0]:
            os._exit(1)  # the outer process died before its death signal was set up
        os.close(alive)


def mount_proc() -> None:
    """Mount a /proc of this pid namespace. In the old one, libraries that look themselves up find another process."""
    syscalls.call("mount", b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)


def mount_shared_memory(size_bytes: int) -> None:
    """Mount an empty, private /dev/shm."""
    options = f"size={size_bytes},mode=1777".encode()
    syscalls.call("mount", b"tmpfs", b"/dev/shm", b"tmpfs", MS_NOSUID | MS_NODEV, options)


def make_read_only(writable: Iterable[str], *, guard_proc: bool) -> None:
    """Make every mount read-only except these folders; with `guard_proc`, also the kernel settings in /proc."""
    writable = tuple(writable)
    guarded = PROC_STEERING_KERNEL if guard_proc else ()
    for path in (*(path for path in writable if not os.path.ismount(path)), *filter(os.path.exists, guarded)):
        syscalls.call("mount", os.fsencode(path), os.fsencode(path), None, MS_BIND, None)
    _set_mount_attributes("/", AT_RECURSIVE, add=MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID)
    for path in writable:
        _set_mount_attributes(path, 0, remove=MOUNT_ATTR_RDONLY)


def bound_process_count(processes: int) -> None:
    """Limit the processes and threads in this pid namespace to about this number; applies to root, too."""
    if syscalls.kernel_version() < PID_MAX_PER_NAMESPACE:
        raise OSError("the kernel has one pid_max for the whole machine; its own per pid namespace came with 6.14")
    _write("/proc/sys/kernel/pid_max", str(RESERVED_PIDS + processes))


def _mirror(pid: int, lifeline: int) -> NoReturn:
    """Keep only the lifeline open, wait for the inner process, and end in the same way."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        inheritance.close_descriptors((lifeline,))
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            os._exit(os.WEXITSTATUS(status))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ending = os.WTERMSIG(status)
        if ending not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(ending, signal.SIG_DFL)
        os.kill(os.getpid(), ending)
    finally:
        os._exit(1)  # after any error here, report a failure


def _set_mount_attributes(path: str, flags: int, *, add: int = 0, remove: int = 0) -> None:
    attributes = struct.pack("QQQQ", add, remove, 0, 0)
    number = syscalls.MOUNT_SETATTR
    syscalls.system_call(
        f"mount_setattr {path}", number, AT_FDCWD, os.fsencode(path), flags, attributes, len(attributes)
    )


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)

"""Attributes of this process: its capabilities, whether others may look into it, and when it dies.

Each function takes something away, needs no privilege to do so, and holds for every child, too. For file access see
`landlock.py`, for system calls `seccomp.py`.
"""

from __future__ import annotations

import os
import signal
import struct

from triton_agent.tools.sandbox import syscalls

CAPABILITY_VERSION_3 = 0x20080522
"""Layout of `capset`'s arguments: two words per set."""


def die_with_parent() -> None:
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


def set_dumpable(dumpable: bool) -> None:
    """Set whether other processes of the same user may trace this one and open its memory through /proc."""
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, int(dumpable))


def forbid_new_privileges() -> None:
    """Keep every later program from gaining rights by its set-user-id bit or its file capabilities."""
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Give up every capability for good, in all five sets."""
    with open("/proc/sys/kernel/cap_last_cap") as text:
        last = int(text.read())
    for capability in range(last + 1):
        try:
            syscalls.prctl(syscalls.PR_CAPBSET_DROP, capability)
        except OSError:
            break  # only a process with CAP_SETPCAP may; for the others no_new_privs does the same work
    syscalls.call("prctl", syscalls.PR_CAP_AMBIENT, syscalls.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    syscalls.call("capset", struct.pack("Ii", CAPABILITY_VERSION_3, 0), bytes(24))


def has_capabilities() -> bool:
    """Say whether this process can do anything that an ordinary user cannot."""
    with open("/proc/self/status") as status:
        return any(int(line.split()[1], 16) for line in status if line.startswith("CapEff:"))


def volunteer_for_the_oom_killer() -> None:
    """Let the kernel kill this process first when memory runs out, before the driver or a trainer."""
    descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    try:
        os.write(descriptor, b"1000")
    finally:
        os.close(descriptor)

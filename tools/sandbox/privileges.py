"""Attributes of this process: its capabilities, whether others may inspect it, and when it dies.

Each function gives up a right, needs no privileges, and also applies to all children. `landlock.py` restricts files,
`seccomp.py` system calls.
"""

from __future__ import annotations

import os
import signal
import struct

from triton_agent.tools.sandbox import syscalls

CAPABILITY_VERSION_3 = 0x20080522
"""Layout of the arguments of `capset`: two words per set."""


def die_with_parent() -> None:
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


def set_dumpable(dumpable: bool) -> None:
    """Set whether other processes of the same user may trace this one and open its memory through /proc."""
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, int(dumpable))


def forbid_new_privileges() -> None:
    """Prevent later programs from gaining rights through a set-user-id bit or file capabilities."""
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Give up every capability permanently, in all five sets."""
    with open("/proc/sys/kernel/cap_last_cap") as text:
        last = int(text.read())
    for capability in range(last + 1):
        try:
            syscalls.prctl(syscalls.PR_CAPBSET_DROP, capability)
        except OSError:
            break  # this needs CAP_SETPCAP; without it, no_new_privs has the same effect
    syscalls.call("prctl", syscalls.PR_CAP_AMBIENT, syscalls.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    syscalls.call("capset", struct.pack("Ii", CAPABILITY_VERSION_3, 0), bytes(24))


def has_capabilities() -> bool:
    """Return True if this process has rights that an ordinary user lacks."""
    with open("/proc/self/status") as status:
        return any(int(line.split()[1], 16) for line in status if line.startswith("CapEff:"))


def volunteer_for_the_oom_killer() -> None:
    """Let the kernel kill this process first if memory runs out, before the driver or a trainer."""
    descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    try:
        os.write(descriptor, b"1000")
    finally:
        os.close(descriptor)

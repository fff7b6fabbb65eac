"""What this process is allowed to be: its capabilities, whether others may look into it, and when it dies.

All of these only ever take away, need no rights to do so, and are inherited by every child. File access is
`landlock.py`, system calls are `seccomp.py`.
"""

from __future__ import annotations

import os
import signal
import struct

from triton_agent.tools.isolate import syscalls

CAPABILITY_VERSION_3 = 0x20080522
"""Layout of `capset`'s arguments: two words per set."""


def die_with_parent() -> None:
    """Be killed as soon as the thread that forked this process ends."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


def set_dumpable(dumpable: bool) -> None:
    """Whether other processes of the same user may trace this one and open its memory through /proc."""
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, int(dumpable))


def forbid_new_privileges() -> None:
    """No program run from here on gains rights by its set-user-id bit or its file capabilities."""
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Give up every capability for good, in all five sets."""
    for capability in range(_last_capability() + 1):
        try:
            syscalls.prctl(syscalls.PR_CAPBSET_DROP, capability)
        except OSError:
            break  # only a process with CAP_SETPCAP may; for the others no_new_privs does the same work
    syscalls.call("prctl", syscalls.PR_CAP_AMBIENT, syscalls.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    syscalls.call("capset", struct.pack("Ii", CAPABILITY_VERSION_3, 0), bytes(24))


def has_capabilities() -> bool:
    """Whether this process can do anything that an ordinary user cannot."""
    with open("/proc/self/status") as status:
        return any(int(line.split()[1], 16) for line in status if line.startswith("CapEff:"))


def volunteer_for_the_oom_killer() -> None:
    """When the machine runs out of memory, this process is to go first, not the agent or a trainer."""
    descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    try:
        os.write(descriptor, b"1000")
    finally:
        os.close(descriptor)


def _last_capability() -> int:
    with open("/proc/sys/kernel/cap_last_cap") as text:
        return int(text.read())

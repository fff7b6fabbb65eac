"""Checks the sandbox's layers for `doctor`: which are in force, what a missing one lets through, and how to get it."""

from __future__ import annotations

from triton_agent.runs.doctor.checkup import Check, CheckState, Section
from triton_agent.tools.sandbox import layers

USER_NAMESPACES = (
    "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 or "
    "kernel.apparmor_restrict_unprivileged_userns=0, or in a container a seccomp profile that permits unshare"
)

MEANING: dict[str, tuple[str, str]] = {
    layers.CAPABILITIES: ("a candidate keeps the rights this user has as root", "run as an ordinary user"),
    layers.NO_NEW_PRIVILEGES: ("set-uid programs give a candidate more rights", "needs Linux 3.5"),
    layers.LANDLOCK: (
        "a candidate can read this user's files",
        "Linux 5.13 or newer, with landlock in the kernel's lsm= list; containers must permit its system calls",
    ),
    layers.SECCOMP: ("a candidate can make system calls that no kernel file needs", "x86_64 or aarch64, Linux 3.17"),
    layers.NAMESPACES["user"]: ("without root the other namespaces cannot be made", USER_NAMESPACES),
    layers.NAMESPACES["mount"]: ("/dev/shm and /proc are the machine's own", USER_NAMESPACES),
    layers.NAMESPACES["network"]: ("the network is closed by seccomp alone", USER_NAMESPACES),
    layers.NAMESPACES["ipc"]: ("shared memory of System V is the machine's own", USER_NAMESPACES),
    layers.NAMESPACES["uts"]: ("the machine's name can be seen", USER_NAMESPACES),
    layers.NAMESPACES["pid"]: ("a candidate can see other processes, and leave a daemon behind", USER_NAMESPACES),
    layers.READ_ONLY: ("only Landlock keeps a candidate from writing outside its folder", "Linux 5.12 or newer"),
    layers.PROCESS_LIMIT: ("a fork bomb can fill the process table", "run as an ordinary user, or delegate a cgroup"),
    layers.CGROUP: (
        "memory is limited for each process, not for a candidate as a whole",
        "run under `systemd-run --user --scope -p Delegate=yes`, or give the container a writable cgroup v2 tree",
    ),
}
"""For each layer: what is possible without it, and how to get it."""


def sandbox_section() -> Section:
    """Try every layer, each in a process forked for it."""
    return Section(name="sandbox", checks=tuple(_check(layer) for layer in layers.probe()))


def _check(layer: layers.Layer) -> Check:
    if layer.available:
        return Check(name=layer.name, state=CheckState.OK, seen=layer.why)
    state = CheckState.WEAK if layer.name in layers.ESSENTIAL else CheckState.ABSENT
    without, remedy = MEANING.get(layer.name, ("", ""))
    advice = f"without it {without}; {remedy}" if without else ""
    return Check(name=layer.name, state=state, seen=layer.why, advice=advice)

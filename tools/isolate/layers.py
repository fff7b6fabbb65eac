"""The layers a sandbox is made of, and which of them this machine has.

A layer counts as available when it was put in force in a process forked for the purpose, not when a version number
says that it should be: containers switch layers off one by one. The caller itself is left as it was.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Collection

from triton_agent.tools.isolate import cgroup, landlock, namespaces, privileges, seccomp, syscalls

ENVIRONMENT = "scrubbed environment"
LIMITS = "resource limits"
MEMORY_LIMIT = "memory limit"
PROCESS_LIMIT = "process limit"
CAPABILITIES = "no capabilities"
NO_NEW_PRIVILEGES = "no new privileges"
LANDLOCK = "landlock"
SECCOMP = "seccomp"
READ_ONLY = "read-only mounts"
NAMESPACES = {kind: f"{kind} namespace" for kind in namespaces.FLAGS}
CGROUP = "cgroup"

WORKS = "tried, and works"

ESSENTIAL = frozenset({ENVIRONMENT, LIMITS, CAPABILITIES, NO_NEW_PRIVILEGES, LANDLOCK, SECCOMP, NAMESPACES["pid"]})
"""Without one of these a candidate reaches something it must not: files, network, other processes, or a second life."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layer:
    """One layer, whether this machine has it, and what was seen that says so."""

    name: str
    available: bool
    why: str


@functools.cache
def probe() -> tuple[Layer, ...]:
    """Try every layer, each in a process of its own. A process forked after this call knows the answer already."""
    return (
        Layer(ENVIRONMENT, True, "needs nothing"),
        Layer(LIMITS, True, "needs nothing"),
        _layer(CAPABILITIES, privileges.drop_capabilities, _capabilities_left()),
        _layer(NO_NEW_PRIVILEGES, privileges.forbid_new_privileges, WORKS),
        _layer(LANDLOCK, _try_landlock, f"ABI {landlock.abi()}"),
        _layer(SECCOMP, _try_seccomp, syscalls.machine()),
        *_probe_namespaces(),
        cgroup_layer(),
    )


def cgroup_layer() -> Layer:
    """Whether a control group with limits can be made; only looked at, since it takes no forked process to see."""
    group, why = cgroup.delegated_group()
    return Layer(CGROUP, group is not None, why)


def _probe_namespaces() -> tuple[Layer, ...]:
    user = _layer(NAMESPACES["user"], lambda: namespaces.enter(("user", "mount")), WORKS)
    base = ("user",) if user.available else ()
    found = [user]
    for kind in ("mount", "network", "ipc", "uts"):
        found.append(_layer(NAMESPACES[kind], functools.partial(namespaces.enter, (*base, kind)), WORKS))
    inside = (*base, "mount", "pid")
    return (
        *found,
        _layer(NAMESPACES["pid"], lambda: _in_pid_namespace(inside), "with its own /proc"),
        _layer(READ_ONLY, lambda: _try_read_only((*base, "mount")), WORKS),
        _probe_process_limit(inside),
    )


def _probe_process_limit(inside: Collection[str]) -> Layer:
    by_namespace = _layer(PROCESS_LIMIT, lambda: _try_process_bound(inside), "pid_max of the pid namespace")
    if by_namespace.available or os.getuid() == 0:
        return by_namespace
    return Layer(PROCESS_LIMIT, True, "RLIMIT_NPROC")


def _in_pid_namespace(kinds: Collection[str]) -> None:
    namespaces.enter(kinds)
    namespaces.mount_proc()


def _try_process_bound(kinds: Collection[str]) -> None:
    _in_pid_namespace(kinds)
    namespaces.bound_process_count(1000)


def _try_read_only(kinds: Collection[str]) -> None:
    namespaces.enter(kinds)
    namespaces.make_read_only((), guard_proc=False)


def _try_landlock() -> None:
    privileges.forbid_new_privileges()
    landlock.restrict((landlock.Grant("/usr", landlock.READ),))


def _try_seccomp() -> None:
    if not syscalls.machine():
        raise OSError("system calls are known for x86_64 and aarch64 only")
    privileges.forbid_new_privileges()
    seccomp.install((seccomp.Rule("ptrace"),))


def _capabilities_left() -> str:
    return "dropped" if privileges.has_capabilities() else "there were none"


def _layer(name: str, attempt: Callable[[], None], why_available: str) -> Layer:
    failure = _failure_of(attempt)
    return Layer(name, not failure, failure or why_available)


def _failure_of(attempt: Callable[[], None]) -> str:
    """Run it in a forked child; what went wrong, or nothing. A child that dies without a word failed as well."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
            os.write(writing, b"ok")
        except BaseException as error:  # whatever it is, this process must not return into its parent's code
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(pid, 0)
    return "" if answer == "ok" else answer or "the process that tried it died"

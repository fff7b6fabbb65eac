"""The layers of the sandbox, and which of them this machine has.

A layer counts as available if it took effect in a process forked to test it. A version number is not sufficient, since
containers disable layers individually. The calling process does not change.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Collection

from triton_agent.tools.sandbox import cgroup, landlock, namespaces, privileges, seccomp, syscalls

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
"""Without one of these a candidate can reach files, the network or other processes, or outlive its evaluation."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layer:
    """One layer: whether this machine has it, and the evidence."""

    name: str
    available: bool
    why: str


@functools.cache
def probe() -> tuple[Layer, ...]:
    """Try every layer, each in its own process. The result is cached for processes forked after this call."""
    user = _tried(NAMESPACES["user"], lambda: namespaces.enter(("user", "mount")))
    base = ("user",) if user.available else ()
    inside = (*base, "mount", "pid")
    process_limit = _tried(PROCESS_LIMIT, lambda: _try_process_bound(inside), "pid_max of the pid namespace")
    if not process_limit.available and os.getuid() != 0:
        process_limit = Layer(PROCESS_LIMIT, True, "RLIMIT_NPROC")
    return (
        Layer(ENVIRONMENT, True, "needs nothing"),
        Layer(LIMITS, True, "needs nothing"),
        _tried(
            CAPABILITIES,
            privileges.drop_capabilities,
            "dropped" if privileges.has_capabilities() else "there were none",
        ),
        _tried(NO_NEW_PRIVILEGES, privileges.forbid_new_privileges),
        _tried(LANDLOCK, _try_landlock, f"ABI {landlock.abi()}"),
        _tried(SECCOMP, _try_seccomp, syscalls.machine()),
        user,
        *(
            _tried(NAMESPACES[kind], functools.partial(namespaces.enter, (*base, kind)))
            for kind in ("mount", "network", "ipc", "uts")
        ),
        _tried(NAMESPACES["pid"], lambda: _try_pid_namespace(inside), "with its own /proc"),
        _tried(READ_ONLY, lambda: _try_read_only((*base, "mount"))),
        process_limit,
        cgroup_layer(),
    )


def cgroup_layer() -> Layer:
    """Return whether a limited control group can be made; this needs no forked process."""
    group, why = cgroup.delegated_group()
    return Layer(CGROUP, group is not None, why)


def _try_pid_namespace(kinds: Collection[str]) -> None:
    namespaces.enter(kinds)
    namespaces.mount_proc()


def _try_process_bound(kinds: Collection[str]) -> None:
    _try_pid_namespace(kinds)
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


def _tried(name: str, attempt: Callable[[], None], why_available: str = WORKS) -> Layer:
    """Try a layer in a forked child. A child that dies without reporting counts as a failure."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
            os.write(writing, b"ok")
        except BaseException as error:  # in any case, the child must not return into its parent's code
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(pid, 0)
    if answer == "ok":
        return Layer(name, True, why_available)
    return Layer(name, False, answer or "the process that tried it died")

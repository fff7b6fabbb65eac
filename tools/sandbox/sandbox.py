"""The sandbox around one candidate: enter it in a freshly forked child, and there is no way back out.

It keeps a candidate from files outside its scratch folder, from the network, from other processes and their secrets,
from outliving its turn, and from using up the machine. It is made of layers, each used where the machine has it; none
needs root, and `enter` says which are in force. It does not judge what a candidate computes, it cannot keep it from
wasting the time and GPU memory it was given. Host memory of all its processes together, and of what it writes, is for
a control group to bound, or for `watchdog.py`.

The order is: leave the caller's session, forget the environment, new namespaces and their mounts, limits, then rights,
files and system calls, each of which takes away what setting up the one before needed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os
import resource
import tempfile
from collections.abc import Iterator

from triton_agent.tools.sandbox import inheritance, landlock, layers, namespaces, privileges, reach, seccomp, syscalls
from triton_agent.tools.sandbox.inheritance import scrubbed_environment
from triton_agent.tools.sandbox.layers import probe
from triton_agent.tools.sandbox.reach import library_paths

GIB = 1 << 30

PER_NAMESPACE_NPROC = (5, 14)
"""The kernel from which RLIMIT_NPROC counts within a user namespace, not everything that the user runs."""

MOST_OF_A_CARD = 0.75
"""Of a GPU's memory for one process: who has this much and it does not suffice cannot say that others took it, and what
is left is the checker's."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one candidate may use up."""

    cpu_s: int = 300
    memory_bytes: int = 8 * GIB
    """Host memory beyond what the process holds at entry. Not in force with a GPU, where drivers map at will."""
    mapped_bytes: int = 0
    """Of inputs that it will map: other processes' memory, though the kernel's limit counts it."""
    file_bytes: int = GIB
    """Of any one file it writes."""
    processes: int = 1024
    """At once, threads counted."""
    open_files: int = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """Where a candidate is kept, and what it gets to see."""

    scratch: str
    """The only folder it may write to; absolute, private to the user, and the candidate's alone."""
    read_only: tuple[str, ...] = ()
    """Paths it may read beside the libraries that `library_paths` finds."""
    writable: tuple[str, ...] = ()
    """Folders it may write to beside its scratch, which others write to as well."""
    gpu: bool = False
    limits: Limits = Limits()
    cgroup: str = ""
    """Folder of a control group to join, made by the parent (`cgroup.CgroupBox`)."""

    def __post_init__(self) -> None:
        if not os.path.isabs(self.scratch):
            raise ValueError(f"the scratch folder must be an absolute path, not {self.scratch!r}")
        if os.path.realpath(self.scratch).startswith(f"{reach.SHARED_MEMORY}/"):
            raise ValueError(f"the scratch folder must not lie in {reach.SHARED_MEMORY}, which a candidate gets anew")


def prepare() -> None:
    """Find out once, in a zygote, what every child forked from it would have to find out for itself."""
    probe()
    library_paths()


def enter(confinement: Confinement) -> tuple[str, ...]:
    """Confine this process, just forked and single-threaded; returns the names of the layers in force.

    With a pid namespace it returns in a child of the caller's child, which stays behind, holds no descriptor, and ends
    as the inner process ends: the caller goes on waiting for, and killing, the process it forked. Raises OSError when
    a layer that works on this machine cannot be put in force: then nothing must run here.
    """
    available = frozenset(layer.name for layer in probe() if layer.available)
    readable = (*library_paths(), *confinement.read_only)  # found while everything can still be looked at
    parent = os.getppid()
    privileges.set_dumpable(True)  # a zygote may have turned it off, and /proc/self must be writable until the end
    privileges.die_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.umask(0o077)
    privileges.volunteer_for_the_oom_killer()
    if confinement.cgroup:
        with open(os.path.join(confinement.cgroup, "cgroup.procs"), "w") as group:
            group.write("0")
    inheritance.replace_environment(scrubbed_environment(confinement.scratch, os.environ))
    tempfile.tempdir = None  # it remembers the caller's
    in_force = [
        *_enter_namespaces(confinement, available),
        *_set_limits(confinement, available),
        *_give_up_rights(confinement, available, readable),
    ]
    return tuple(dict.fromkeys([layers.ENVIRONMENT, *in_force]))


def _enter_namespaces(confinement: Confinement, available: frozenset[str]) -> Iterator[str]:
    kinds = [kind for kind, name in layers.NAMESPACES.items() if name in available]
    if kinds and kinds != ["user"]:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        namespaces.enter(kinds)
        yield from (layers.NAMESPACES[kind] for kind in kinds)
    if "pid" in kinds:
        namespaces.mount_proc()
        with contextlib.suppress(OSError):  # an older kernel, or a container that keeps its settings to itself
            namespaces.bound_process_count(confinement.limits.processes)
            yield layers.PROCESS_LIMIT
    if "mount" in kinds:
        # With a GPU, /proc stays writable: CUDA needs it. PyTorch's CUDA IPC would need the checker's /dev/shm, too.
        if os.path.isdir(reach.SHARED_MEMORY):
            namespaces.mount_shared_memory(confinement.limits.memory_bytes)
        if layers.READ_ONLY in available:
            writable = [confinement.scratch, *confinement.writable, *filter(os.path.isdir, [reach.SHARED_MEMORY])]
            writable += ["/proc"] if confinement.gpu else []
            namespaces.make_read_only(writable, guard_proc=confinement.gpu)
            yield layers.READ_ONLY
    os.chdir(confinement.scratch)


def _set_limits(confinement: Confinement, available: frozenset[str]) -> Iterator[str]:
    limits = confinement.limits
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_CPU, limits.cpu_s)
    _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    yield layers.LIMITS
    if not confinement.gpu:
        with open("/proc/self/statm") as text:
            counted_now = int(text.read().split()[5]) * resource.getpagesize()
        _lower(resource.RLIMIT_DATA, counted_now + limits.memory_bytes + limits.mapped_bytes)
    if confinement.cgroup:
        yield layers.CGROUP
    if confinement.cgroup or not confinement.gpu:
        yield layers.MEMORY_LIMIT
    if os.getuid() != 0:  # the kernel exempts root
        counted_here = layers.NAMESPACES["user"] in available and syscalls.kernel_version() >= PER_NAMESPACE_NPROC
        _lower(resource.RLIMIT_NPROC, limits.processes + (0 if counted_here else _tasks_of_user()))
    if os.getuid() != 0 or confinement.cgroup:
        yield layers.PROCESS_LIMIT


def _give_up_rights(confinement: Confinement, available: frozenset[str], readable: tuple[str, ...]) -> Iterator[str]:
    privileges.drop_capabilities()
    privileges.forbid_new_privileges()
    yield layers.CAPABILITIES
    yield layers.NO_NEW_PRIVILEGES
    if layers.LANDLOCK in available:
        shared_memory = confinement.gpu or layers.NAMESPACES["mount"] in available
        writable = (confinement.scratch, *confinement.writable)
        grants = reach.grants(writable, readable, gpu=confinement.gpu, shared_memory=shared_memory)
        landlock.restrict(grants)
        yield layers.LANDLOCK
    if not confinement.gpu:
        privileges.set_dumpable(False)
    if layers.SECCOMP in available:
        version = landlock.abi() if layers.LANDLOCK in available else 0
        seccomp.install(
            seccomp.rules(
                signals_confined=layers.NAMESPACES["pid"] in available or version >= landlock.SCOPE_ABI,
                ipc_private=layers.NAMESPACES["ipc"] in available,
                truncation_confined=layers.READ_ONLY in available or version >= landlock.TRUNCATE_ABI,
                gpu=confinement.gpu,
            )
        )
        yield layers.SECCOMP


def _lower(kind: int, value: int) -> None:
    """Set soft and hard limit, but never above what was inherited."""
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _tasks_of_user() -> int:
    """Processes and threads that run under this user's number."""
    count = 0
    for folder in glob.glob("/proc/[0-9]*/task"):
        try:
            count += len(os.listdir(folder)) if os.stat(folder).st_uid == os.getuid() else 0
        except OSError:
            continue
    return count

"""The sandbox around one candidate. A freshly forked child enters it and cannot leave.

It keeps a candidate from files outside its scratch folder, from the network, from other processes and their secrets,
from surviving its evaluation, and from exhausting the machine. It consists of layers, each used if the machine has it;
none needs root, and `enter` reports the active ones. It does not judge the candidate's results, and cannot keep it from
wasting its time and GPU memory. Host memory of all its processes together, and of the files it writes, is limited by a
control group or by `watchdog.py`.

The order is: leave the caller's session, clear the environment, make namespaces and their mounts, set limits, then give
up rights, files and system calls. Each step removes rights that setting up the one before needed.
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
"""Kernel version since which RLIMIT_NPROC counts within a user namespace, and not all processes of the user."""

MOST_OF_A_CARD = 0.75
"""Share of a GPU's memory that one process may use. A process that fails with this much cannot blame others, and the
rest is left to the checker."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Resource limits of one candidate."""

    cpu_s: int = 300
    memory_bytes: int = 8 * GIB
    """Host memory beyond the memory held at entry. Not enforced with a GPU, whose drivers map large ranges."""
    mapped_bytes: int = 0
    """Additional bytes for mapped inputs. They are other processes' memory, but the kernel's limit counts them."""
    file_bytes: int = GIB
    """Size of any single file it writes."""
    processes: int = 1024
    """Number at the same time, including threads."""
    open_files: int = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The paths and limits of a confined process."""

    scratch: str
    """The only private folder it may write to; an absolute path, used by this candidate only."""
    read_only: tuple[str, ...] = ()
    """Paths it may read in addition to the libraries of `library_paths`."""
    writable: tuple[str, ...] = ()
    """Folders it may write to in addition to its scratch folder; others may write there as well."""
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
    """Compute once, in a zygote, results that every child forked from it needs."""
    probe()
    library_paths()


def enter(confinement: Confinement) -> tuple[str, ...]:
    """Confine this process, which was just forked and has one thread; return the names of the active layers.

    With a pid namespace it returns in a child of the caller's child. The caller's child stays behind, holds no
    descriptor, and ends like the inner process, so the caller waits for, and kills, the process it forked. Raises
    OSError if a layer that works on this machine cannot be activated: then nothing must run here.
    """
    available = frozenset(layer.name for layer in probe() if layer.available)
    readable = (*library_paths(), *confinement.read_only)  # computed while all files are still accessible
    parent = os.getppid()
    privileges.set_dumpable(True)  # a zygote may have disabled it, and /proc/self must stay writable until the end
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
    tempfile.tempdir = None  # it caches the caller's folder
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
        with contextlib.suppress(OSError):  # an older kernel, or a container that hides this setting
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
    """Set soft and hard limit, but never above the inherited limit."""
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _tasks_of_user() -> int:
    """Return the number of processes and threads that run under this uid."""
    count = 0
    for folder in glob.glob("/proc/[0-9]*/task"):
        try:
            count += len(os.listdir(folder)) if os.stat(folder).st_uid == os.getuid() else 0
        except OSError:
            continue
    return count

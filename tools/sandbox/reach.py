"""The files that a candidate may read: the folders of libraries, and a short list of others.

Everything else is inaccessible. Paths are resolved, since access is granted to a file and not to a link that leads to
it. A folder on `sys.path` that belongs to no library (a project, a home) is not included.
"""

from __future__ import annotations

import functools
import glob
import importlib.util
import os
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterator

from triton_agent.tools.sandbox import landlock

SYSTEM_PATHS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache"),
    *("/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/localtime", "/etc/nsswitch.conf"),
    *("/etc/passwd",),
)
"""Programs, shared libraries and files of the C library, including the compilers that Triton calls."""

KERNEL_PATHS = ("/proc", "/sys/devices/system", "/sys/kernel/mm/transparent_hugepage")
GPU_KERNEL_PATHS = ("/sys/devices", "/sys/bus/pci", "/sys/class", "/sys/module", "/sys/fs/cgroup")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
GPU_DEVICES = ("/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/dxg")
SHARED_MEMORY = "/dev/shm"


@functools.cache
def library_paths() -> tuple[str, ...]:
    """Return the folders of Python, torch, triton, this package and the system's libraries, with links resolved."""
    paths = [*SYSTEM_PATHS, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    paths += [*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()]
    paths += [entry for entry in sys.path if os.path.basename(entry) in ("site-packages", "dist-packages")]
    for package in ("torch", "triton", "numpy", "triton_agent", "triton_agent.tools"):
        paths += _package_folders(package)
    paths += [*_named_by_the_environment(), *_compilers()]
    found = (os.path.realpath(path) for path in paths if os.path.isabs(path) and os.path.exists(path))
    return tuple(dict.fromkeys(found))


def _named_by_the_environment() -> list[str]:
    """Return library folders set by the user, except parents of the user's home."""
    names = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    names += [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    home = os.path.realpath(os.path.expanduser("~"))
    return [
        name for name in names if name and os.path.commonpath([home, os.path.realpath(name)]) != os.path.realpath(name)
    ]


def _compilers() -> list[str]:
    """Return the folders of C compilers that Triton may use for its launchers, if they are not in a system folder."""
    found = [shutil.which(name) for name in (os.environ.get("CC", ""), "gcc", "clang", "cc", "ld") if name]
    programs = [os.path.realpath(path) for path in found if path]
    return [os.path.dirname(os.path.dirname(path)) for path in programs if os.path.dirname(path) not in ("/bin", "/")]


def _package_folders(name: str) -> list[str]:
    """Return the folders of an importable package; an editable install may be anywhere."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return list(spec.submodule_search_locations or ()) if spec else []


def grants(
    writable: tuple[str, ...], readable: tuple[str, ...], *, gpu: bool, shared_memory: bool
) -> Iterator[landlock.Grant]:
    """Yield all grants for Landlock; `shared_memory` if /dev/shm is private to the candidate, or must be shared."""
    for path in writable:
        yield landlock.Grant(path, landlock.WRITE)
    for path in readable:
        yield landlock.Grant(path, landlock.READ)
    for path in (*KERNEL_PATHS, *(GPU_KERNEL_PATHS if gpu else ())):
        yield landlock.Grant(path, landlock.READ_FILE | landlock.READ_DIR)
    gpu_devices = [path for pattern in GPU_DEVICES for path in glob.glob(pattern)] if gpu else []
    for path in (*DEVICES, *gpu_devices):
        yield landlock.Grant(path, landlock.DEVICE)
    if shared_memory:
        yield landlock.Grant(SHARED_MEMORY, landlock.WRITE)
    if gpu:
        os.open("/proc/self", os.O_PATH)  # stays open: if the kernel dropped the entry, the grant would be lost
        yield landlock.Grant("/proc/self", landlock.REWRITE)

"""Removes secrets that a forked process inherits: environment variables and descriptors.

The environment that a process was started with stays readable in its memory, and in /proc/self/environ, even if
`os.environ` changes; so those bytes are overwritten too. Copies made by libraries cannot be reached: start a zygote
with a scrubbed environment, so that there is nothing to copy.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection, Mapping

from triton_agent.tools.sandbox import syscalls

KEPT = frozenset(
    {
        *("PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "CC", "CUDA_HOME", "CUDA_PATH"),
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING"),
        *("CUDA_LAUNCH_BLOCKING", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_VISIBLE_DEVICES"),
        *("NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_TF32_OVERRIDE", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"),
        *("TORCHINDUCTOR_COMPILE_THREADS", "TRITON_INTERPRET", "TRITON_DEFAULT_BACKEND", "TRITON_LIBCUDA_PATH"),
        *("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "PYTHONHASHSEED", "PYTHONUNBUFFERED"),
    }
)
"""Variables with which programs find their libraries, devices and language; none of them is a secret."""
KEPT_PREFIXES = ("LC_",)
KEPT_SUFFIXES = ("_NUM_THREADS",)

CLOSE_RANGE = 436
HIGHEST_DESCRIPTOR = 2**31 - 1
STAT_ENVIRONMENT_START = 50
"""Position in /proc/self/stat, counted from one as in its manual; the end of the bytes is the next field."""


def scrubbed_environment(scratch: str, keep: Mapping[str, str]) -> dict[str, str]:
    """Return the harmless variables of `keep`, with every cache and temporary folder moved into `scratch`."""
    environment = {name: value for name, value in keep.items() if _is_kept(name)}
    return environment | {
        "HOME": scratch,
        "TMPDIR": scratch,
        "USER": "candidate",
        "XDG_CACHE_HOME": scratch,
        "TRITON_HOME": scratch,
        "TRITON_CACHE_DIR": os.path.join(scratch, "triton"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(scratch, "inductor"),
        "CUDA_CACHE_PATH": os.path.join(scratch, "cuda"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def replace_environment(environment: Mapping[str, str]) -> None:
    """Replace the environment in Python, in C, and in the memory that /proc/self/environ shows."""
    environment = dict(environment)
    os.environ.clear()
    syscalls.call("clearenv")
    with open("/proc/self/stat") as text:
        after_name = text.read().rpartition(")")[2].split()  # the second field, the name, may contain spaces
    start, end = (int(value) for value in after_name[STAT_ENVIRONMENT_START - 3 :][:2])
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
    os.environ.update(environment)


def close_descriptors(keep: Collection[int]) -> None:
    """Close every descriptor of this process except these."""
    first = 0
    for descriptor in sorted(keep):
        if descriptor > first:
            _close_range(first, descriptor - 1)
        first = descriptor + 1
    _close_range(first, HIGHEST_DESCRIPTOR)


def _is_kept(name: str) -> bool:
    return name in KEPT or name.startswith(KEPT_PREFIXES) or name.endswith(KEPT_SUFFIXES)


def _close_range(first: int, last: int) -> None:
    try:
        syscalls.system_call("close_range", CLOSE_RANGE, first, last, 0)
    except OSError:  # before Linux 5.9
        os.closerange(first, min(last, os.sysconf("SC_OPEN_MAX")) + 1)

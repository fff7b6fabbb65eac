"""Linux system calls that Python's standard library does not wrap, made through the loaded C library.

A failing call raises OSError with its name and the kernel's reason. Call numbers are known only for Linux on x86_64 and
aarch64; on other machines `machine()` is empty, and layers that need numbers report themselves as missing.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

LANDLOCK_CREATE_RULESET = 444
LANDLOCK_ADD_RULE = 445
LANDLOCK_RESTRICT_SELF = 446
MOUNT_SETATTR = 442
"""Calls added since 2019 have the same number on every architecture."""

SECCOMP = {"x86_64": 317, "aarch64": 277}


@functools.cache
def libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def machine() -> str:
    """Return `x86_64` or `aarch64`; "" if the call numbers are unknown, as for 32-bit programs."""
    name = platform.machine()
    return name if name in SECCOMP and ctypes.sizeof(ctypes.c_void_p) == 8 else ""


def kernel_version() -> tuple[int, int]:
    """Return the major and minor version of the running kernel."""
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)


def call(name: str, *arguments: int | bytes | None) -> int:
    """Call a function of the C library that returns -1 on error."""
    return _checked(name, getattr(libc(), name)(*map(_converted, arguments)))


def system_call(name: str, number: int, *arguments: int | bytes | None) -> int:
    """Make a system call that the C library may lack; `name` is for the error message."""
    return _checked(name, libc().syscall(ctypes.c_long(number), *map(_converted, arguments)))


def prctl(option: int, value: int = 0) -> int:
    """Change an attribute of this process."""
    return call("prctl", option, value, 0, 0, 0)


def _converted(argument: int | bytes | None) -> ctypes.c_long | ctypes.c_char_p:
    return ctypes.c_long(argument) if isinstance(argument, int) else ctypes.c_char_p(argument)


def _checked(name: str, result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result

"""Landlock: restricts the files that a process may access, without privileges.

A ruleset forbids all accesses that it handles and then allows them beneath chosen paths, irrevocably for this process
and its children. It also forbids tracing processes outside, and, depending on the kernel's version of Landlock, TCP,
signals to processes outside, and abstract sockets from outside. It does not hide that a file exists, nor (before
version 3) prevent truncating a file that may not be written: `seccomp.py` and a read-only mount cover these.
"""

from __future__ import annotations

import dataclasses
import os
import stat
import struct
from collections.abc import Iterable

from triton_agent.tools.sandbox import syscalls

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
MAKE_CHAR = 1 << 6
MAKE_BLOCK = 1 << 11
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15

FILE_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}
"""Number of rights, counted from the lowest bit, that a version handles; 16 from version 5 on."""
NETWORK_ABI = 4
TRUNCATE_ABI = 3
SCOPE_ABI = 6

NETWORK_RIGHTS = 0b11
"""Binding and connecting TCP sockets."""
SCOPES = 0b11
"""Abstract Unix sockets, and signals."""

RULE_PATH_BENEATH = 1
CREATE_RULESET_VERSION = 1

READ = EXECUTE | READ_FILE | READ_DIR
WRITE = ((1 << 16) - 1) & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)
"""Everything a program does in its own folder, without making device nodes."""
DEVICE = READ_FILE | READ_DIR | WRITE_FILE | IOCTL_DEV
REWRITE = WRITE_FILE | TRUNCATE
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The rights that a rule for anything but a folder may have."""


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """Rights on a file, or on everything beneath a folder."""

    path: str
    rights: int


def abi() -> int:
    """Return the kernel's version of Landlock; 0 if it has none."""
    try:
        return syscalls.system_call(
            "landlock_create_ruleset", syscalls.LANDLOCK_CREATE_RULESET, None, 0, CREATE_RULESET_VERSION
        )
    except OSError:
        return 0


def restrict(grants: Iterable[Grant]) -> None:
    """Confine this thread and everything it starts to the grants. Paths that do not exist are skipped."""
    version = abi()
    handled = (1 << FILE_RIGHTS_BY_ABI.get(version, 16)) - 1
    attributes = struct.pack("Q", handled)
    if version >= NETWORK_ABI:
        attributes += struct.pack("Q", NETWORK_RIGHTS)
    if version >= SCOPE_ABI:
        attributes += struct.pack("Q", SCOPES)
    ruleset = syscalls.system_call(
        "landlock_create_ruleset", syscalls.LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0
    )
    try:
        for grant in grants:
            _add(ruleset, grant, handled)
        syscalls.system_call("landlock_restrict_self", syscalls.LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _add(ruleset: int, grant: Grant, handled: int) -> None:
    try:
        descriptor = os.open(grant.path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        on_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        rights = grant.rights & handled & (~0 if on_folder else ON_FILES)
        if rights:
            rule = struct.pack("=Qi", rights, descriptor)
            syscalls.system_call("landlock_add_rule", syscalls.LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)

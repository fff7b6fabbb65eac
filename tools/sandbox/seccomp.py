"""A seccomp filter: the kernel refuses system calls that no kernel author needs.

Refused are inspecting or controlling other processes, mounts and new namespaces, loading code into the kernel, keys,
clocks, io_uring, and every socket that leaves the process. All other calls work as usual. A refused call fails with an
error number, as if this user had no right to it; it does not kill the process, since libraries probe for such calls.
The filter sees only numbers, never the data behind a pointer: `landlock.py` handles paths.
"""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import os
import socket
import struct
from collections.abc import Iterable
from typing import Literal

from triton_agent.tools.sandbox import syscalls


def _numbers(text: str) -> dict[str, tuple[int | None, int | None]]:
    rows = (row.split() for row in text.split(","))
    return {name: (int(x86_64), None if aarch64 == "-" else int(aarch64)) for name, x86_64, aarch64 in rows}


# Each call with its number on x86_64 and on aarch64.
_REFUSED = _numbers("""
    ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, pidfd_getfd 438 438, kcmp 312 272,
    mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, open_tree 428 428, move_mount 429 429,
    fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442, unshare 272 97,
    setns 308 268, open_by_handle_at 304 265, fanotify_init 300 262, bpf 321 280, perf_event_open 298 241,
    userfaultfd 323 282, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, add_key 248 217,
    request_key 249 218, keyctl 250 219, init_module 175 105, finit_module 313 273, delete_module 176 106,
    kexec_load 246 104, kexec_file_load 320 294, reboot 169 142, swapon 167 224, swapoff 168 225, acct 163 89,
    quotactl 179 60, quotactl_fd 443 443, syslog 103 116, settimeofday 164 170, clock_settime 227 112,
    clock_adjtime 305 266, adjtimex 159 171, sethostname 170 161, setdomainname 171 162, personality 135 92,
    vhangup 153 58, iopl 172 -, ioperm 173 -, modify_ldt 154 -, uselib 134 -
""")
_CONDITIONAL = _numbers("""
    clone 56 220, clone3 435 435, socket 41 198, socketpair 53 199, connect 42 203, prctl 157 167, prlimit64 302 261,
    ioctl 16 29, kill 62 129, tkill 200 130, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240,
    pidfd_send_signal 424 424, shmget 29 194, shmat 30 196, msgget 68 186, semget 64 190, mq_open 240 180,
    memfd_create 319 279, memfd_secret 447 447, truncate 76 45, open 2 -, openat 257 56, openat2 437 437
""")
NUMBERS = {**_REFUSED, **_CONDITIONAL}
NEWEST = 466
"""Larger numbers did not exist when the list was made. They fail like in an old kernel: "no such call". The obsolete
second table of x86_64 (x32) has far larger numbers and is refused in the same way."""

REFUSED = tuple(_REFUSED)
"""Calls that are refused with any arguments."""

AUDIT_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

CLONE_NEW_ANY = 0x7E020000
"""Flags that create a namespace: cgroup, uts, ipc, user, pid, network, mount."""
SOCK_TYPE_MASK = 0xF
TIOCSTI = 0x5412
"""Types into a terminal on behalf of the user."""
TIOCLINUX = 0x541C

LOAD, AND, JUMP_EQUAL, JUMP_ABOVE, JUMP_ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
KILL_PROCESS, FAIL, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
OFFSET_NUMBER, OFFSET_ARCHITECTURE, OFFSET_ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`; arguments are eight bytes each, with the low half first."""

SECCOMP_SET_MODE_FILTER = 1
SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4
"""Without this flag, older kernels slow the process down with mitigations of speculative execution."""


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the low half of one argument, after masking."""

    argument: int
    relation: Literal["equals", "differs", "any bit"]
    value: int
    mask: int = 0xFFFFFFFF


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A call that fails with this error if all tests hold; without tests, it always fails."""

    call: str
    error: int = errno.EPERM
    tests: tuple[Condition, ...] = ()


def rules(*, signals_confined: bool, ipc_private: bool, truncation_confined: bool, gpu: bool) -> tuple[Rule, ...]:
    """Return the calls to refuse, given what other layers already prevent."""
    found = [Rule(name) for name in REFUSED]
    found += [
        Rule("clone3", errno.ENOSYS),  # its flags are behind a pointer; C libraries fall back to clone
        Rule("clone", tests=(Condition(0, "any bit", CLONE_NEW_ANY),)),
        Rule("prctl", tests=(Condition(0, "equals", syscalls.PR_SET_PDEATHSIG),)),  # or it could survive its parent
        Rule("prlimit64", tests=(Condition(0, "differs", 0),)),
        Rule("ioctl", tests=(Condition(1, "equals", TIOCSTI),)),
        Rule("ioctl", tests=(Condition(1, "equals", TIOCLINUX),)),
    ]
    # Unix sockets between a process and its own children are allowed: CUDA makes some, asyncio needs pairs. A datagram
    # socket can send to any path without connecting, so that type is refused. `connect` fails as if nobody listened,
    # which CUDA also meets in a network namespace of its own.
    not_unix = Condition(0, "differs", socket.AF_UNIX)
    datagram = Condition(1, "equals", socket.SOCK_DGRAM, SOCK_TYPE_MASK)
    found += [Rule(name, errno.EACCES, (test,)) for name in ("socket", "socketpair") for test in (not_unix, datagram)]
    found.append(Rule("connect", errno.ECONNREFUSED))
    if not signals_confined:  # no pid namespace and no Landlock: allow signals to this process and its group only
        strangers = (Condition(0, "differs", os.getpid()), Condition(0, "differs", 0))
        found += [Rule("kill", tests=strangers), Rule("tkill"), Rule("pidfd_send_signal")]
        found += [Rule(name, tests=strangers[:1]) for name in ("tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")]
    if not ipc_private:
        found += [Rule(name) for name in ("shmget", "shmat", "msgget", "semget", "mq_open")]
    if not truncation_confined:
        # early versions of Landlock allow truncating a file by name, or by opening it read-only
        emptying = (os.O_RDONLY | os.O_TRUNC, os.O_ACCMODE | os.O_TRUNC)
        found += [
            Rule("truncate"),
            Rule("open", tests=(Condition(1, "equals", *emptying),)),
            Rule("openat", tests=(Condition(2, "equals", *emptying),)),
            Rule("openat2", errno.ENOSYS),
        ]
    if not gpu:  # in-memory files count neither towards the data limit nor as resident; CUDA may need them
        found += [Rule("memfd_create"), Rule("memfd_secret")]
    return tuple(found)


def install(refused: Iterable[Rule]) -> None:
    """Activate the filter for this thread and everything it starts, irrevocably."""
    machine = syscalls.machine()
    program = assemble(refused, machine)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    number = syscalls.SECCOMP[machine]
    syscalls.system_call("seccomp", number, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, header)


def assemble(refused: Iterable[Rule], machine: str) -> bytes:
    """Return the filter as a program for the kernel's virtual machine."""
    column = list(AUDIT_ARCHITECTURE).index(machine)
    program = [
        _instruction(LOAD, OFFSET_ARCHITECTURE),
        _instruction(JUMP_EQUAL, AUDIT_ARCHITECTURE[machine], if_true=1),
        _instruction(RETURN, KILL_PROCESS),
        _instruction(LOAD, OFFSET_NUMBER),
        _instruction(JUMP_ABOVE, NEWEST, if_false=1),
        _instruction(RETURN, FAIL | errno.ENOSYS),
    ]
    for rule in refused:
        number = NUMBERS[rule.call][column]
        if number is not None:
            body: list[bytes] = []
            for test in reversed(rule.tests):  # continue if the test holds, otherwise jump over the rest of the body
                jump = JUMP_ANY_BIT if test.relation == "any bit" else JUMP_EQUAL
                skip = len(body) + 1
                holds, fails = (skip, 0) if test.relation == "differs" else (0, skip)
                body = [
                    _instruction(LOAD, OFFSET_ARGUMENTS + 8 * test.argument),
                    _instruction(AND, test.mask),
                    _instruction(jump, test.value, if_true=holds, if_false=fails),
                    *body,
                ]
            body.append(_instruction(RETURN, FAIL | rule.error))
            program += [_instruction(LOAD, OFFSET_NUMBER), _instruction(JUMP_EQUAL, number, if_false=len(body)), *body]
    program.append(_instruction(RETURN, ALLOW))
    return b"".join(program)


def _instruction(code: int, operand: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, operand)

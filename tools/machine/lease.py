"""One user of a GPU at a time, across processes and people on one machine.

A lease is a file lock (flock) under a well-known folder, named by the GPU's UUID; any text will do for a key.
*Exclusive* is for the clock; *shared* is for work that others may do at the same time but never under the clock, such
as creating contexts. The kernel drops the lock when its holder dies, however it dies. Whoever waits stands in a gate
first, so that a stream of sharers cannot keep out one who wants it alone; beyond that there is no order among those
waiting.

Each holder leaves a note (pid, user, purpose) that it keeps locked: a note without a lock is from the dead and is
ignored.

Not covered: programs that do not ask (see `health.py` for noticing them); machines that do not share the folder, as
containers with a `/tmp` of their own; taking one key twice in one process, which waits for itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import fcntl
import getpass
import hashlib
import json
import os
import re
import stat
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton_agent.tools.errors import InstrumentError

FOLDER = Path("/tmp/triton-agent-leases")
"""Not `tempfile.gettempdir()`: that follows TMPDIR, and users with different ones would not meet."""
POLL_S = 0.004
"""How often a waiting process asks again. flock has no time limit of its own, and an alarm belongs to the caller."""
_NOTE_BYTES = 4096


class Mode(enum.StrEnum):
    """How a lease is held."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A holder of a lease, as it describes itself."""

    pid: int
    """As the holder sees itself; another pid namespace numbers differently."""
    user: str
    what: str
    mode: Mode
    since_s: float
    """Seconds since 1970."""

    def __str__(self) -> str:
        held_s = max(time.time() - self.since_s, 0)
        return f"pid {self.pid} of {self.user}, {self.mode}, for {held_s:.0f} s: {self.what}"


@contextlib.contextmanager
def lease(
    key: str, *, what: str, mode: Mode = Mode.EXCLUSIVE, wait_s: float = 600.0, folder: Path = FOLDER
) -> Iterator[None]:
    """Holds the lease on `key` for the length of the block; `what` tells others the purpose.

    Raises InstrumentError, naming who is in the way, after `wait_s`.
    """
    deadline_s = time.monotonic() + wait_s
    make_folder(folder)
    name = _file_name(key)
    with contextlib.ExitStack() as held:
        inside = False
        with contextlib.ExitStack() as waiting:  # the gate is held while waiting and let go once inside
            first = waiting.enter_context(_first_here(folder / name, deadline_s))
            if first and waiting.enter_context(_locked(folder / f"{name}.gate", Mode.EXCLUSIVE, deadline_s)):
                inside = held.enter_context(_locked(folder / f"{name}.lock", mode, deadline_s))
        if not inside:
            found = holders(key, folder)
            who = "; ".join(str(holder) for holder in found) or "someone who left no note, or others waiting too"
            raise InstrumentError(
                f"the lease was not free within {wait_s:g} s; held by {who}",
                where=key,
                remedy="let that work end, or allow a longer wait",
            )
        held.enter_context(_note(folder, name, what, mode))
        yield


class SharedDoor:
    """A shared lease for a process that is about to lose sight of the folder: opened before, taken afterwards, once.

    It waits without a time limit, leaves no note, and lets go by an explicit unlock, so that copies of its
    descriptors in other processes keep nothing locked.
    """

    def __init__(self, key: str, folder: Path = FOLDER) -> None:
        make_folder(folder)
        name = _file_name(key)
        self._gate = _open_any_owner(folder / f"{name}.gate")
        self._lock = _open_any_owner(folder / f"{name}.lock")

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Holds the lease for the length of the block, and closes the door behind."""
        try:
            fcntl.flock(self._gate, fcntl.LOCK_EX)
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            fcntl.flock(self._gate, fcntl.LOCK_UN)
            yield
        finally:
            for descriptor in (self._gate, self._lock):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)


def holders(key: str, folder: Path = FOLDER) -> tuple[Holder, ...]:
    found = []
    for path in sorted(folder.glob(f"{_file_name(key)}.*.note")):
        # A note may go, or belong to another user, while we look at it.
        with contextlib.suppress(InstrumentError, PermissionError), _opened(path, create=False) as descriptor:
            holder = _read_note(descriptor)
            if holder and _try_lock(descriptor, Mode.SHARED):
                path.unlink(missing_ok=True)  # written, yet not locked: its holder is dead
            elif holder:
                found.append(holder)
    return tuple(found)


def awaited(key: str, folder: Path = FOLDER) -> bool:
    """Return True if a process waits in the gate now. A sharer asks this to know when to give up the lease.

    Other sharers pass the gate in no time, so who is seen there twice in a row wants the lease alone.
    """
    with _opened(folder / f"{_file_name(key)}.gate", create=True) as gate:
        return not _try_lock(gate, Mode.SHARED)


@contextlib.contextmanager
def _first_here(path: Path, deadline_s: float) -> Iterator[bool]:
    """Let one thread of this process at a time poll the gate: a dozen pollers would slow down the clock.

    False where the deadline came first.
    """
    turn = _AFTER_FORK.turn(path)
    taken = turn.acquire(timeout=max(0.0, deadline_s - time.monotonic()))
    try:
        yield taken
    finally:
        if taken:
            turn.release()


@contextlib.contextmanager
def _locked(path: Path, mode: Mode, deadline_s: float) -> Iterator[bool]:
    """The lock for the length of the block; False where the deadline came first. Always tries once."""
    with _opened(path, create=True) as descriptor:
        while not (taken := _try_lock(descriptor, mode)) and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
        yield taken


def _try_lock(descriptor: int, mode: Mode) -> bool:
    kind = fcntl.LOCK_EX if mode is Mode.EXCLUSIVE else fcntl.LOCK_SH
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _opened(path: Path, *, create: bool) -> Iterator[int]:
    """A descriptor of a plain file; forked children do not inherit it, since a lock lives as long as any copy of it."""
    try:
        with _AFTER_FORK.changing():
            descriptor = _open_any_owner(path) if create else os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            _AFTER_FORK.add(descriptor)
    except OSError as error:
        raise InstrumentError(
            f"the lease file cannot be opened: {error.strerror}",
            where=str(path),
            remedy="remove it, or choose another folder for leases",
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InstrumentError("not a plain file where a lease belongs", where=str(path), remedy="remove it")
        yield descriptor
    finally:
        _AFTER_FORK.close(descriptor)


def _open_any_owner(path: Path) -> int:
    """Opens the file of another user too: Linux refuses O_CREAT on it in a sticky folder, even where it exists."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:  # someone else made it in between
        return os.open(path, flags)
    os.fchmod(descriptor, 0o644)  # whatever the umask: to lock a file one must be able to read it
    return descriptor


@contextlib.contextmanager
def _note(folder: Path, name: str, what: str, mode: Mode) -> Iterator[None]:
    """Leaves word of this holder, locked for as long as it is true."""
    path = folder / f"{name}.{uuid.uuid4().hex}.note"
    holder = Holder(pid=os.getpid(), user=_user(), what=what, mode=mode, since_s=time.time())
    with _opened(path, create=True) as descriptor:
        # Waits for a reader at most; locked before it is written, so that no reader takes it for a dead one.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        path.write_text(json.dumps(dataclasses.asdict(holder))[:_NOTE_BYTES])
        try:
            yield
        finally:
            if os.getpid() == holder.pid:  # a forked child unwinds this block too
                path.unlink(missing_ok=True)


def _read_note(descriptor: int) -> Holder | None:
    """The holder, or None where the note is not written yet or is not one."""
    try:
        facts = json.loads(os.pread(descriptor, _NOTE_BYTES, 0))
        return Holder(**{**facts, "mode": Mode(facts["mode"])})
    except (ValueError, TypeError, KeyError):
        return None


def make_folder(folder: Path = FOLDER) -> None:
    """Make the folder open to all users of the machine, with the sticky bit: nobody can remove another's lock.

    A process that is to be confined calls this before, since it cannot do so afterwards.
    """
    try:
        folder.mkdir(parents=True)
        folder.chmod(0o1777)
    except FileExistsError:
        pass
    except OSError as error:
        raise InstrumentError(f"no folder for leases: {error.strerror}", where=str(folder)) from error
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode):
        raise InstrumentError("not a folder, so no place for leases", where=str(folder), remedy="remove it")
    if state.st_mode & 0o022 and not state.st_mode & stat.S_ISVTX:
        raise InstrumentError(
            "others could remove the leases in this folder", where=str(folder), remedy="set its sticky bit: chmod +t"
        )


def _file_name(key: str) -> str:
    """The key as a file name: as is where it can be, else with a digest that keeps different keys apart."""
    plain = re.sub(r"[^A-Za-z0-9-]", "_", key)[:80]
    return plain if plain == key and key else f"{plain}_{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as containers have
        return f"uid {os.getuid()}"


class _AfterFork:
    """Closes in a forked child the files that hold leases (it would keep those of a dead parent), and resets locks.

    Nobody forks while a file is open and not noted yet, or noted no more and still open: a child that has it unknown to
    itself would wait for its own lock.
    """

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._turns: dict[Path, threading.Lock] = {}
        self._changing = threading.Lock()
        os.register_at_fork(before=self._hold, after_in_parent=self._let_go, after_in_child=self._forget)

    def _hold(self) -> None:
        self._changing.acquire()

    def _let_go(self) -> None:
        self._changing.release()

    def changing(self) -> contextlib.AbstractContextManager[Any]:
        """While files are opened or closed."""
        return self._changing

    def turn(self, path: Path) -> threading.Lock:
        """This process's, to wait for a lease."""
        return self._turns.setdefault(path, threading.Lock())

    def add(self, descriptor: int) -> None:
        self._open.add(descriptor)

    def close(self, descriptor: int) -> None:
        """Idempotent, since a forked child unwinds the same block over a descriptor it no longer has."""
        with self.changing():
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.discard(descriptor)
            os.close(descriptor)

    def _forget(self) -> None:
        self._changing = threading.Lock()  # the old one is held, by the thread that forked
        self._turns = {}  # those of threads that are not in the child would never come
        for descriptor in list(self._open):
            self._close(descriptor)


_AFTER_FORK = _AfterFork()

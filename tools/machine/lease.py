"""Leases: one user of a GPU at a time, across processes and people on one machine.

A lease is a file lock (flock) in a fixed folder, named by a key, usually the GPU's UUID. *Exclusive* leases are for
timing. *Shared* leases are for work that may overlap but must not disturb timing, such as creating contexts. The kernel
drops the lock when its holder dies. A process that has waited for an exclusive lease for a while takes a second lock,
the gate, so that a stream of sharers cannot keep it out. A third lock tells that somebody wishes for an exclusive
lease. While somebody does and nobody shares, nobody begins to share either: exclusive leases follow each other, and the
GPU is emptied once for all of them. There is no other order among waiting processes.

Each holder writes a note (pid, user, purpose) and keeps it locked. A note that is not locked belongs to a dead process
and is ignored.

Not covered: programs that do not ask for a lease (`health.py` notices them); machines that do not share the folder,
such as containers with their own `/tmp`; taking one key twice in one process, which deadlocks.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from triton_agent.tools.errors import InstrumentError

FOLDER = Path("/tmp/triton-agent-leases")
"""Not `tempfile.gettempdir()`: that follows TMPDIR, and users with different values would not share a folder."""
PATIENCE_S = 0.15
"""How long a process waits for sharers to end by themselves before it takes the gate. Meanwhile others may come to wish
for an exclusive lease as well."""
POLL_S = 0.004
"""How often a waiting process retries. flock has no timeout, and a signal alarm belongs to the caller."""
_NOTE_BYTES = 4096


class Mode(enum.StrEnum):
    """How a lease is held."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A holder of a lease, as it describes itself."""

    pid: int
    """Pid in the holder's own namespace."""
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
    """Hold the lease on `key` for the duration of the block; `what` tells others the purpose.

    After `wait_s`, raise InstrumentError with the names of the holders.
    """
    deadline_s = time.monotonic() + wait_s
    make_folder(folder)
    name = _file_name(key)
    with contextlib.ExitStack() as held:
        with _first_here(folder / name, mode, deadline_s) as first:
            inside = first and held.enter_context(_taken(folder / name, mode, deadline_s))
        if not inside:
            found = holders(key, folder)
            who = "; ".join(str(holder) for holder in found) or "a process that left no note, or others waiting too"
            raise InstrumentError(
                f"the lease was not free within {wait_s:g} s; held by {who}",
                where=key,
                remedy="let that work end, or allow a longer wait",
            )
        held.enter_context(_note(folder, name, what, mode))
        yield


class SharedDoor:
    """A shared lease for a process that will lose access to the folder: files opened before, lease taken once later.

    It waits without a time limit and leaves no note. It unlocks explicitly, so copies of its descriptors in other
    processes keep nothing locked.
    """

    def __init__(self, key: str, folder: Path = FOLDER) -> None:
        make_folder(folder)
        name = _file_name(key)
        self._gate = _open_any_owner(folder / f"{name}.gate")
        self._lock = _open_any_owner(folder / f"{name}.lock")

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Hold the lease for the duration of the block, then close the files."""
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
        # The note may vanish while it is read, or belong to another user.
        with contextlib.suppress(InstrumentError, PermissionError), _opened(path, create=False) as descriptor:
            holder = _read_note(descriptor)
            if holder and _try_lock(descriptor, Mode.SHARED):
                path.unlink(missing_ok=True)  # written but not locked: its holder is dead
            elif holder:
                found.append(holder)
    return tuple(found)


def awaited(key: str, folder: Path = FOLDER) -> bool:
    """Return True if a process has taken the gate. A sharer asks this to know when to give up the lease.

    Other sharers pass the gate at once, so a process seen there twice in a row wants the lease exclusively.
    """
    with _opened(folder / f"{_file_name(key)}.gate", create=True) as gate:
        return not _try_lock(gate, Mode.SHARED)


@contextlib.contextmanager
def _first_here(path: Path, mode: Mode, deadline_s: float) -> Iterator[bool]:
    """Let one thread of this process at a time poll for a mode: a dozen pollers would disturb the timing.

    Yield False if the deadline passes first.
    """
    turn = _AFTER_FORK.turn(path, mode)
    taken = turn.acquire(timeout=max(0.0, deadline_s - time.monotonic()))
    try:
        yield taken
    finally:
        if taken:
            turn.release()


@contextlib.contextmanager
def _taken(path: Path, mode: Mode, deadline_s: float) -> Iterator[bool]:
    """Hold the lock in this mode for the duration of the block; yield False if the deadline passes first."""

    def opened(ending: str) -> contextlib.AbstractContextManager[int]:
        return _opened(path.with_name(f"{path.name}.{ending}"), create=True)

    with opened("lock") as lock:
        with opened("gate") as gate, opened("wish") as wish:
            if mode is Mode.EXCLUSIVE:
                taken = _wait_alone(lock, gate, wish, deadline_s)
            else:
                taken = _polled(lambda: _try_to_join(lock, gate, wish), deadline_s)
        yield taken


def _wait_alone(lock: int, gate: int, wish: int, deadline_s: float) -> bool:
    """Wait for the lock alone: first for sharers to end by themselves, then with the gate taken."""
    patient_s = min(deadline_s, time.monotonic() + PATIENCE_S)
    if not _polled(lambda: _try_lock(wish, Mode.SHARED), deadline_s):
        return False
    if _polled(lambda: _try_lock(lock, Mode.EXCLUSIVE), patient_s):
        return True
    if not _polled(lambda: _try_lock(gate, Mode.EXCLUSIVE), deadline_s):
        return False
    return _polled(lambda: _try_lock(lock, Mode.EXCLUSIVE), deadline_s)


def _try_to_join(lock: int, gate: int, wish: int) -> bool:
    """Try to share the lock. Return False if the gate is taken, or if nobody shares and somebody wishes to be alone."""
    if not _try_lock(gate, Mode.EXCLUSIVE):
        return False
    try:
        if _try_lock(lock, Mode.EXCLUSIVE) and not _try_lock(wish, Mode.EXCLUSIVE):
            fcntl.flock(lock, fcntl.LOCK_UN)
            return False
        return _try_lock(lock, Mode.SHARED)
    finally:
        for descriptor in (wish, gate):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _polled(attempt: Callable[[], bool], deadline_s: float) -> bool:
    """Return True once the attempt succeeds, and False if the deadline passes first. Tries at least once."""
    while not (done := attempt()) and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
    return done


def _try_lock(descriptor: int, mode: Mode) -> bool:
    kind = fcntl.LOCK_EX if mode is Mode.EXCLUSIVE else fcntl.LOCK_SH
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _opened(path: Path, *, create: bool) -> Iterator[int]:
    """Open a regular file. Forked children do not inherit the descriptor, since any copy would keep a lock alive."""
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
    """Open the file even if another user owns it: in a sticky folder Linux refuses O_CREAT on it, though it exists."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:  # another process created it in between
        return os.open(path, flags)
    os.fchmod(descriptor, 0o644)  # in spite of the umask: flock needs read access
    return descriptor


@contextlib.contextmanager
def _note(folder: Path, name: str, what: str, mode: Mode) -> Iterator[None]:
    """Write a note about this holder, and keep it locked while the lease is held."""
    path = folder / f"{name}.{uuid.uuid4().hex}.note"
    holder = Holder(pid=os.getpid(), user=_user(), what=what, mode=mode, since_s=time.time())
    with _opened(path, create=True) as descriptor:
        # Waits for a reader at most. Locked before it is written, so that no reader takes its holder for dead.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        path.write_text(json.dumps(dataclasses.asdict(holder))[:_NOTE_BYTES])
        try:
            yield
        finally:
            if os.getpid() == holder.pid:  # a forked child unwinds this block too
                path.unlink(missing_ok=True)


def _read_note(descriptor: int) -> Holder | None:
    """Return the holder, or None if the note is incomplete or is not a note."""
    try:
        facts = json.loads(os.pread(descriptor, _NOTE_BYTES, 0))
        return Holder(**{**facts, "mode": Mode(facts["mode"])})
    except (ValueError, TypeError, KeyError):
        return None


def make_folder(folder: Path = FOLDER) -> None:
    """Make the folder open to all users of the machine, with the sticky bit, so that nobody removes another's lock.

    A process calls this before it is confined, since it cannot do so afterwards.
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
    """Return a file name for the key: the key itself if it is valid, else one with a digest to keep keys distinct."""
    plain = re.sub(r"[^A-Za-z0-9-]", "_", key)[:80]
    return plain if plain == key and key else f"{plain}_{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as containers have
        return f"uid {os.getuid()}"


class _AfterFork:
    """Closes lease files in a forked child, where they would keep a dead parent's leases, and resets its locks.

    A fork waits while a file is open but not yet registered, or no longer registered but still open: the child would
    inherit a descriptor it does not know of, and wait for its own lock.
    """

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._turns: dict[tuple[Path, Mode], threading.Lock] = {}
        self._changing = threading.Lock()
        os.register_at_fork(before=self._hold, after_in_parent=self._let_go, after_in_child=self._forget)

    def _hold(self) -> None:
        self._changing.acquire()

    def _let_go(self) -> None:
        self._changing.release()

    def changing(self) -> contextlib.AbstractContextManager[Any]:
        """Return the lock to hold while files are opened or closed."""
        return self._changing

    def turn(self, path: Path, mode: Mode) -> threading.Lock:
        """Return the lock by which the threads of this process take turns to wait for a lease in this mode."""
        return self._turns.setdefault((path, mode), threading.Lock())

    def add(self, descriptor: int) -> None:
        self._open.add(descriptor)

    def close(self, descriptor: int) -> None:
        """Close a descriptor once; a forked child unwinds the same block over a descriptor it no longer has."""
        with self.changing():
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.discard(descriptor)
            os.close(descriptor)

    def _forget(self) -> None:
        self._changing = threading.Lock()  # the old lock is held by the thread that forked
        self._turns = {}  # the threads that hold these locks do not exist in the child
        for descriptor in list(self._open):
            self._close(descriptor)


_AFTER_FORK = _AfterFork()

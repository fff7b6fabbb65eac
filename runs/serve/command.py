"""`triton-agent view`: serves the pages until Ctrl-C."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.store_option import open_store
from triton_agent.runs.jobs import Jobs
from triton_agent.runs.serve.actions import Actions, CommandJob
from triton_agent.runs.serve.app import make_app
from triton_agent.runs.serve.folders import Folders
from triton_agent.tools.errors import UsageError

ADDRESS = "127.0.0.1"


def run(*, store: str | None, port: int, folders: Sequence[str], write: bool, out: str | None) -> int:
    """Serve the store."""
    if not 0 <= port <= 65535:
        raise UsageError(f"--port {port} is not a port", remedy="give a number from 1 to 65535, or 0 for any free port")
    roots = tuple(Path(folder).resolve() for folder in folders or (".",))
    if missing := [str(root) for root in roots if not root.is_dir()]:
        raise UsageError("there is no such folder", where=", ".join(missing), remedy="give --folder an existing folder")
    token, screen = secrets.token_urlsafe(18), console.progress()

    with open_store(store) as opened, _listening(port) as listener, Jobs[CommandJob]() as jobs:
        url = str(opened.database.path) if opened.database.path else opened.database.url_for_drivers()
        actions = Actions(jobs, url, Path(out or "view").absolute(), token, write=write)
        app = make_app(opened, Folders(roots=roots), actions, token)
        bound = listener.getsockname()[1]
        screen.print(f"http://{ADDRESS}:{bound}/?token={token}", markup=False, soft_wrap=True)
        screen.print("open this address in a browser; Ctrl-C here ends the server")
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])
    return exit_codes.GOOD


def _listening(port: int) -> socket.socket:
    """Return a socket that listens on that port already, so that early requests wait in it."""
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        remedy = "name another, or --port 0 for a free one"
        raise UsageError(f"port {port} cannot be had: {error.strerror}", remedy=remedy) from None

"""A process's own output, apart from that of the process it was forked from."""

from __future__ import annotations

import os


def own_output(path: str) -> None:
    """Point stdout and stderr at a file; what is printed is text, never a verdict."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.close(devnull)

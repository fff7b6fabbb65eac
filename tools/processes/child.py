"""Helpers for the start and the replies of a confined process: output, choice of cores, reports of exceptions."""

from __future__ import annotations

import linecache
import os
import traceback
from collections.abc import Collection
from typing import Any

from triton_agent.tools.processes.codec import decode
from triton_agent.tools.processes.protocol import Raised, Ready, SourceLine, WorkerSettings
from triton_agent.tools.sandbox import sandbox

CORES_LEFT = 2
"""Cores that compile workers do not use: one for the checker, one for the executor.

The latency of a call includes host work. With compilers on every core, it is measured up to three times too high.
"""
MANY_CORES = 8
"""With fewer cores than this, compile workers use all of them."""
TEXT_LIMIT = 4000
"""Maximum number of characters of an exception's text, whose length the candidate decides."""


def own_output(path: str) -> None:
    """Redirect stdout and stderr to a file, and stdin from /dev/null. Printed text is never a verdict."""
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, number)
    os.close(output)
    os.close(nothing)


def leave_cores_to_the_clock() -> None:
    """Keep this process and its children off two cores, so that they are idle when a call is timed."""
    os.sched_setaffinity(0, for_compilers(os.sched_getaffinity(0)))


def for_compilers(cores: Collection[int]) -> set[int]:
    """Return all but the last two cores if there are many, otherwise all."""
    return set(sorted(cores)[:-CORES_LEFT]) if len(cores) >= MANY_CORES else set(cores)


def report_of(error: BaseException, path: str) -> Raised:
    """Return an exception as a message: its class, its text, and the lines of the file at `path` in its traceback."""
    lines = [
        SourceLine(line=frame.lineno, function=frame.name, code=(frame.line or "").strip()[:200])
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == path
    ]
    line = getattr(error, "line", None)
    if isinstance(error, SyntaxError) and error.lineno:
        lines.append(SourceLine(line=error.lineno, function="", code=(error.text or "").strip()[:200]))
    elif isinstance(line, int):
        lines.append(SourceLine(line=line, function="", code=linecache.getline(path, line).strip()[:200]))
    try:
        text = str(error)[:TEXT_LIMIT]
    except BaseException:  # a hostile __str__
        text = "<no text>"
    kinds = tuple(kind.__name__ for kind in type(error).__mro__)
    return Raised(kind=kinds[0], kinds=kinds, text=text, lines=tuple(lines[-4:]))


def begin(plain: dict[str, Any]) -> WorkerSettings:
    """Decode a worker's settings; redirect its output to its scratch folder, and change to that folder."""
    settings: WorkerSettings = decode(WorkerSettings, plain)
    own_output(os.path.join(settings.scratch, "output.txt"))
    os.chdir(settings.scratch)
    return settings


def confine(settings: WorkerSettings) -> Ready:
    """Enter the sandbox; return the message that reports that the worker is ready."""
    layers = sandbox.enter(settings.confinement) if settings.confinement is not None else ()
    if settings.cache:
        os.environ["TRITON_CACHE_DIR"] = settings.cache
    return Ready(layers=layers)

"""Runs a command in the test's own process, for tests that need neither a terminal nor a candidate."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
from typing import Any

from triton_agent.runs.cli.main import app


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a command."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Parse stdout, which must be one JSON value."""
        return json.loads(self.stdout)


def call(*arguments: str) -> Done:
    """Run a command; errors are raised, where `triton-agent` would print a message and set the exit code."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = app(list(arguments), standalone_mode=False)
    return Done(code=code or 0, stdout=stdout.getvalue(), stderr=stderr.getvalue())

"""Runs a command in the test's own process, where neither a terminal nor a candidate is needed for it."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
from typing import Any

from triton_agent.runs.cli.main import app


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a command left."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Of stdout, which must be that and nothing else."""
        return json.loads(self.stdout)


def call(*arguments: str) -> Done:
    """Errors come through as they are raised; `triton-agent` turns them into messages and exit codes."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = app(list(arguments), standalone_mode=False)
    return Done(code=code or 0, stdout=stdout.getvalue(), stderr=stderr.getvalue())

"""Runs an examination of a problem's file in a process of its own and returns the answer.

    ask("triton_agent.runs.parts.survey_process", spec, device, ...)    in this process
    reply(lambda: survey(spec))                                        in the new one, under `__main__`

The file runs there with the user's rights. The answer is the last line that the process prints; the problem's own
output comes before it. Signals to the driver's process group do not reach the process, since a first Ctrl-C or SIGTERM
only ends a search; it dies with the thread that waits for it, unless it is confined.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from triton_agent.tools.errors import InstrumentError, TritonAgentError
from triton_agent.tools.machine.hardware import VISIBLE
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.wire import error_from_json, error_to_json
from triton_agent.tools.sandbox import privileges


def ask(module: str, spec: ProblemSpec, *words: str, purpose: str, limit_s: float, card: str = "") -> dict[str, Any]:
    """Return the module's reply. `card` restricts the process to one GPU, by UUID.

    Raises `ProblemError` if the problem does not run.
    """
    command = [sys.executable, "-P", "-m", module, json.dumps(spec.to_json()), *words]
    environment = os.environ | ({VISIBLE: card} if card else {})
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit_s,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise InstrumentError(f"{purpose} took more than {limit_s:.0f} s", where=spec.path) from error
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        raise InstrumentError(f"{purpose} failed:\n{done.stderr[-2000:]}", where=spec.path)
    answer: dict[str, Any] = json.loads(lines[-1])
    if "error" in answer:
        raise error_from_json(answer["error"])
    return answer


def reply(examine: Callable[[], Mapping[str, Any]]) -> None:
    """Print the result, or the error that prevented it."""
    with contextlib.suppress(PermissionError):  # a confined process may not ask for it
        privileges.die_with_parent()
    try:
        answer = dict(examine())
    except TritonAgentError as error:
        answer = {"error": error_to_json(error)}
    print("\n" + json.dumps(answer))

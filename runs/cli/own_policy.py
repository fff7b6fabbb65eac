"""Loads a policy from a user's file: `--policy own:FILE.py:CLASS`. The interface is described in docs/policies.md.

The policy runs in this process with the user's rights, since the user named it; its kernels are judged like any others.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from triton_agent.policy.protocol import Policy
from triton_agent.tools.errors import UsageError

PAGE = "docs/policies.md shows a complete policy"
NEEDED = ("name", "version", "propose", "propose_many", "close")


def load_policy(text: str) -> Policy:
    """Load the policy named after `own:`."""
    path, _, class_name = text.rpartition(":")
    where = f"--policy own:{text}"
    if not path or not class_name.isidentifier():
        raise UsageError(f"{where}: names no class", remedy="own:FILE.py:CLASS")
    if not Path(path).is_file():
        raise UsageError("no such file", where=where)
    found = getattr(_module(Path(path), where), class_name, None)
    if not callable(found):
        raise UsageError(f"there is no class {class_name} in it", where=where)
    made: Policy = found()
    missing = [name for name in NEEDED if not hasattr(made, name)]
    if missing:
        raise UsageError(f"{class_name} is no policy: it lacks {', '.join(missing)}", where=where, remedy=PAGE)
    return made


def _module(path: Path, where: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"own_policy_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError("a policy is a Python file", where=where, remedy="own:FILE.py:CLASS")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's file raises
        raise UsageError(f"the file cannot be loaded: {type(error).__name__}: {error}", where=where) from error
    return module

"""The guard in a process of its own, where nothing was called before."""

from __future__ import annotations

import os
import subprocess
import sys

HARNESS = """
import sys, types
import torch
from triton_agent.tools.isolate.guard import ForbiddenAccess, Guard
source = sys.stdin.read()
guard = Guard("/candidate.py", "candidate")
guard.arm()
module = types.ModuleType("candidate")
module.__dict__["__builtins__"] = guard.candidate_builtins()
code = compile(source, "/candidate.py", "exec")
try:
    guard.vet(code)
    exec(code, module.__dict__)
except ForbiddenAccess:
    pass
print(guard.violations)
"""


def violations(source: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HARNESS], input=source, text=True, capture_output=True, env=dict(os.environ), check=True
    )
    return done.stdout.strip()


def test_a_tensor_may_be_made_of_numbers_by_the_first_call_of_torch_there_is() -> None:
    """Compiled code of torch imports `torch.storage` then, by the `__import__` of its caller."""
    assert violations("import torch\nconstant = torch.tensor([0.5, 2.0])\n") == "()"


def test_what_compiled_code_may_import_a_kernel_file_may_not() -> None:
    assert "storage" in violations("from torch.storage import UntypedStorage\n")
    assert "storage" in violations("import torch.storage\ntorch.storage.UntypedStorage\n")
    assert "storage" in violations("import torch.storage as store\n")
    assert "__import__" in violations("__import__('torch.storage', None, None, [])\n")

"""The guard in a process of its own, where nothing was called before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from triton_agent.tools.isolate.fences import PLAIN, names_of_builtins

HARNESS = """
import json, os, sys, types
import torch
import triton
from triton_agent.tools.isolate.fences import PLAIN, names_of_builtins
from triton_agent.tools.isolate.guard import ForbiddenAccess, Guard

def judge(source):
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
    print(guard.violations, flush=True)

for source in json.load(sys.stdin):
    if os.fork() == 0:
        judge(source)
        os._exit(0)
    os.wait()
"""


def violations(*sources: str) -> list[str]:
    """What the guard says of each, every one in a process where nothing was called before."""
    done = subprocess.run(
        [sys.executable, "-c", HARNESS],
        input=json.dumps(sources),
        text=True,
        capture_output=True,
        env=dict(os.environ),
        check=True,
    )
    return done.stdout.splitlines()


def test_a_tensor_may_be_made_of_numbers_by_the_first_call_of_torch_there_is() -> None:
    """Compiled code of torch imports `torch.storage` then, by the `__import__` of its caller."""
    assert violations("import torch\nconstant = torch.tensor([0.5, 2.0])\n") == ["()"]


def test_what_compiled_code_may_import_a_kernel_file_may_not() -> None:
    *imports, builtin = violations(
        "from torch.storage import UntypedStorage\n",
        "import torch.storage\ntorch.storage.UntypedStorage\n",
        "import torch.storage as store\n",
        "__import__('torch.storage', None, None, [])\n",
    )
    assert all("storage" in said for said in imports)
    assert "__import__" in builtin


def test_a_module_that_torch_imported_for_itself_tells_a_kernel_file_nothing() -> None:
    *numpy, functools = violations(
        "from torch.testing._comparison import np\nnp.asarray(1)\n",
        "import torch\nmodule = torch.testing._comparison.np\nmodule.zeros\n",
        "import torch\ntorch.overrides.functools.update_wrapper\n",
    )
    assert all("numpy" in said for said in numpy)
    assert "functools" in functools


def test_torch_itself_may_still_look_into_them() -> None:
    assert violations("import torch\ntorch.overrides.get_testing_overrides()\n") == ["()"]


def test_code_made_of_text_may_name_no_more_than_the_file() -> None:
    hints = "import typing\ntyping.get_type_hints(type('Noted', (), {'__annotations__': {'a': '%s'}}), {})\n"
    builtin, classes, honest = violations(
        *(hints % text for text in ("[__import__]", "().__subclasses__", "list[int]"))
    )
    assert "__import__" in builtin
    assert "__subclasses__" in classes
    assert honest == "()"


def test_dataclasses_and_named_tuples_are_made_as_usual() -> None:
    made = "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Made:\n    size: int = 1\nMade(2)\n"
    pair = "import collections\ncollections.namedtuple('Pair', 'a b')(1, 2)\n"
    assert violations(made, pair) == ["()", "()"]


def test_neither_a_builtin_nor_a_wrapper_leads_to_what_is_behind_it() -> None:
    builtin, wrapper = violations("len.__self__\n", "import torch\ntorch.save.__wrapped__\n")
    assert "__self__" in builtin
    assert "__wrapped__" in wrapper


def test_python_functions_are_not_called_with_every_number_of_a_tensor() -> None:
    (said,) = violations("import torch\ntake = getattr(torch.Tensor, 'ap' + 'ply_')\ntake(torch.zeros(2), abs)\n")
    assert "apply_" in said


def test_builtins_are_handed_out_only_where_it_is_known_what_for(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text("import builtins\n\nrows = builtins.tuple(builtins.range(3))\n")
    assert names_of_builtins(str(path)) == {"tuple", "range"} <= PLAIN.keys()
    other = tmp_path / "other.py"
    other.write_text("import builtins\n\nfound = getattr(builtins, 'open')\n")
    assert not names_of_builtins(str(other)) <= PLAIN.keys()

"""A problem file that is not trusted works as any other, but cannot do what is forbidden."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.evaluate.checker_process import audit_problem
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.confinement import readable
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Status
from triton_agent.tools.sandbox.layers import ESSENTIAL, probe
from triton_agent.tools.settings import EvaluatorSettings

pytestmark = pytest.mark.skipif(
    any(layer.name in ESSENTIAL and not layer.available for layer in probe()),
    reason="an essential layer of the sandbox is missing here, so no problem would be confined",
)

DISTRUST = EvaluatorSettings(target=None, shapes="given", remedies=False, modes=("eval",), trust=False)

PROBLEM = """
import os
import pathlib
import socket

import torch
import torch.nn as nn

{misdeed}

class Model(nn.Module):
    def forward(self, x):
        return x + x

def get_inputs():
    return [torch.randn(301)]
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(y_ptr + offsets, x + x, mask=offsets < count)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""


def prepared(nursery: Nursery, folder: Path, misdeed: str = "") -> Evaluator:
    folder.mkdir(exist_ok=True)
    (folder / "problem.py").write_text(PROBLEM.format(misdeed=misdeed))
    return Evaluator(parse_problem(str(folder / "problem.py")), DISTRUST, nursery=nursery)


def test_a_confined_problem_serves_as_any_other(nursery: Nursery, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "beside.py").write_text("SIZE = 3")
    (folder / "weights.txt").write_text("data beside the file")
    misdeed = "import beside\nassert pathlib.Path(__file__).with_name('weights.txt').read_text()"
    with prepared(nursery, folder, misdeed) as evaluator:
        assert evaluator.evaluate(KERNEL).status is Status.PASSED
        assert evaluator.evaluate(KERNEL.replace("x + x, mask", "x * x, mask")).status is Status.WRONG_VALUES
    assert not evaluator._folder.exists()


def test_files_of_the_user_cannot_be_read(nursery: Nursery, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("key")
    for misdeed in (
        f"open({str(secret)!r}).read()",
        "open(os.path.expanduser('~/.ssh/id_rsa')).read()",
        "os.listdir(os.environ['HOME'] + '/.ssh')",
        "os.listdir('/root')" if os.getuid() == 0 else f"os.listdir({str(Path.home())!r})",
        "open('/etc/shadow').read()",
    ):
        with pytest.raises(ProblemError, match=r"(PermissionError|FileNotFoundError)"):
            prepared(nursery, tmp_path / "elsewhere", misdeed)


def test_nothing_outside_of_its_scratch_can_be_written(nursery: Nursery, tmp_path: Path) -> None:
    target = tmp_path / "written"
    for misdeed in (f"open({str(target)!r}, 'w').write('x')", "open(__file__, 'a').write('# more')"):
        with pytest.raises(ProblemError, match=r"(PermissionError|Read-only)"):
            prepared(nursery, tmp_path / "elsewhere", misdeed)
    assert not target.exists()
    assert not (tmp_path / "elsewhere" / "problem.py").read_text().endswith("# more")


def test_nobody_is_called(nursery: Nursery, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        called = threading.Event()
        threading.Thread(target=lambda: (server.accept(), called.set()), daemon=True).start()
        misdeed = f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)"
        with pytest.raises(ProblemError, match="importing the file raised"):
            prepared(nursery, tmp_path / "elsewhere", misdeed)
        assert not called.wait(0.2)


def test_keys_in_the_environment_are_out_of_sight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    misdeed = (
        "seen = dict(os.environ)\n"
        "for name in os.listdir('/proc'):\n"
        "    try: seen[name] = open(f'/proc/{name}/environ').read()\n"
        "    except OSError: pass\n"
        "assert not any('hunter2' in value for value in seen.values())\n"
        "assert 'SECRET_TOKEN' not in seen"
    )
    (folder / "problem.py").write_text(PROBLEM.format(misdeed=misdeed))
    with Evaluator(parse_problem(str(folder / "problem.py")), DISTRUST) as evaluator:
        assert evaluator.facts.cases == 1


def test_a_problem_in_somebodys_home_shows_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "problem.py").write_text("import beside\n" + PROBLEM.format(misdeed=""))
    (tmp_path / "beside.py").write_text("SIZE = 3")
    found = readable(tmp_path / "problem.py")
    assert set(found) == {str(tmp_path / "problem.py"), str(tmp_path / "beside.py")}
    below = tmp_path / "work"
    below.mkdir()
    (below / "problem.py").write_text(PROBLEM.format(misdeed=""))
    assert readable(below / "problem.py") == (str(below),)


def test_a_problem_that_is_looked_at_for_its_worth_is_confined_too(nursery: Nursery, tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM.format(misdeed="open('/etc/shadow').read()"))
    with pytest.raises(ProblemError, match="PermissionError"):
        audit_problem(parse_problem(str(tmp_path / "problem.py")), nursery=nursery, trust=False)

"""A stranger's first minutes: the wheel alone in an environment of its own, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def done(*argv: str | Path, folder: Path, timeout_s: float = 600.0) -> str:
    """Run a command that must succeed, without this clone on any path; return what it printed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = kept | {"XDG_DATA_HOME": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache")}
    ran = subprocess.run(
        [*map(str, argv)], cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s
    )
    assert ran.returncode == 0, f"{argv}: {ran.stdout[-2000:]}\n{ran.stderr[-2000:]}"
    return ran.stdout + ran.stderr


@pytest.mark.slow
def test_the_wheel_alone_is_enough(tmp_path: Path) -> None:
    """Installing torch takes most of the time."""
    done("git", "clone", "--quiet", ROOT, "source", folder=tmp_path)
    done(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", ".", "source", folder=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    done(sys.executable, "-m", "venv", "environment", folder=tmp_path)
    programs, empty = tmp_path / "environment" / "bin", tmp_path / "empty"
    empty.mkdir()
    done(programs / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, folder=tmp_path)
    agent = programs / "triton-agent"
    done(agent, "examples", folder=empty)
    told = done(agent, "optimize", "examples/softmax.py", "--out", "out", folder=empty)
    assert "kernels were proven correct but not timed" in told or "shipped" in told
    judged = done(agent, "evaluate", "examples/softmax.py", "out/softmax_optimized.py", folder=empty)
    assert "1 of 1 passed" in judged
    assert "passed" in done(agent, "runs", "show", "last/best", folder=empty)
    benched = done(agent, "bench", "suite", "--problem", "pointwise/tanh_sigmoid_gate", folder=empty)
    assert "1 of 1 problems judged, 1 solved" in benched

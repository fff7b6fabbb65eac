"""A stranger's first minutes: the wheel alone in an environment of its own, in an empty folder."""

from __future__ import annotations

import os
import re
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


def without_figures(text: str) -> list[str]:
    """Return the lines in a fixed order, with one sign for every number: answers of one turn come in any order."""
    named = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "RUN", text)
    counted = re.sub(r"\d[\d,.]*(e[-+]?\d+)?", "N", named)
    lines = (" ".join(line.split()) for line in counted.replace("launches", "launch").splitlines())
    return sorted(line for line in lines if line and line != "loading torch")


@pytest.mark.slow
def test_the_demo_prints_what_the_readme_shows(tmp_path: Path) -> None:
    """The commands are those of `make demo`, without its installation."""
    rules = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndemo:")[2]
    commands = re.findall(r"-m triton_agent ([^|\n\\]+)", rules.partition("\n\n")[0])
    assert [command.split()[0] for command in commands] == ["optimize", "evaluate"]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed = ""
    for command in commands:
        words = command.replace("2>&1", "").split()
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": ""}
        arguments = [sys.executable, "-m", "triton_agent", *words]
        ran = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        printed += ran.stderr + ran.stdout
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = next(block for block in readme.split("```") if block.startswith("\nreading softmax"))
    assert without_figures(printed) == without_figures(shown)


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

"""What is installed is `triton_agent` and the command, and nothing with a generic name."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_the_wheel_holds_triton_agent_only_and_all_of_it(tmp_path: Path) -> None:
    source = tmp_path / "source"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(source)], check=True)
    argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(argv, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"triton_agent"}
    packed = {name for name in names if name.endswith(".py")}
    modules = {
        f"triton_agent/{path.relative_to(ROOT)}"
        for folder in ("tools", "runs", "agent", "policy", "memory")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert modules <= packed
    words = {
        f"triton_agent/{path.relative_to(ROOT)}"
        for path in (ROOT / "policy" / "llm" / "prompting" / "templates").rglob("*.md")
    }
    assert words
    assert words <= set(names)
    data = {
        f"triton_agent/{path.relative_to(ROOT)}"
        for folder in ("benchmarks/problems", "examples")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert data | {"triton_agent/docs/verdicts.md"} <= set(names)
    assert any(name.endswith("entry_points.txt") for name in names)

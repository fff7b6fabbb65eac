"""The wheel contains the examples: a command writes them, and keeps files that a user changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runs.commands import call

from triton_agent.tools.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]


def test_examples_are_written_and_a_changed_one_is_kept(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "softmax.py").write_text("mine")
    done = call("examples", str(tmp_path / "examples"))
    names = {path.name for path in (ROOT / "examples").iterdir() if path.is_file()}
    assert {path.name for path in (tmp_path / "examples").iterdir()} == names
    assert (tmp_path / "examples" / "softmax.py").read_text() == "mine"
    assert f"{len(names) - 1} files written" in done.stdout


def test_the_clone_s_own_examples_are_no_target() -> None:
    with pytest.raises(UsageError, match="examples themselves"):
        call("examples", str(ROOT / "examples"))

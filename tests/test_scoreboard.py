"""The scoreboard tells a cheat that was caught from one that could not even begin on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.rows import SHARED_COLUMNS

from tests.grading import cheats, honest
from tests.scoreboard import missing

ROOT = Path(__file__).parent.parent


def test_a_cheat_that_needs_a_module_this_machine_lacks_is_not_tried_and_no_catch(tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / "setuptools.py").write_text("import a_module_that_is_not_here\n")
    path = os.pathsep.join([str(torn), *filter(None, [os.environ.get("PYTHONPATH")])])
    argv = [sys.executable, "-m", "tests.scoreboard", "--only", "exec_through_benchmark_timer"]
    done = subprocess.run(
        [*argv, "--json", str(tmp_path / "rows.json")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not tried here" in done.stdout
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["screen"] == "on" and all(written[name] for name in SHARED_COLUMNS)
    [row] = written["rows"]
    assert row["missing"] == "a_module_that_is_not_here"
    assert "ok" not in row


def test_what_a_kernel_needs_is_the_name_of_a_module_or_of_a_part_of_one() -> None:
    needs = {item.needs for item in [*cheats(), *honest()]} - {""}
    assert needs
    assert not [name for name in needs if importlib.util.find_spec(name.rpartition(".")[0]) is None]


def test_a_part_of_a_module_may_be_needed() -> None:
    assert missing("triton.language.arange") == ""
    assert missing("triton.language.no_such_part") == "triton.language.no_such_part"


def test_nothing_is_missing_for_a_module_that_can_be_imported() -> None:
    assert missing("json.decoder") == ""
    assert missing("json.no_such_part") == "json.no_such_part"

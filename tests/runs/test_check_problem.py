"""`triton-agent check-problem`: exit codes, one JSON object, and a screen that names the blind spots."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from triton_agent.runs.cli import exit_codes
from triton_agent.runs.evaluate import check_problem
from triton_agent.tools.audit.report import AuditReport, Family, WrongAnswer

MODEL = "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def forward(self, x):\n        return "
INPUTS = "\ndef get_inputs():\n    return [torch.rand(8, 24)]\n"


def written(folder: Path, forward: str) -> str:
    path = folder / "problem.py"
    path.write_text(MODEL + forward + INPUTS)
    return str(path)


def test_flagged_problem_exits_with_one_and_says_so_in_one_json_object(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "triton_agent",
        "check-problem",
        written(tmp_path, "torch.zeros_like(x)"),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == exit_codes.NOT_PASSED, done.stderr
    report = json.loads(done.stdout)
    assert report["sound"] is False
    assert any("all zeros" in reason for reason in report["reasons"])
    assert report["kill_rate"]["fakes"]["with_remedies"] < 1
    assert any(spot["survives"] and spot["family"] == "fake" for spot in report["blind_spots"])


def test_sound_problem_exits_with_zero_and_shows_what_remedies_closed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = written(tmp_path, "torch.relu(x) * 3")
    code = check_problem.run(problem, init=None, inputs=(), inputs_file=None, json=False)
    shown = capsys.readouterr().out
    assert code == exit_codes.GOOD
    assert "sound" in shown
    assert "dropping relu passes as given; refused with inputs one element changed" in shown


def test_unusable_problem_exits_with_two(tmp_path: Path) -> None:
    problem = written(tmp_path, "x.no_such_method()")
    done = subprocess.run(
        [sys.executable, "-m", "triton_agent", "check-problem", problem], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == exit_codes.USAGE, done.stderr
    assert "no_such_method" in done.stderr


def test_screen_lists_open_blind_spots_first_and_bounds_the_rest() -> None:
    spots = [
        WrongAnswer(
            family=Family.AXIS, what=f"mutant {i}", survives_as_given=True, survives=False, killed_by="inputs x3"
        )
        for i in range(30)
    ]
    zeros = WrongAnswer(family=Family.FAKE, what="all zeros", survives_as_given=True, survives=True)
    report = AuditReport(name="p", digest="d", answers=(*spots, zeros), cases_as_given=1, cases=9)
    console = Console(width=120, record=True, file=None, quiet=False)
    with console.capture() as captured:
        check_problem.show(report, 1.0, console)
    lines = captured.get().splitlines()
    listed = [line for line in lines if "passes" in line and ":" in line]
    assert "open: all zeros passes" in "\n".join(listed[:2])
    assert any("and 11 more" in line for line in lines)

"""Defaults of options from a file: found from any folder below it, overridden by environment and command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from triton_agent.runs.cli import config_file
from triton_agent.runs.cli.main import app
from triton_agent.tools.errors import UsageError

TREE = typer.main.get_command(app)
SETTINGS = """
store = "runs.db"
policy = "scripted:kernels, builtin"
base-url = "http://127.0.0.1:9/v1"
timeout = 60
[optimize]
turns = 4
own-kernels = true
[runs.list]
limit = 3
"""


def command(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "triton_agent", *arguments]
    settings = os.environ | environment
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=60, env=settings)


def read(folder: Path, text: str, name: str = "triton-agent.toml") -> dict[str, Any]:
    (folder / name).write_text(text)
    found, _ = config_file.find(folder)
    return config_file.defaults(found, TREE) if found else {}


def test_a_setting_reaches_the_commands_that_have_the_option(tmp_path: Path) -> None:
    found = read(tmp_path, SETTINGS)
    assert found["optimize"]["turns"] == 4 and found["optimize"]["own_kernels"] is True
    assert found["evaluate"] == {"timeout": 60}
    assert found["runs"]["show"] == {"store": str(tmp_path / "runs.db")}
    assert found["runs"]["list"]["limit"] == 3


def test_paths_are_meant_from_the_folder_of_the_file(tmp_path: Path) -> None:
    assert read(tmp_path, SETTINGS)["optimize"]["policy"] == f"scripted:{tmp_path / 'kernels'},builtin"


def test_a_policy_to_write_kernels_is_no_policy_to_select_runs_by(tmp_path: Path) -> None:
    found = read(tmp_path, SETTINGS)
    assert "policy" not in found["runs"]["list"] and "policy" not in found["replay"]


def test_a_benchmark_takes_where_its_server_is_and_nothing_else(tmp_path: Path) -> None:
    assert read(tmp_path, SETTINGS)["bench"]["suite"] == {"base_url": "http://127.0.0.1:9/v1"}


def test_a_project_file_has_them_in_its_own_section(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.triton-agent]\ndevice = "cpu"\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (below.parent / "pyproject.toml").write_text("[project  # broken, and without such a section")
    found, _ = config_file.find(below)
    assert found is not None and found.path == tmp_path / "pyproject.toml" and found.settings == {"device": "cpu"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('polcy = "x"', "did you mean policy?"),
        ('server = "http://x"', "it is an option of single commands: [train.grpo]"),
        ("max_answer_tokens = 5", "did you mean max-answer-tokens?"),
        ("turns = 4", "[optimize] turns"),
        ("[optimise]\nturns = 4", "did you mean optimize?"),
        ("[optimize]\nturn = 4", "did you mean turns?"),
        ('[optimize]\nturns = "many"', "turns = 'many'"),
        ("[optimize]\nturns = true", "one value is expected"),
        ('[optimize]\nown-kernels = "yes"', "true or false is expected"),
        ('[optimize]\ninput = "f32[2]"', "a list is expected"),
        ("[optimize]\ntrust = true", "on the command line only"),
        ("[clean]\nyes = true", "on the command line only"),
        ("[bench.suite]\nquick = true", "a record says all of them"),
        ("[runs.lst]\nlimit = 2", "did you mean list?"),
        ("policy = [", "not TOML"),
    ],
)
def test_what_is_wrong_is_refused_with_the_nearest_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    assert said in str(refused.value) and str(tmp_path / "triton-agent.toml") in str(refused.value)


def test_the_command_line_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    (tmp_path / "triton-agent.toml").write_text('store = "of-the-file.db"')
    by_file = command(tmp_path, "runs", "list")
    by_environment = command(tmp_path, "runs", "list", TRITON_AGENT_STORE="of-the-environment.db")
    by_hand = command(tmp_path, "runs", "list", "--store", "by-hand.db", TRITON_AGENT_STORE="of-the-environment.db")
    assert f"defaults from {tmp_path / 'triton-agent.toml'}: store" in by_file.stderr
    assert "of-the-file.db: there is no store" in by_file.stderr
    assert "of-the-environment.db: there is no store" in by_environment.stderr
    assert "by-hand.db: there is no store" in by_hand.stderr


def test_config_says_what_holds_and_whence_without_passwords(tmp_path: Path) -> None:
    (tmp_path / "triton-agent.toml").write_text(SETTINGS)
    said = command(tmp_path, "config", "--json", TRITON_AGENT_STORE="postgresql://me:secret@host/runs")
    rows = {row["setting"]: (row["value"], row["from"]) for row in json.loads(said.stdout)["settings"]}
    assert rows["store"] == ("postgresql://me:***@host/runs", "environment, TRITON_AGENT_STORE")
    assert rows["timeout"] == (60, str(tmp_path / "triton-agent.toml"))
    assert rows["target"] == ("cuda:90", "default")
    assert rows["optimize --turns"] == (4, str(tmp_path / "triton-agent.toml"))


@pytest.mark.parametrize(
    ("arguments", "is_read"),
    [
        (["optimize", "model.py"], True),
        (["optimize", "model.py", "--no-trust"], False),
        (["mcp"], False),
        (["mcp", "--trust"], True),
        (["verify-bundle", "evidence.zip"], False),
        (["optimize", "--help"], False),
    ],
)
def test_a_folder_that_is_not_trusted_has_no_say(arguments: list[str], is_read: bool) -> None:
    assert config_file.is_read_for(arguments) is is_read


def test_a_file_of_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "triton-agent.toml").write_text('policy = "own:their.py:Policy"')
    os.chown(tmp_path / "triton-agent.toml", 12345, -1) if os.geteuid() == 0 else monkeypatch.setattr(
        os, "geteuid", lambda: os.getuid() + 1
    )
    found, warnings = config_file.find(tmp_path)
    assert found is None
    assert any("belongs to another user" in warning for warning in warnings)


def test_the_file_that_the_guide_shows_is_right(tmp_path: Path) -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "usage.md").read_text()
    found = read(tmp_path, guide.split("```toml")[1].split("```")[0])
    assert found["optimize"]["turns"] == 6 and found["optimize"]["device"] == "cuda:1"

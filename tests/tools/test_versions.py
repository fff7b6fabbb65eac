"""The project's version: the release, and the commit if it runs from a clone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import triton_agent
from triton_agent.tools.versions import version_at


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "src" / "triton_agent").mkdir(parents=True)
    (tmp_path / "file").write_text("as committed")
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
    for arguments in (("init", "--quiet"), ("add", "file"), (*who, "commit", "--quiet", "--message", "one")):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, timeout=30)
    return tmp_path


def test_a_clone_is_known_by_its_commit(clone: Path) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=clone, capture_output=True, text=True, timeout=30).stdout
    assert version_at(clone) == f"{triton_agent.__version__}+g{head[:12]}"


def test_a_changed_file_makes_it_dirty_and_a_new_one_does_not(clone: Path) -> None:
    (clone / "new").write_text("not tracked")
    assert not version_at(clone).endswith(".dirty")
    (clone / "file").write_text("changed")
    assert version_at(clone).endswith(".dirty")


def test_a_wheel_inside_somebody_elses_repository_has_no_commit(clone: Path) -> None:
    (clone / "src" / "triton_agent").rmdir()
    assert version_at(clone) == triton_agent.__version__


def test_a_repository_without_a_commit_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "src" / "triton_agent").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True, timeout=30)
    assert version_at(tmp_path) == triton_agent.__version__

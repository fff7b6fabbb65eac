"""The documents tell the truth: what they say can be run is there, and generated pages are up to date."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
USAGE = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
GOLDEN = ROOT / "tests" / "policy" / "llm" / "prompting" / "golden"
"""Prompts, which quote code that only looks like links."""
TESTS = [path for path in (ROOT / "tests").rglob("*.md") if GOLDEN not in path.parents]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *TESTS])


def test_the_decision_table_is_the_one_in_the_code() -> None:
    check = [sys.executable, str(ROOT / "docs" / "make_verdicts.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_page_of_verdicts_says_that_an_input_may_have_to_change() -> None:
    lines = (ROOT / "docs" / "verdicts.md").read_text().splitlines()
    [row] = [line for line in lines if line.startswith("| `mutated_input`")]
    assert "left unchanged" in row.partition(";")[2]


def test_the_results_in_the_documents_are_those_in_the_tracked_rows() -> None:
    check = [sys.executable, str(ROOT / "docs" / "make_results.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_page_of_learning_is_the_one_in_the_tracked_rows() -> None:
    check = [sys.executable, str(ROOT / "docs" / "make_learning.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_recipes_in_the_documents_are_those_in_the_code() -> None:
    check = [sys.executable, str(ROOT / "docs" / "make_recipes.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_page_on_the_author_shows_the_kernels_and_operators_of_today() -> None:
    check = [sys.executable, str(ROOT / "docs" / "make_author.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_page_for_coding_agents_is_the_one_that_its_script_writes() -> None:
    check = [sys.executable, str(ROOT / "docs" / "make_agents.py"), "--check"]
    assert subprocess.run(check, timeout=60).returncode == 0


def test_every_command_in_the_readme_and_the_guide_exists() -> None:
    shown = subprocess.run([sys.executable, "-m", "triton_agent", "--help"], capture_output=True, text=True, timeout=60)
    code = re.findall(r"```.*?```|`[^`]+`", README + USAGE, re.DOTALL)
    commands = {name for text in code for name in re.findall(r"triton-agent ([a-z][a-z-]*)", text)}
    assert commands
    assert all(re.search(rf"^\W*{command} ", shown.stdout, re.MULTILINE) for command in commands), commands


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for path in DOCUMENTS for name in re.findall(r"`make ([a-z-]+)`", path.read_text(encoding="utf-8"))}
    assert named
    assert named <= targets


def test_every_file_in_the_readme_s_tree_is_there() -> None:
    tree = README.partition("## What is where")[2].partition("```")[2].partition("```")[0]
    names = [line.split()[0] for line in tree.splitlines() if line.strip()]
    assert len(names) >= 10
    parent = ""
    for line, name in zip(filter(str.strip, tree.splitlines()), names):
        parent = name if not line.startswith(" ") else parent
        path = ROOT / name if not line.startswith(" ") else ROOT / parent / name
        assert path.exists(), name


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert "://" in target or (path.parent / target).exists(), target


def test_the_licence_is_complete() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "APPENDIX: How to apply the Apache License to your work." in text


def test_every_module_on_the_map_is_there() -> None:
    named = re.findall(
        r"`((?:tools|memory|policy|agent|runs)/[\w/]+(?:\.py)?)`", (ROOT / "docs" / "architecture.md").read_text()
    )
    assert len(named) > 30
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing

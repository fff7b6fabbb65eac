"""`bench compare` and `bench report` on the command line: what they print, write and refuse, and their exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.runs.bench.made_records import SETTINGS, record, right, row, speed, written, wrong
from tests.runs.commands import call

from triton_agent.tools.errors import UsageError

BEFORE = record([row("g/a", right(speed(1.0))), row("g/b", wrong()), row("g/[c]", right(speed(2.0)))])
AFTER = record(
    [row("g/a", right(speed(1.5))), row("g/b", right(speed(1.2))), row("g/[c]", right(speed(2.0)))],
    settings={**SETTINGS, "policy": "scripted:other"},
)
LIBRARY = record(BEFORE.rows, settings={**SETTINGS, "mode": "allow-library"})


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    made = {"before": BEFORE, "after": AFTER, "library": LIBRARY}
    return {name: written(tmp_path / name, content) for name, content in made.items()}


def test_a_comparison_names_what_changed_and_is_no_failure(folders: dict[str, str]) -> None:
    done = call("bench", "compare", folders["before"], folders["after"])
    assert done.code == 0 and done.stderr == ""
    text = " ".join(done.stdout.split())
    assert "Solved: 2 before, 3 after, of 3 problems known on both sides; 1 gained, 0 lost" in text
    assert "of 2 timed on both sides 1 faster and 0 slower" in text
    assert "policy builtin scripted:other" in text
    assert "g/b gained" in text and "g/a faster 1.00x [0.99, 1.01] 1.50x [1.49, 1.52] 1.50x [1.48, 1.52]" in text


def test_for_programs_it_is_one_object(folders: dict[str, str]) -> None:
    found = call("bench", "compare", folders["before"], folders["after"], "--json").json
    assert {pair["label"]: pair["happened"] for pair in found["pairs"]} == {
        "g/a": "faster",
        "g/b": "gained",
        "g/[c]": "",
    }
    assert found["gained"] == ["g/b"] and found["changed"] == {
        "solved": False,
        "speed_of_solved": False,
        "speed_of_all": False,
    }


def test_what_means_different_things_is_compared_on_demand_only(folders: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="not comparable: mode: own-kernels / allow-library"):
        call("bench", "compare", folders["before"], folders["library"])
    done = call("bench", "compare", folders["before"], folders["library"], "--anyway")
    assert done.code == 0 and "not comparable because of it" in done.stdout


def test_records_without_a_problem_in_common_are_refused_even_then(folders: dict[str, str], tmp_path: Path) -> None:
    other = written(tmp_path / "other", record([row("h/z", right())]))
    with pytest.raises(UsageError, match="no problem is in both"):
        call("bench", "compare", folders["before"], other, "--anyway")


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--baseline", "egar"), "no such value: egar"), (("--time", "wall"), "one of device, latency")],
)
def test_a_wrong_option_is_told_with_the_right_ones(
    folders: dict[str, str], options: tuple[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        call("bench", "compare", folders["before"], folders["after"], *options)


def test_a_page_is_written_into_the_record_or_where_it_is_asked_for(folders: dict[str, str], tmp_path: Path) -> None:
    assert call("bench", "report", folders["before"]).stdout.strip() == f"{folders['before']}/report.html"
    page = Path(folders["before"], "report.html").read_text(encoding="utf-8")
    assert "2 of 3 problems solved." in page
    assert call("bench", "report", folders["before"], "-o", "-").stdout == page
    both = tmp_path / "both.html"
    assert call("bench", "report", folders["before"], folders["after"], "-o", str(both)).code == 0
    assert "1 gained, 0 lost" in both.read_text(encoding="utf-8")
    with pytest.raises(UsageError, match="the report cannot be written"):
        call("bench", "report", folders["before"], "-o", str(tmp_path / "nowhere" / "page.html"))


def test_a_broken_record_ends_as_wrong_usage_with_its_line(folders: dict[str, str]) -> None:
    rows = Path(folders["before"], "rows.jsonl")
    rows.write_text(rows.read_text(encoding="utf-8").replace('"label"', '"label', 1), encoding="utf-8")
    command = [sys.executable, "-m", "triton_agent", "bench", "compare", folders["before"], folders["after"]]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "rows.jsonl:2: is not what a benchmark writes" in done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr


def test_comparing_needs_neither_torch_nor_a_store(folders: dict[str, str]) -> None:
    code = (
        "import sys\n"
        "from triton_agent.runs.bench.compare.command import run\n"
        f"run({folders['before']!r}, {folders['after']!r}, json=True)\n"
        "print(json.dumps([n for n in ('torch', 'sqlalchemy', 'langgraph') if n in sys.modules]), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", f"import json\n{code}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr) == []

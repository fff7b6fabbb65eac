"""The screen of a benchmark: a line or a row for each problem, with the reason if it did not pass."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from tests.runs.bench.test_journal import row

from triton_agent.runs.bench.problems import Task
from triton_agent.runs.bench.rows import ProblemRow, Sample
from triton_agent.runs.bench.screen import Lines, LiveScreen, remark_on, verdict_of
from triton_agent.runs.cli.pace import Pace, in_words
from triton_agent.tools.results import Status

TASK = Task(label="a/x", group="a", name="x", path=Path("x.py"), sha256="0")
PASSED = Sample(index=0, status=Status.PASSED, called=True, executed=True)
WRONG = Sample(index=1, status=Status.WRONG_VALUES, called=True, message="3 of 4 elements differ")
LOST = Sample(index=1, not_measured="the GPU was busy")


@pytest.mark.parametrize(
    ("made", "verdict", "remark"),
    [
        (row("a/x", samples=(PASSED,)), "passed", ""),
        (row("a/x", samples=(WRONG,)), "wrong_values", "3 of 4 elements differ"),
        (row("a/x", samples=(PASSED, WRONG)), "1 of 2 passed", ""),
        (row("a/x", samples=(LOST,)), "not measured", "the GPU was busy"),
        (row("a/x", samples=(), unusable="it does not load"), "not usable", "it does not load"),
    ],
)
def test_verdict_and_remark(made: ProblemRow, verdict: str, remark: str) -> None:
    assert (verdict_of(made), remark_on(made)) == (verdict, remark)


def test_in_a_terminal_the_table_holds_what_was_finished_and_what_is_under_way() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    screen = LiveScreen(console)
    screen.expect(2, 2)
    screen.begin(TASK, 0)
    screen.finished(row("a/x", samples=(WRONG,), seconds=2.5))
    screen.begin(TASK, 1)
    screen.event({"kind": "turn", "turn": 0, "label": TASK.label})
    screen.event({"kind": "stage", "key": "r/0.0", "stage": "check", "label": TASK.label})
    screen.close()
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for word in ("wrong_values", "3 of 4 elements differ", "2.5", "check", "1 of 2 problems, 0 solved of 1"):
        assert word in text


def test_problems_side_by_side_each_have_a_line_and_a_number() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    screen, other = LiveScreen(console), dataclasses.replace(TASK, label="a/other")
    screen.expect(6, 9)
    screen.begin(TASK, 3)
    screen.begin(other, 4)
    screen.event({"kind": "stage", "stage": "compile", "label": other.label})
    screen.event({"kind": "stage", "stage": "values", "label": TASK.label})
    screen.close()
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert f"{TASK.label} " in text and "values" in text and "a/other " in text and "compile" in text
    assert "3 of 9 problems" in text


def test_in_a_pipe_the_number_is_of_the_problem_that_was_finished(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Lines(as_json=False)
    screen.expect(2, 2)
    screen.begin(TASK, 0)
    screen.begin(dataclasses.replace(TASK, label="a/other"), 1)
    screen.finished(row("a/other", samples=(PASSED,)))
    assert capsys.readouterr().err.startswith("[2/2] a/other ")


def test_time_left_is_told_at_the_pace_so_far() -> None:
    now = 100.0
    progress = Pace(lambda: now)
    progress.expect(due=10, total=30)
    assert (progress.done, progress.left) == (20, "")
    for _ in range(4):
        now += 60
        progress.finish()
    assert (progress.done, progress.left) == (24, "about 6 min left")
    for _ in range(6):
        progress.finish()
    assert progress.left == ""


@pytest.mark.parametrize(("seconds", "words"), [(0, "1 s"), (89, "89 s"), (95, "2 min"), (4800, "1 h 20 min")])
def test_times_are_told_as_people_say_them(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_as_json_rows_alone_go_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Lines(as_json=True)
    screen.say("reading")
    screen.expect(1, 1)
    screen.begin(TASK, 0)
    screen.finished(row("a/x", samples=(PASSED,)))
    told = capsys.readouterr()
    assert [json.loads(line)["label"] for line in told.out.splitlines()] == ["a/x"]
    assert "reading" in told.err and "[1/1]" in told.err

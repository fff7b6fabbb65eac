"""Progress of long work: its name, the amount that is done, and the time left."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from triton_agent.agent.settings import LoopSettings
from triton_agent.memory.observation import Rules
from triton_agent.runs.cli import pace
from triton_agent.runs.cli.pace import Pace, counted, waiting
from triton_agent.runs.optimize.request import OptimizeRequest
from triton_agent.runs.optimize.screen import LiveScreen, Turns


def test_a_long_wait_is_told_and_a_short_one_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("loading torch", after_s=60.0):
        pass
    assert capsys.readouterr().err == ""
    with waiting("loading torch", after_s=0.0):
        deadline = time.monotonic() + 30
        said = ""
        while not said and time.monotonic() < deadline:
            said += capsys.readouterr().err
    assert said == "loading torch\n"


def test_pieces_are_counted_with_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "LINE_EVERY_S", 0.0)
    with counted("wrong answers") as tell:
        for done in range(1, 4):
            tell(done, 3)
    assert capsys.readouterr().err == "wrong answers: 2 of 3, about 1 s left\n"


def test_a_search_says_how_long_it_takes_at_most() -> None:
    now = 0.0
    turns = Turns(LoopSettings(rules=Rules(), turns=10), Pace(lambda: now))
    turns.begin(2)  # a run that is taken up
    assert turns.left == ""
    now = 30.0
    turns.begin(3)
    assert turns.left == "at most about 4 min left"
    limited = Turns(LoopSettings(rules=Rules(), turns=10, seconds=70.0), Pace(lambda: now))
    now = 30.0
    limited.begin(0)
    now = 60.0
    limited.begin(1)
    assert limited.left == "at most about 40 s left"


def test_a_terminal_sees_the_seconds_from_the_first_word_to_the_last() -> None:
    console = Console(force_terminal=True, file=io.StringIO(), width=100)
    screen = LiveScreen(console)
    screen.say("reading softmax")
    ledger: Any = SimpleNamespace(history=lambda: [])
    screen.begin(ledger, LoopSettings(rules=Rules(), turns=5), "softmax  run 1")
    screen.event({"kind": "turn", "turn": 0})
    screen.event({"kind": "turn", "turn": 1})
    screen.close()
    screen.say("said after the end")
    assert isinstance(console.file, io.StringIO)
    told = console.file.getvalue()
    assert all(text in told for text in ("reading softmax", "0 s", "turn 1 of 5", "said after the end"))
    assert told.count("\x1b[?25l") == told.count("\x1b[?25h") == 1, "the cursor comes back"


@pytest.mark.parametrize(
    ("device", "policy", "patience"), [("cpu", "builtin", 0), ("cuda", "builtin", 2), ("cpu", "openai:m,builtin", 3)]
)
def test_where_nothing_is_timed_the_built_in_author_stops_at_a_kernel_that_passes(
    device: str, policy: str, patience: int
) -> None:
    request = OptimizeRequest(problem="x.py", device=device, policy=policy, base_url="http://h")
    assert request.loop().patience == patience

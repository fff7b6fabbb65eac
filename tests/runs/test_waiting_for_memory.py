"""Commands wait for memory of a card: real processes and reservations, and a stand-in for the card.

Once it is admitted, a command fails here for want of a real card.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import stand_in_cards

from triton_agent.tools.evaluate.admission import bytes_needed
from triton_agent.tools.evaluate.sets_evaluator import evaluator_for
from triton_agent.tools.machine.card_memory import KEPT_FREE_BYTES, Reservation, reservations
from triton_agent.tools.machine.lease import holders
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.settings import EvaluatorSettings

pytestmark = pytest.mark.xdist_group("waiting_for_memory")  # all reserve the same card

GIB = 1 << 30
CAPACITY = 80 * GIB - KEPT_FREE_BYTES
PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.ones(1 << 30)]
"""
KERNEL = "class ModelNew: ..."
NEED = {"evaluate": "26.0 GiB", "optimize": "34.0 GiB"}
"""Two and a half times the input and the output of 4 GiB each, and 6 GiB. `optimize` times torch.compile as well, which
takes one call's memory more."""


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The second of two cards, which no other file of tests reserves."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "problem.py").write_text(PROBLEM)
    (tmp_path / "kernel.py").write_text(KERNEL)
    return stand_in_cards.put_cards(tmp_path, monkeypatch, "H100", "H100")[1]


@pytest.fixture
def taken(card: str) -> Iterator[Reservation]:
    """Most of the card, reserved by this process."""
    request = Reservation(card, 60 * GIB, capacity_bytes=CAPACITY, what="judging another")
    assert request.granted()
    yield request
    request.close()


def command(name: str) -> subprocess.Popen[str]:
    arguments = {"evaluate": ["problem.py", "kernel.py"], "optimize": ["problem.py", "--out", "out"]}[name]
    argv = [sys.executable, "-m", "triton_agent", name, *arguments, "--device", "cuda:1"]
    return subprocess.Popen(
        argv,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )


def sentence_of(waiting: subprocess.Popen[str]) -> str:
    assert waiting.stderr is not None
    lines = []
    for line in waiting.stderr:
        lines.append(line)
        if line.startswith("waiting for"):
            return line
    pytest.fail("it did not wait:\n" + "".join(lines))


@pytest.mark.parametrize("name", ["evaluate", "optimize"])
def test_a_command_waits_until_the_memory_is_free(name: str, card: str, taken: Reservation) -> None:
    waiting = command(name)
    try:
        said = sentence_of(waiting)
        assert NEED[name] in said and "60.0 GiB are held by pid" in said and "judging another" in said
        assert len(reservations(card)) == 1 and waiting.poll() is None
        taken.close()
        assert waiting.wait(120) not in (0, None)
    finally:
        waiting.kill()
        waiting.communicate()
    assert reservations(card) == ()


@pytest.mark.parametrize("name", ["evaluate", "optimize"])
def test_ctrl_c_ends_the_wait(name: str, card: str, taken: Reservation) -> None:
    waiting = command(name)
    try:
        sentence_of(waiting)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(30) == 130
    finally:
        waiting.kill()
        waiting.communicate()
    assert holders(f"{card} memory queue") == ()


def test_a_killed_command_leaves_no_place_in_the_queue(card: str, taken: Reservation) -> None:
    waiting = command("evaluate")
    sentence_of(waiting)
    assert len(holders(f"{card} memory queue")) == 1
    waiting.kill()
    waiting.communicate()
    assert holders(f"{card} memory queue") == ()


def test_an_evaluator_beside_another_of_the_same_run_does_not_wait(
    card: str, taken: Reservation, tmp_path: Path
) -> None:
    said: list[str] = []
    settings = EvaluatorSettings(device="cuda", card=card, waits_for_memory=False)
    with pytest.raises(RuntimeError, match="a bug of ours in the checker"):  # it got as far as the card
        evaluator_for(parse_problem(str(tmp_path / "problem.py")), settings, say=said.append)
    assert not said and len(reservations(card)) == 1


def test_what_cannot_be_predicted_reserves_half_of_a_card_and_what_is_too_large_all_of_it() -> None:
    assert bytes_needed(None, 80 * GIB) == 40 * GIB
    assert bytes_needed(20 * GIB, 80 * GIB) == 56 * GIB
    assert bytes_needed(50 * GIB, 80 * GIB) == 80 * GIB
    assert bytes_needed(20 * GIB, 80 * GIB, compiles=True) == 76 * GIB

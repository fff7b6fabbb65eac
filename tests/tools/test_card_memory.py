"""Real processes reserve a card's memory: a request that fits is granted, others wait in order."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from triton_agent.tools.machine.card_memory import Reservation, reservations

CARD = "GPU-5c2a0b1e-0000-1111-2222-333344445555"
CAPACITY = 100
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "leases"


def request(folder: Path, size_bytes: int) -> Reservation:
    return Reservation(CARD, size_bytes, capacity_bytes=CAPACITY, what="a test", folder=folder)


def test_what_fits_together_is_granted_and_the_rest_waits(folder: Path) -> None:
    first, second, third = (request(folder, size) for size in (60, 40, 1))
    assert first.granted() and second.granted() and not third.granted()
    first.close()
    assert third.granted()
    assert sum(int(holder.what.split()[0]) for holder in reservations(CARD, folder)) == 41


def test_a_small_request_does_not_overtake_a_large_one_that_waits(folder: Path) -> None:
    first, large, small = (request(folder, size) for size in (60, 50, 10))
    assert first.granted() and not large.granted() and not small.granted()
    first.close()
    assert not small.granted() and large.granted() and small.granted()


def test_who_leaves_the_queue_holds_up_nobody(folder: Path) -> None:
    first, large, small = (request(folder, size) for size in (60, 50, 10))
    assert first.granted() and not large.granted()
    large.close()
    assert small.granted()


def test_more_than_the_card_is_granted_alone(folder: Path) -> None:
    small, huge = request(folder, 1), request(folder, 10 * CAPACITY)
    assert small.granted() and not huge.granted()
    small.close()
    assert huge.granted()


def test_cards_are_apart(folder: Path) -> None:
    other = Reservation("GPU-other", CAPACITY, capacity_bytes=CAPACITY, what="a test", folder=folder)
    assert request(folder, CAPACITY).granted() and other.granted()


def test_work_beside_a_reservation_of_its_own_takes_more_than_there_is(folder: Path) -> None:
    first, beside, other = (request(folder, size) for size in (60, 60, 1))
    assert first.granted()
    beside.take()
    assert not other.granted()
    beside.close()
    assert other.granted()


def test_a_dead_process_holds_nothing_and_who_waits_is_told_of_a_live_one(folder: Path) -> None:
    program = textwrap.dedent(f"""
        import sys
        from pathlib import Path
        from triton_agent.tools.machine.card_memory import Reservation
        made = Reservation({CARD!r}, 70, capacity_bytes={CAPACITY}, what="another", folder=Path({str(folder)!r}))
        print(made.granted(), flush=True)
        sys.stdin.read()
    """)
    other = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    said: list[str] = []
    try:
        assert other.stdout is not None and other.stdout.readline() == "True\n"
        waiting = request(folder, 60)
        assert not waiting.wait(said.append, given_up=lambda: True)
        assert len(said) == 1 and f"by pid {other.pid} of" in said[0] and "(another)" in said[0]
    finally:
        other.kill()
        other.wait()
    assert waiting.wait(said.append, given_up=lambda: True) and len(said) == 1
    assert [holder.pid for holder in reservations(CARD, folder)] == [os.getpid()]
    waiting.close()
    assert reservations(CARD, folder) == ()

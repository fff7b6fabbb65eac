"""Real processes reserve a card's memory: a request that fits is granted, others wait in order."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.machine.card_memory import Reservation, reservations, reserved

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


def test_a_dead_process_holds_nothing_and_one_that_waits_too_long_names_the_holder(folder: Path) -> None:
    program = textwrap.dedent(f"""
        import sys
        from pathlib import Path
        from triton_agent.tools.machine.card_memory import reserved
        with reserved({CARD!r}, 70, capacity_bytes={CAPACITY}, what="another program", folder=Path({str(folder)!r})):
            print("held", flush=True)
            sys.stdin.read()
    """)
    other = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        waiting = reserved(CARD, 60, capacity_bytes=CAPACITY, what="a test", wait_s=0.0, folder=folder)
        with pytest.raises(InstrumentError, match="another program"), waiting:
            pass
    finally:
        other.kill()
        other.wait()
    with reserved(CARD, 60, capacity_bytes=CAPACITY, what="a test", folder=folder):
        assert [holder.pid for holder in reservations(CARD, folder)] == [os.getpid()]
    assert reservations(CARD, folder) == ()

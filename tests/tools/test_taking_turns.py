"""Turns of judging threads: one at a time, passed on during waits, and never a reason to hang."""

from __future__ import annotations

import threading
import time

import pytest

from triton_agent.tools.machine import taking_turns
from triton_agent.tools.machine.taking_turns import Turns

LONG_S = 20.0


def test_one_thread_at_a_time_has_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking_turns, "PATIENCE_S", LONG_S)
    turns, inside, most = Turns(), 0, 0

    def run() -> None:
        nonlocal inside, most
        with turns.taken():
            for _ in range(3):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1
                with turns.passed_on():
                    time.sleep(0.001)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert (inside, most) == (0, 1)


def test_a_wait_lets_another_thread_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking_turns, "PATIENCE_S", LONG_S)
    turns, had_turn = Turns(), threading.Event()

    def other() -> None:
        with turns.taken():
            had_turn.set()

    with turns.taken():
        thread = threading.Thread(target=other)
        thread.start()
        with turns.passed_on():
            assert had_turn.wait(LONG_S / 2)
    thread.join(LONG_S)


def test_a_thread_that_is_kept_waiting_goes_on_without_its_turn() -> None:
    turns, went_on, may_end = Turns(), threading.Event(), threading.Event()

    def other() -> None:
        with turns.taken():
            went_on.set()

    def busy() -> None:
        with turns.taken():
            may_end.wait(LONG_S)

    first = threading.Thread(target=busy)
    first.start()
    second = threading.Thread(target=other)
    second.start()
    assert went_on.wait(LONG_S / 2), "the first thread still has its turn"
    may_end.set()
    for thread in (first, second):
        thread.join(LONG_S)
    with turns.taken(), turns.passed_on():  # the turn was handed back by its holder alone
        assert turns._lock.acquire(blocking=False)
        turns._lock.release()


def test_waits_of_other_threads_pass_nothing_on() -> None:
    turns = Turns()
    with turns.taken():

        def wait() -> None:
            with turns.passed_on():
                pass

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(LONG_S)
        assert not turns._lock.acquire(blocking=False)

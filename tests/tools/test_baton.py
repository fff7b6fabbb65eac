"""Baton of judging threads: one at a time, passed on during waits, and never a reason to hang."""

from __future__ import annotations

import threading
import time

import pytest

from triton_agent.tools.machine import baton
from triton_agent.tools.machine.baton import Baton

LONG_S = 20.0


def test_one_thread_at_a_time_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baton, "PATIENCE_S", LONG_S)
    it, inside, most = Baton(), 0, 0

    def run() -> None:
        nonlocal inside, most
        with it.held():
            for _ in range(3):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1
                with it.put_down():
                    time.sleep(0.001)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert (inside, most) == (0, 1)


def test_a_wait_lets_another_thread_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baton, "PATIENCE_S", LONG_S)
    it, had_baton = Baton(), threading.Event()

    def other() -> None:
        with it.held():
            had_baton.set()

    with it.held():
        thread = threading.Thread(target=other)
        thread.start()
        with it.put_down():
            assert had_baton.wait(LONG_S / 2)
    thread.join(LONG_S)


def test_a_thread_that_is_kept_waiting_goes_on_without_it() -> None:
    it, went_on, may_end = Baton(), threading.Event(), threading.Event()

    def other() -> None:
        with it.held():
            went_on.set()

    def busy() -> None:
        with it.held():
            may_end.wait(LONG_S)

    first = threading.Thread(target=busy)
    first.start()
    second = threading.Thread(target=other)
    second.start()
    assert went_on.wait(LONG_S / 2), "the first thread still holds it"
    may_end.set()
    for thread in (first, second):
        thread.join(LONG_S)
    with it.held(), it.put_down():  # only its holder handed it back
        assert it._lock.acquire(blocking=False)
        it._lock.release()


def test_waits_of_other_threads_put_nothing_down() -> None:
    it = Baton()
    with it.held():

        def wait() -> None:
            with it.put_down():
                pass

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(LONG_S)
        assert not it._lock.acquire(blocking=False)

"""A clock made in the background is made once, awaited by all threads, and made again after a failure."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from triton_agent.tools.race import late_value as late_clock
from triton_agent.tools.race.late_value import LateClock


def nothing() -> None:
    return


def test_it_is_made_once_however_many_wait() -> None:
    made: list[int] = []
    allowed = threading.Event()

    def make() -> int:
        allowed.wait()
        made.append(len(made))
        return made[-1]

    clock = LateClock(make)
    clock.begin()
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(clock.wait, nothing) for _ in range(4)]
        assert clock.made is None
        allowed.set()
        assert [future.result() for future in waiting] == [0] * 4
    assert made == [0] and clock.made == 0


def test_who_waits_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_clock, "TELL_EVERY_S", 0.01)
    begun, allowed = threading.Event(), threading.Event()

    def make() -> str:
        begun.set()
        allowed.wait()
        return "made"

    clock = LateClock(make)
    clock.begin()
    begun.wait()
    assert clock.wait(allowed.set) == "made"  # told, it lets the maker go on


def test_what_went_wrong_is_met_by_who_asks_and_made_anew_afterwards() -> None:
    failures = [RuntimeError("first"), RuntimeError("second")]

    def make() -> str:
        if failures:
            raise failures.pop(0)
        return "made"

    clock = LateClock(make)
    assert clock.begin().exception()
    with pytest.raises(RuntimeError, match="second"):
        clock.wait(nothing)
    assert clock.made is None
    assert clock.wait(nothing) == "made"


def test_one_failure_is_told_to_all_who_waited_for_it_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_clock, "TELL_EVERY_S", 0.01)
    attempts: list[int] = []
    allowed = threading.Event()

    def make() -> int:
        attempts.append(len(attempts))
        assert allowed.wait(20)
        if len(attempts) < 2:
            raise RuntimeError(f"attempt {len(attempts)}")
        return len(attempts)

    clock = LateClock(make)
    clock.begin()
    waiters = 6
    at_the_door = [threading.Event() for _ in range(waiters)]
    with ThreadPoolExecutor(waiters) as pool:
        waiting = [pool.submit(clock.wait, event.set) for event in at_the_door]
        assert all(event.wait(20) for event in at_the_door)  # who comes later rightly has it made once more
        allowed.set()
        errors = [str(future.exception()) for future in waiting]
    assert errors == ["attempt 1"] * waiters
    assert clock.wait(nothing) == 2 and len(attempts) == 2

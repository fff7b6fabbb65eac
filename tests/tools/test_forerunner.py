"""One candidate has the GPU first, the others meanwhile do not."""

from __future__ import annotations

import threading
import time

import pytest

from triton_agent.tools.timing.forerunner import Forerunner

LIMITS = "triton_agent.tools.timing.forerunner"


def others_come(
    forerunner: Forerunner, count: int, *, besides: int | None = None
) -> tuple[list[threading.Thread], list[int]]:
    came: list[int] = []

    def come(number: int) -> None:
        forerunner.let_go_ahead(number)
        came.append(number)

    threads = [threading.Thread(target=come, args=(number,)) for number in range(count) if number != besides]
    for thread in threads:
        thread.start()
    return threads, came


def test_the_first_candidate_runs_ahead_until_it_is_through() -> None:
    forerunner = Forerunner()
    forerunner.let_go_ahead("first")
    threads, came = others_come(forerunner, 3)
    forerunner.is_through(1)
    time.sleep(0.05)
    assert came == []
    forerunner.is_through("first")
    for thread in threads:
        thread.join(5)
    assert sorted(came) == [0, 1, 2]
    forerunner.let_go_ahead("late")


def test_nobody_runs_ahead_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_agent.tools.timing.forerunner.LEAD_S", 0.05)
    forerunner = Forerunner()
    forerunner.let_go_ahead("first")
    threads, came = others_come(forerunner, 2)
    for thread in threads:
        thread.join(5)
    assert sorted(came) == [0, 1]


def test_who_was_handed_in_first_goes_first_though_compiled_later() -> None:
    forerunner = Forerunner()
    for number in range(3):
        forerunner.sets_out(number, number)
    threads, came = others_come(forerunner, 3, besides=0)
    time.sleep(0.05)
    assert came == []
    forerunner.let_go_ahead(0)
    time.sleep(0.05)
    assert came == []
    forerunner.is_through(0)
    for thread in threads:
        thread.join(5)
    assert sorted(came) == [1, 2]


def test_one_that_fails_before_its_turn_keeps_nobody_waiting() -> None:
    forerunner = Forerunner()
    for number in range(2):
        forerunner.sets_out(number, number)
    threads, came = others_come(forerunner, 2, besides=0)
    forerunner.is_through(0)
    threads[0].join(0.5)
    assert came == [1]


def test_nobody_is_waited_for_long_by_those_that_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{LIMITS}.PREFERENCE_S", 0.05)
    forerunner = Forerunner()
    for number in range(2):
        forerunner.sets_out(number, number)
    forerunner.let_go_ahead(1)
    threads, came = others_come(forerunner, 1)
    time.sleep(0.1)
    assert came == []
    forerunner.is_through(1)
    threads[0].join(5)
    assert came == [0]


def test_one_that_was_no_win_lets_all_others_race_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    forerunner = Forerunner()
    for number in range(3):
        forerunner.sets_out(number, number)
    waited: list[float] = []

    def wait() -> None:
        began = time.monotonic()
        forerunner.await_others()
        waited.append(time.monotonic() - began)

    forerunner.is_through(0)
    waiting = threading.Thread(target=wait)
    waiting.start()
    forerunner.gives_way(1)  # it waits for the clock, and has yet to race
    forerunner.is_through(2)
    time.sleep(0.05)
    assert waited == []
    forerunner.is_through(1)
    waiting.join(5)
    assert len(waited) == 1
    monkeypatch.setattr(f"{LIMITS}.OTHERS_S", 0.05)
    forerunner.sets_out(4, 4)
    wait()
    assert waited[1] < 5

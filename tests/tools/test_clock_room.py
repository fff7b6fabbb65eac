"""Candidates that want the GPU alone get it one after another, under a single exclusive lease."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from triton_agent.tools.machine.lease import Mode
from triton_agent.tools.race.clock_room import ClockRoom, Place


class Lease:
    """Counts how often it was taken; refuses to be taken twice."""

    def __init__(self) -> None:
        self.taken = 0
        self.held = False

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        assert not self.held
        self.taken, self.held = self.taken + 1, True
        yield
        self.held = False


def enter_together(room: ClockRoom, visitors: int, inside: list[int]) -> None:
    def visit() -> None:
        with room.alone():
            inside.append(inside[-1] + 1)
            time.sleep(0.02)
            inside.append(inside[-1] - 1)

    threads = [threading.Thread(target=visit) for _ in range(visitors)]
    with room.alone():  # all others are at the door before the first leaves
        for thread in threads:
            thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join()


def test_visitors_at_the_door_share_one_lease_and_are_alone_in_the_room() -> None:
    lease, inside = Lease(), [0]
    enter_together(ClockRoom(lease), 5, inside)
    assert lease.taken == 1
    assert set(inside) == {0, 1}
    assert not lease.held


def test_a_late_visitor_takes_the_lease_anew() -> None:
    lease = Lease()
    room = ClockRoom(lease)
    for _ in range(3):
        with room.alone():
            assert lease.held
        assert not lease.held
    assert lease.taken == 3


def test_others_get_the_gpu_in_between_however_many_are_at_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_agent.tools.race.clock_room.STAY_S", 0.03)
    lease, inside = Lease(), [0]
    enter_together(ClockRoom(lease), 6, inside)
    assert lease.taken > 1
    assert not lease.held


def test_a_visitor_who_fails_passes_the_key_on() -> None:
    lease = Lease()
    room = ClockRoom(lease)
    with pytest.raises(ValueError, match="clock"), room.alone():
        raise ValueError("the clock broke")
    assert not lease.held
    with room.alone():
        assert lease.held


def test_a_lease_that_cannot_be_had_leaves_the_room_open() -> None:
    @contextlib.contextmanager
    def refused() -> Iterator[None]:
        raise TimeoutError("held by another")
        yield

    room = ClockRoom(refused)
    for _ in range(2):
        with pytest.raises(TimeoutError), room.alone():
            pass


def test_a_place_is_kept_over_checks_and_given_up_for_the_clock() -> None:
    log: list[str] = []

    @contextlib.contextmanager
    def lease(mode: Mode) -> Iterator[None]:
        log.append(f"take {mode}")
        yield
        log.append(f"give {mode}")

    place = Place(lease)
    for _ in range(3):
        with place(Mode.SHARED):
            pass
    with place(Mode.EXCLUSIVE):
        assert log == ["take shared", "give shared", "take exclusive"]
    with place(Mode.SHARED):
        pass
    place.leave()
    place.leave()
    assert log[3:] == ["give exclusive", "take shared", "give shared"]


def test_a_place_is_given_up_for_work_without_the_gpu_and_taken_again() -> None:
    held: list[Mode] = []

    @contextlib.contextmanager
    def lease(mode: Mode) -> Iterator[None]:
        held.append(mode)
        yield
        held.remove(mode)

    place = Place(lease)
    with place.aside():
        assert not held
    assert not held, "it had no place before"
    with place.step():
        with contextlib.suppress(ValueError), place.aside():
            assert not held
            raise ValueError
        assert held == [Mode.SHARED]
    assert not held


def test_waiting_for_a_place_is_told_apart_from_holding_it() -> None:
    log: list[str] = []

    @contextlib.contextmanager
    def told(what: str) -> Iterator[None]:
        log.append(f"begin {what}")
        yield
        log.append(f"end {what}")

    @contextlib.contextmanager
    def lease(mode: Mode) -> Iterator[None]:
        log.append(f"take {mode}")
        yield

    place = Place(lease, waiting=lambda: told("waiting"))
    with place(Mode.SHARED):
        log.append("check")
    with place(Mode.SHARED):
        log.append("check")
    with place(Mode.EXCLUSIVE):
        log.append("race")
    assert log == [
        *("begin waiting", "take shared", "end waiting", "check", "check"),
        *("begin waiting", "take exclusive", "end waiting", "race"),
    ]


def test_who_is_refused_a_place_holds_none() -> None:
    asked: list[Mode] = []

    @contextlib.contextmanager
    def refused(mode: Mode) -> Iterator[None]:
        asked.append(mode)
        raise TimeoutError("held by another")
        yield

    place = Place(refused)
    for mode in (Mode.SHARED, Mode.EXCLUSIVE, Mode.SHARED):
        with pytest.raises(TimeoutError), place(mode):
            pass
    place.leave()
    assert asked == [Mode.SHARED, Mode.EXCLUSIVE, Mode.SHARED]


def test_a_place_is_kept_for_a_while_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Mode] = []

    @contextlib.contextmanager
    def lease(mode: Mode) -> Iterator[None]:
        taken.append(mode)
        yield

    place = Place(lease, overdue=lambda: True)
    with place.step():
        place.pause()
        assert len(taken) == 1, "it was given up at once"
        monkeypatch.setattr("triton_agent.tools.race.clock_room.LEAST_STAY_S", 0.0)
        place.pause()
        assert len(taken) == 2
    place.pause()
    assert len(taken) == 2, "a place that is not held is not taken"


def test_who_has_waited_long_for_the_clock_is_let_in_between_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_agent.tools.race.clock_room.PATIENCE_S", 0.02)
    monkeypatch.setattr("triton_agent.tools.race.clock_room.LEAST_STAY_S", 0.0)
    log: list[str] = []
    places = threading.Condition()
    held = wanted_alone = 0

    @contextlib.contextmanager
    def shared(mode: Mode) -> Iterator[None]:
        nonlocal held
        assert mode is Mode.SHARED
        with places:
            assert places.wait_for(lambda: wanted_alone == 0, timeout=20)
            held += 1
        yield
        with places:
            held -= 1
            places.notify_all()

    @contextlib.contextmanager
    def alone() -> Iterator[None]:
        nonlocal wanted_alone
        with places:
            wanted_alone += 1  # who comes later waits, as at a lease's gate
            assert places.wait_for(lambda: held == 0, timeout=20)
            yield
            wanted_alone -= 1
            places.notify_all()

    room = ClockRoom(alone)
    checked = Place(shared, overdue=lambda: room.is_overdue)

    def race() -> None:
        with room.alone():
            log.append("race")

    with checked(Mode.SHARED):
        checked.pause()
        racing = threading.Thread(target=race)
        racing.start()
        checked.pause()
        assert log == [], "nobody has waited long"
        while not room.is_overdue:
            time.sleep(0.005)
        checked.pause()
        racing.join(20)
        log.append("check")
    checked.leave()
    assert log == ["race", "check"]
    assert not room.is_overdue and held == 0

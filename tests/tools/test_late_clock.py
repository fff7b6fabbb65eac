"""What is made behind an answer is made once, waited for by all, and made anew where the making failed."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.torch_switches import DEFAULT
from triton_agent.tools.race import compiled_beforehand
from triton_agent.tools.race import late_value as late_clock
from triton_agent.tools.race.compiled_beforehand import CompiledBeforehand, LongestCall
from triton_agent.tools.race.late_value import LateClock

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.ones(2)]
"""


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


def sleep_long(*_: object) -> None:
    time.sleep(600)


def fill_in_longest_call(*told: object) -> None:
    longest_call = told[-1]
    assert isinstance(longest_call, LongestCall)
    model = torch.nn.Identity()
    longest_call.measured(model, lambda: time.sleep(0.05), [])  # another model's
    assert longest_call.seconds() == 0
    longest_call.measured(model, model, [torch.ones(1)])


def beforehand(folder: Path, *names: str, limit_s: float = 300.0) -> CompiledBeforehand:
    (folder / "problem.py").write_text(PROBLEM)
    begun = CompiledBeforehand(parse_problem(str(folder / "problem.py")), names, DEFAULT, train=False, limit_s=limit_s)
    begun.share(contextlib.nullcontext, lambda: False)
    return begun


def test_a_compiler_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_beforehand, "_compile_all", sleep_long)  # in the forked process
    assert not beforehand(tmp_path, "compile", limit_s=0.1).wait(nothing)


def test_who_waits_for_a_compiler_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_beforehand, "TELL_EVERY_S", 0.01)
    monkeypatch.setattr(compiled_beforehand, "_compile_all", sleep_long)
    told: list[int] = []
    beforehand(tmp_path, "compile", limit_s=0.5).wait(lambda: told.append(1))
    assert told


def test_how_long_the_original_takes_is_known_outside_of_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", nothing)
    monkeypatch.setattr(compiled_beforehand, "_compile_all", fill_in_longest_call)
    begun = beforehand(tmp_path, "compile")
    assert begun.wait(nothing)
    assert 0 < begun.longest_call.seconds() < 60


def test_where_nothing_is_compiled_nothing_is_waited_for(tmp_path: Path) -> None:
    assert beforehand(tmp_path).wait(nothing)

"""The process that compiles the reference yields the GPU to races until it is done, and then answers requests."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.codec import from_plain, to_plain
from triton_agent.tools.processes.protocol import (
    BaselineRequest,
    CountSeries,
    Done,
    Entered,
    EnterRaces,
    LeaveRaces,
    Readings,
    SeriesCounted,
)
from triton_agent.tools.processes.torch_switches import DEFAULT
from triton_agent.tools.processes.wire import Channel
from triton_agent.tools.race import compiled_process
from triton_agent.tools.race.compiled_process import CompiledLost, CompiledProcess, Progress
from triton_agent.tools.race.readings import Calibration, Overheads, Sample

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.ones(2)]
"""
CALIBRATION = Calibration(cycles_per_ms=1e6, overheads=Overheads(event_ms=0.002, round_trip_ms=0.01))


def nothing() -> None:
    return


class SharedLease:
    """A fake lease that records whether it is held."""

    def __init__(self) -> None:
        self.held = 0

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        self.held += 1
        yield
        self.held -= 1


def begun(folder: Path, *names: str, limit_s: float = 300.0, lease: Any = contextlib.nullcontext) -> CompiledProcess:
    (folder / "problem.py").write_text(PROBLEM)
    spec = parse_problem(str(folder / "problem.py"))
    made = CompiledProcess(spec, names, DEFAULT, train=False, limit_s=limit_s)
    made.share(lease, lambda: False)
    return made


def sleep_long(*_: object) -> None:
    time.sleep(600)


def measure_calls(spec: Any, names: Any, conditions: Any, train: bool, progress: Progress, channel: Channel) -> None:
    model = torch.nn.Identity()
    progress.measured(model, lambda: time.sleep(0.05), [])  # another model's
    assert progress.longest_call_s() == 0
    progress.measured(model, model, [torch.ones(1)])


def answer(spec: Any, names: Any, conditions: Any, train: bool, progress: Progress, channel: Channel) -> None:
    """Stand-in for the code that compiles and races on a GPU."""
    os.kill(os.getpid(), signal.SIGSTOP)
    progress.finish()
    while True:
        request = from_plain(BaselineRequest, channel.receive()[0])
        if isinstance(request, EnterRaces):
            assert request.calibration == CALIBRATION
            reply: Any = Entered(troubles={"compile": "", "compile-max": "no memory"})
        elif isinstance(request, CountSeries):
            reply = SeriesCounted(calls=7)
        elif isinstance(request, LeaveRaces):
            reply = Done()
        else:
            sample = Sample(
                device_ms=1.0, host_ms=2.0, enqueue_ms=0.5, queued=True, back_to_back_ms=request.series or None
            )
            reply = Readings(samples=(sample,) * len(request.turns))
        channel.send(to_plain(reply))


def test_a_compiler_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_process, "_work", sleep_long)  # in the forked process
    process = begun(tmp_path, "compile", limit_s=0.1)
    assert not process.wait(nothing)
    with pytest.raises(CompiledLost, match="ended"):
        process.enter(CALIBRATION)


def test_who_waits_for_a_compiler_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_process, "TELL_EVERY_S", 0.01)
    monkeypatch.setattr(compiled_process, "_work", sleep_long)
    told: list[int] = []
    begun(tmp_path, "compile", limit_s=0.5).wait(lambda: told.append(1))
    assert told


def test_how_long_the_reference_takes_is_known_outside_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", nothing)
    monkeypatch.setattr(compiled_process, "_work", measure_calls)
    process = begun(tmp_path, "compile")
    assert process.wait(nothing)
    assert 0 < process.progress.longest_call_s() < 60


def test_where_nothing_is_compiled_nothing_is_waited_for(tmp_path: Path) -> None:
    assert begun(tmp_path).wait(nothing)


def test_once_all_is_compiled_the_process_answers_and_nobody_holds_a_lease_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_process, "_work", answer)
    lease = SharedLease()
    process = begun(tmp_path, "compile", "compile-max", lease=lease)
    assert process.wait(nothing) and lease.held == 0
    assert process.enter(CALIBRATION) == {"compile": "", "compile-max": "no memory"}
    assert process.series("compile") == 7
    samples = process.read("compile", [4, 5], 7)
    assert [sample.back_to_back_ms for sample in samples] == [7, 7]
    process.leave()
    process.end()


def test_a_process_that_has_ended_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_process, "_work", answer)
    process = begun(tmp_path, "compile")
    assert process.wait(nothing)
    os.kill(process._pid, signal.SIGKILL)
    with pytest.raises(CompiledLost, match="ended"):
        process.read("compile", [0])
    process.end()
    with pytest.raises(ChildProcessError):
        os.waitpid(process._pid, os.WNOHANG)  # it was reaped

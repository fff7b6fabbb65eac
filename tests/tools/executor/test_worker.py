"""The executor keeps very large inputs for the next call if asked to, unless the call has changed them."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from triton_agent.tools.checker import shipped_file
from triton_agent.tools.checker.session import Failed, Session
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.executor import worker
from triton_agent.tools.executor.worker import Executor
from triton_agent.tools.processes.codec import to_plain
from triton_agent.tools.processes.payloads import Payload, pack
from triton_agent.tools.processes.protocol import (
    Broken,
    Call,
    Called,
    Fetch,
    Fetched,
    Load,
    Loaded,
    Prepare,
    Ready,
)
from triton_agent.tools.processes.torch_switches import DEFAULT
from triton_agent.tools.processes.wire import Channel, ChannelClosed
from triton_agent.tools.results import Finding


class Doubling:
    """A stand-in for a program."""

    def __init__(self, *, in_place: bool) -> None:
        self.chosen: dict[int, int] = {}
        self.launcher: Any = self
        self.in_place = in_place

    def begin(self, order: int, only: tuple[int, ...] | None = None) -> None: ...

    def counterparts(self, *, of_sums: bool) -> tuple[Any, Any]:
        return (), ()

    def numbers(self) -> tuple[float, ...]:
        return ()

    def call(self, inputs: list[torch.Tensor], run: object) -> list[torch.Tensor]:
        return [inputs[0].mul_(2) if self.in_place else inputs[0] * 2]

    def written(self) -> list[tuple[int, int]]:
        return []

    def launches(self) -> tuple[()]:
        return ()


def executor_of(tmp_path: Path, *, in_place: bool) -> Executor:
    executor = Executor(scratch=str(tmp_path), mode="interpreter", target="cuda:90")
    programs: dict[str, Any] = executor._programs
    programs["p"] = Doubling(in_place=in_place)
    return executor


def called(executor: Executor, payloads: list[Payload], *, again: bool = False) -> torch.Tensor:
    request = Call(prepare=Prepare(name="p"), salt=0, seed=0, order=0, keep=True, again=again)
    reply, groups = executor.handle(request, payloads)
    assert isinstance(reply, Called)
    return groups[0][0].view(torch.float32)


def test_inputs_are_kept_for_the_next_call(tmp_path: Path) -> None:
    executor, given = executor_of(tmp_path, in_place=False), torch.randn(50)
    for number in range(3):
        got = called(executor, [] if number else [pack([given])], again=number > 0)
        assert torch.equal(got, 2 * given)
    assert len(executor._inputs) == 1


def test_inputs_that_a_call_changed_are_not_kept(tmp_path: Path) -> None:
    executor = executor_of(tmp_path, in_place=True)
    called(executor, [pack([torch.randn(50)])])
    assert executor._inputs == []


def test_a_call_with_inputs_that_are_not_held_is_our_own_failure(tmp_path: Path) -> None:
    executor = executor_of(tmp_path, in_place=False)
    with pytest.raises(InstrumentError):
        called(executor, [], again=True)


def test_a_failure_of_our_own_is_not_the_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = executor_of(tmp_path, in_place=False)
    monkeypatch.setattr(worker, "begin", lambda plain: mock.MagicMock(gpu=""))
    monkeypatch.setattr(worker, "confine", lambda settings: Ready(layers=()))
    monkeypatch.setattr(worker, "Executor", lambda **_: executor)
    ours, theirs = Channel.pair()

    def serve() -> None:
        with contextlib.suppress(ChannelClosed):
            worker.main(theirs, {})

    thread = threading.Thread(target=serve)
    thread.start()
    session = Session(ours, call_timeout_s=20.0, deadline=time.monotonic() + 20.0)
    session.await_ready()
    request = Call(prepare=Prepare(name="p"), salt=0, seed=0, order=0, again=True)
    with pytest.raises(InstrumentError, match="does not hold"):
        session.ask(request, Called)
    assert not session.is_sound, "so that it serves no other candidate"
    ours.close()
    thread.join(20.0)


def test_a_tracer_cannot_make_its_candidate_unjudgeable(tmp_path: Path) -> None:
    """Its Python runs there, so it may send anything."""
    ours, theirs = Channel.pair()
    session = Session(ours, call_timeout_s=20.0, deadline=time.monotonic() + 20.0, ready=True)
    theirs.send(to_plain(Broken(error=InstrumentError("a machine out of order"))))
    with pytest.raises(Failed) as failed:
        session.ask(Load(source="", conditions=DEFAULT), Loaded)
    assert failed.value.finding is Finding.TAMPERED


def test_calls_of_a_shipped_file_end_the_use_of_inputs_that_were_held(monkeypatch: pytest.MonkeyPatch) -> None:
    job: Any = mock.MagicMock(file="text", kept=object())
    monkeypatch.setattr(shipped_file, "UseFile", mock.MagicMock())
    monkeypatch.setattr(shipped_file, "packed", mock.MagicMock())
    shipped_file.check_file(job)
    assert job.kept is None


@pytest.mark.parametrize("touched", [False, True])
def test_what_a_timed_call_returned_is_told_apart_if_a_later_call_changes_it(tmp_path: Path, touched: bool) -> None:
    executor, kept = executor_of(tmp_path, in_place=False), torch.arange(80, dtype=torch.uint8)
    executor._kept.append(([kept], executor._digests.of([kept])))
    if touched:
        kept[3] = 0
    reply, groups = executor.handle(Fetch(), [])
    assert reply == Fetched(unchanged=not touched) and groups == [[kept]]

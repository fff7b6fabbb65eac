"""Memory of a GPU that an executor cannot get: whose fault that is, as measured when it was refused."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from triton.compiler.errors import CompileTimeAssertionFailure

from triton_agent.tools.checker.session import Failed, Session
from triton_agent.tools.errors import MemoryTaken
from triton_agent.tools.executor import worker
from triton_agent.tools.executor.refusals import Refusals
from triton_agent.tools.executor.worker import Executor
from triton_agent.tools.processes.codec import to_plain
from triton_agent.tools.processes.payloads import Payload, pack
from triton_agent.tools.processes.protocol import Call, Called, Load, Loaded, MemoryRefusal, Prepare, Raised, Ready
from triton_agent.tools.processes.torch_switches import DEFAULT
from triton_agent.tools.processes.wire import Channel, ChannelClosed
from triton_agent.tools.results import Finding

HELD_BYTES, LIMIT_BYTES, FREE_BYTES = 3 << 29, 100 << 30, 20 << 20
"""An executor that holds 1.5 GiB on a card that others have filled."""
LITTLE_BYTES, MUCH_BYTES = 38 << 20, 99 << 30


class Hungry:
    """A stand-in for a program to which the allocator refuses memory."""

    def __init__(self, refuse: Callable[[], None]) -> None:
        self.launcher = mock.MagicMock()
        self.launcher.is_unsupported.return_value = False
        self.refuse = refuse

    def call(self, inputs: list[torch.Tensor], run: object) -> list[torch.Tensor]:
        self.refuse()
        return inputs


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Session, Executor]]:
    """Yield an executor that serves in a thread, and the checker's session with it."""
    executor = Executor(scratch=str(tmp_path), mode="interpreter", target="cuda:90")
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: HELD_BYTES)
    monkeypatch.setattr(worker, "begin", lambda plain: mock.MagicMock(gpu=""))
    monkeypatch.setattr(worker, "confine", lambda settings: Ready(layers=()))
    monkeypatch.setattr(worker, "Executor", lambda **_: executor)
    ours, theirs = Channel.pair()

    def serve() -> None:
        with contextlib.suppress(ChannelClosed), contextlib.closing(theirs):
            worker.main(theirs, {})

    thread = threading.Thread(target=serve)
    thread.start()
    made = Session(ours, call_timeout_s=20.0, deadline=time.monotonic() + 20.0)
    made.await_ready()
    yield made, executor
    ours.close()
    thread.join(20.0)


def refusing(executor: Executor, asked_bytes: int) -> Callable[[], None]:
    def refuse() -> None:
        executor._refusals.note(0, asked_bytes, LIMIT_BYTES, FREE_BYTES)
        raise torch.OutOfMemoryError("CUDA out of memory")

    return refuse


def ask(session: Session) -> None:
    session.ask(Call(prepare=Prepare(name="p"), salt=0, seed=0, order=0), Called, [pack([torch.ones(2)])])


def test_memory_that_others_hold_does_not_count_against_a_candidate(session: tuple[Session, Executor]) -> None:
    asking, executor = session
    programs: dict[str, Any] = executor._programs
    programs["p"] = Hungry(refusing(executor, LITTLE_BYTES))
    with pytest.raises(MemoryTaken, match="38 MiB"):
        ask(asking)
    assert asking.is_sound, "so that its executor serves another candidate"


def test_memory_that_others_hold_does_not_count_where_inputs_are_unpacked(
    session: tuple[Session, Executor], monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, executor = session
    programs: dict[str, Any] = executor._programs
    programs["p"] = Hungry(lambda: None)
    refuse = refusing(executor, LITTLE_BYTES)
    monkeypatch.setattr(Payload, "unpack", lambda this, device=None: refuse())
    with pytest.raises(MemoryTaken):
        ask(asking)


def test_more_memory_than_allowed_is_the_candidates_own_use(session: tuple[Session, Executor]) -> None:
    asking, executor = session
    programs: dict[str, Any] = executor._programs
    programs["p"] = Hungry(refusing(executor, MUCH_BYTES))
    with pytest.raises(Failed) as failed:
        ask(asking)
    assert failed.value.finding is Finding.MEMORY
    assert not failed.value.may_lack_memory, "so that nobody looks at the card once more"


def test_a_refusal_in_an_earlier_request_explains_no_failure(session: tuple[Session, Executor]) -> None:
    asking, executor = session
    programs: dict[str, Any] = executor._programs
    executor._refusals.note(0, LITTLE_BYTES, LIMIT_BYTES, FREE_BYTES)
    programs["p"] = Hungry(mock.MagicMock(side_effect=torch.OutOfMemoryError("CUDA out of memory")))
    with pytest.raises(Failed) as failed:
        ask(asking)
    assert failed.value.finding is Finding.MEMORY and failed.value.may_lack_memory


def test_a_tracer_cannot_claim_that_memory_was_taken() -> None:
    """Its Python is the candidate's, and it holds no memory of a card."""
    ours, theirs = Channel.pair()
    refusal = MemoryRefusal(held_bytes=0, asked_bytes=1, limit_bytes=LIMIT_BYTES, free_bytes=0)
    kinds, text = ("OutOfMemoryError", "RuntimeError"), "CUDA out of memory"
    theirs.send(to_plain(Raised(kind=kinds[0], kinds=kinds, text=text, lines=(), refusal=refusal)))
    asking = Session(ours, call_timeout_s=20.0, deadline=time.monotonic() + 20.0, ready=True)
    with pytest.raises(Failed) as failed:
        asking.ask(Load(source="", conditions=DEFAULT), Loaded)
    assert failed.value.finding is Finding.MEMORY and not failed.value.may_lack_memory


@pytest.mark.parametrize(
    ("error", "is_refusal"),
    [
        (RuntimeError("Triton Error [CUDA]: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (CompileTimeAssertionFailure(None, None, "CUDA error: out of memory"), False),  # a kernel's own text
    ],
)
def test_the_card_is_measured_where_a_library_got_no_memory(
    monkeypatch: pytest.MonkeyPatch, error: Exception, is_refusal: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: HELD_BYTES)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (FREE_BYTES, 80 << 30))
    found = Refusals().behind(error)
    assert (found is not None) is is_refusal
    if found is not None:
        assert (found.held_bytes, found.asked_bytes, found.free_bytes) == (HELD_BYTES, None, FREE_BYTES)
        assert found.limit_bytes == 60 << 30

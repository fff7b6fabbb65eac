"""Payloads reach workers complete; what a worker writes into them is private; and they cannot block the worker."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tools.played_workers import ANY_CALL, descriptors, filler, honest, of_every_dtype, of_every_form, played_by
from tests.tools.tape.tapes import Writing

from triton_agent.tools.answers import checks
from triton_agent.tools.checker.session import Failed, Session
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.evaluate.worker_pool import INTERPRETER, PoolSettings, Worker
from triton_agent.tools.kernels.kernel import KernelSet
from triton_agent.tools.machine.hardware import gpus
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes import memory_files, payloads, staged_copies
from triton_agent.tools.processes.holdings import Family
from triton_agent.tools.processes.payloads import Payload, pack, receive_request, send_request
from triton_agent.tools.processes.protocol import Call, Called, Done, GetState, Prepare, SentTape, State
from triton_agent.tools.processes.tensors import row
from triton_agent.tools.processes.torch_switches import DEFAULT
from triton_agent.tools.processes.wire import Channel
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Finding, Status
from triton_agent.tools.sandbox import cgroup
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.tape.tape import Tape, encode

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no files in memory")

MIB = 1 << 20
PIECE = 100_000


# -- packed and unpacked -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("large", [False, True], ids=["as bytes", "in a file"])
def test_tensors_of_every_dtype_and_form_arrive_as_packed(large: bool) -> None:
    given = [*of_every_dtype(), *of_every_form(), *([filler()] if large else [])]
    payload = pack(given)
    assert (payload.file is not None) == large
    arrived = payload.unpack()
    for want, got in zip(given, arrived, strict=True):
        assert (type(want), want.dtype, want.stride()) == (type(got), got.dtype, got.stride())
        assert torch.equal(row(want), row(got))


def test_tensors_that_share_memory_still_do() -> None:
    base = filler()
    one, other, apart = pack([base[10:20], base[15:30], base.clone()]).unpack()
    one[5] = -7
    assert other[0] == -7
    assert apart[15] == 15


def test_plain_values_travel_with_the_tensors() -> None:
    given: dict[str, Any] = {"x": [1, None, "ü", (2.5, True)], "large": filler()}
    arrived = pack(given).unpack()
    assert arrived["x"] == given["x"]
    assert torch.equal(arrived["large"], given["large"])


def test_every_unpacking_has_memory_of_its_own() -> None:
    payload = pack(filler())
    mine, yours = payload.unpack(), payload.unpack()
    mine.zero_()
    assert torch.equal(yours, filler())
    assert torch.equal(payload.unpack(), filler())


def test_nobody_writes_to_a_payload_not_even_who_made_it() -> None:
    payload = pack(filler())
    file = payload.file
    assert file is not None
    with pytest.raises(PermissionError):
        os.pwrite(file, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(file, 0)
    with pytest.raises(PermissionError):
        mmap.mmap(file, 4096)
    with pytest.raises(PermissionError), open(f"/proc/self/fd/{file}", "r+b", buffering=0) as again:
        again.write(b"x")


def test_where_there_are_no_files_in_memory_everything_goes_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    payload = pack([filler()])
    assert payload.file is None
    with played_by(honest) as session:
        _, rows = session.ask(ANY_CALL, Called, [payload])
    assert torch.equal(rows[0].view(torch.int32), filler())


def test_what_does_not_fit_into_a_file_goes_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_files, "write", no_room)
    before = descriptors()
    payload = pack([filler()])
    assert payload.file is None
    assert torch.equal(payload.unpack()[0], filler())
    assert descriptors() == before


def test_a_file_that_somebody_has_marked_is_not_handed_on() -> None:
    payload = pack([filler()])
    assert payload.file is not None
    payload.unpack()
    assert sent_as_files([payload]) == [True]
    time.sleep(0.02)  # older kernels tell times apart by their clock's ticks only
    os.fchmod(payload.file, 0)
    assert torch.equal(payload.unpack()[0], filler())
    assert sent_as_files([payload]) == [False]


def no_room(*_: object) -> None:
    raise OSError(28, "no space left")


def sent_as_files(payloads: list[Payload]) -> list[bool]:
    """Return which tensors arrive as files, after checking that they arrive unchanged."""
    arrived = after_a_trip(payloads)
    assert all(torch.equal(one.unpack()[0], other.unpack()[0]) for one, other in zip(payloads, arrived, strict=True))
    return [payload.file is not None for payload in arrived]


def after_a_trip(payloads: list[Payload]) -> list[Payload]:
    ours, theirs = Channel.pair()
    sending = threading.Thread(target=send_request, args=(ours, ANY_CALL, payloads))  # they may not fit into a socket
    sending.start()
    request, arrived = receive_request(theirs, Call)
    sending.join()
    assert request == ANY_CALL
    return arrived


def test_payloads_that_are_sent_are_the_ones_received() -> None:
    small, large = pack([1]), pack([filler()])
    arrived = after_a_trip([small, large, small])
    assert [payload.file is not None for payload in arrived] == [False, True, False]
    assert [arrived[0].unpack(), arrived[2].unpack()] == [[1], [1]]
    assert torch.equal(arrived[1].unpack()[0], filler())


# -- with real workers ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def working(
    nursery: Nursery, folder: Path, tape: Tape, payloads: list[Payload], memory_bytes: int = 1 << 30
) -> Iterator[tuple[Worker, Session]]:
    """Start a confined executor with a tape; `payloads` are those that it will be sent."""
    settings = PoolSettings(
        executor=INTERPRETER,
        compiles=False,
        target="cuda:90",
        card={},
        folder=folder,
        memory_bytes=memory_bytes,
        copies_bytes=sum(payload.size_bytes for payload in payloads),  # an answer holds the inputs afterwards
        cpu_s=60,
    )
    lent = {payload.identity()[:2]: payload.size_bytes for payload in payloads if payload.file is not None}
    worker = Worker(nursery.mode(INTERPRETER, "cuda:90"), INTERPRETER, settings, lambda: lent)
    session = Session(worker.channel, call_timeout_s=60, deadline=time.monotonic() + 60)
    try:
        session.await_ready()
        sent = SentTape(tape=encode(tape), kernels=KernelSet().to_json(), seed=0, conditions=DEFAULT)
        session.ask(Prepare(name="m", tape=sent), Done, [pack(([], {}))])
        yield worker, session
    finally:
        worker.end()


def call(session: Session, payload: Payload) -> checks.Answer:
    reply, rows = session.ask(ANY_CALL, Called, [payload], expected_bytes=2 * payload.size_bytes)
    return checks.read_answer({"tuple": [{"tensor": 0}]}, reply, rows)


def added(number: int, *, times: int = 1) -> Tape:
    """Change `x` in place and return a copy of it."""
    writing = Writing()
    x = writing.input(filler())
    for _ in range(times):
        writing.operate("aten.add_.Tensor", x, number, result=x)
    return writing.tape(writing.operate("aten.clone.default", x))


def copied() -> Tape:
    return added(0, times=0)


def test_a_workers_writes_reach_neither_us_nor_the_next_worker(nursery: Nursery, tmp_path: Path) -> None:
    payload = pack([filler()])
    for _ in range(2):
        with working(nursery, tmp_path, added(1), [payload]) as (_, session):
            answer = call(session, payload)
            assert torch.equal(answer.tensors[0], filler() + 1)
            assert torch.equal(answer.changed[0], filler() + 1)
    assert torch.equal(payload.unpack()[0], filler())


def test_every_call_of_a_worker_has_the_inputs_that_were_sent_for_it(nursery: Nursery, tmp_path: Path) -> None:
    one, other = pack([filler()]), pack([filler() * 3])
    with working(nursery, tmp_path, added(2), [one, other]) as (_, session):
        answers = [call(session, payload).tensors[0] for payload in (one, other, one)]
    assert torch.equal(answers[0], filler() + 2) and torch.equal(answers[2], answers[0])
    assert torch.equal(answers[1], filler() * 3 + 2)


def test_inputs_that_are_only_read_do_not_come_back(nursery: Nursery, tmp_path: Path) -> None:
    payload = pack([filler()])
    with working(nursery, tmp_path, copied(), [payload]) as (_, session):
        assert call(session, payload).changed == {}


def test_a_worker_keeps_no_descriptor_of_what_it_was_sent(nursery: Nursery, tmp_path: Path) -> None:
    payload = pack([filler()])
    with working(nursery, tmp_path, copied(), [payload]) as (worker, session):
        call(session, payload)
        assert worker.child is not None
        family = Family(worker.child.pid).members()
        maps = [line for pid in family for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
        files = [os.readlink(link) for pid in family for link in Path(f"/proc/{pid}/fd").iterdir()]
    assert {line.split()[1] for line in maps if "memfd:payload" in line} <= {"rw-p"}
    assert not [line for line in maps if "memfd:answer" in line]
    assert files and not [file for file in files if "memfd:" in file]


def test_pages_that_were_only_read_are_told_from_those_that_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = pack([torch.arange(8 * MIB, dtype=torch.uint8)])
    family, lent = Family(os.getpid()), {payload.identity()[:2]: payload.size_bytes}
    assert family.lent_bytes(lent) == 0
    (tensor,) = payload.unpack()
    tensor.sum()
    assert 8 * MIB <= family.lent_bytes(lent) <= 9 * MIB
    tensor[: 4 * MIB] = 1
    assert 4 * MIB - 64 * 1024 <= family.lent_bytes(lent) <= 5 * MIB
    assert family.lent_bytes({(device, number + 1_000_000): size for (device, number), size in lent.items()}) == 0
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setattr(family, "members", lambda: [ended.pid, os.getpid()])
    assert 4 * MIB - 64 * 1024 <= family.lent_bytes(lent) <= 5 * MIB, "a process that has ended holds nothing"


@pytest.mark.skipif(cgroup.delegated_group()[0] is not None, reason="here the kernel itself counts, in a control group")
def test_three_hundred_megabytes_cost_a_worker_nothing_until_it_writes_to_them(
    nursery: Nursery, tmp_path: Path
) -> None:
    payload = pack([torch.arange(75_000_000, dtype=torch.int32)])
    writing = Writing()
    x = writing.input(payload.unpack()[0])
    ends = dataclasses.replace(x, shape=(2,), strides=(74_999_999,))
    tape = writing.tape(writing.operate("aten.clone.default", ends, shape=(2,)))
    with working(nursery, tmp_path, tape, [payload], 128 * MIB) as (worker, session):
        assert call(session, payload).tensors[0].tolist() == [0, 74_999_999]
        assert call(session, payload).tensors[0].tolist() == [0, 74_999_999]  # mapped anew
        time.sleep(0.3)  # several looks of the watchdog
        session.ask(GetState(name="m"), State)
    assert worker.exit is not None and not worker.exit.out_of_memory
    greedy = Writing()
    x = greedy.input(payload.unpack()[0])
    y = greedy.operate("aten.clone.default", x)
    for _ in range(200):
        greedy.operate("aten.add_.Tensor", x, y, result=x)
    working_greedily = working(nursery, tmp_path, greedy.tape(x), [payload], 128 * MIB)
    with working_greedily as (worker, session), pytest.raises(Failed) as failed:
        call(session, payload)
    assert failed.value.worker_died
    assert worker.exit is not None and worker.exit.out_of_memory


# -- whole verdicts ------------------------------------------------------------------------------------------------
PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x + x

def get_inputs():
    return [torch.randn(1 << 16)]
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(y_ptr + offsets, {value}, mask=offsets < count)

class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 1 << 14),)](x, y, x.numel(), BLOCK=1 << 14)
        return y
"""


def judged(nursery: Nursery, folder: Path, candidates: int) -> tuple[list[Finding | None], list[int]]:
    """Judge this many candidates, every other one wrong; return findings, and the checker's descriptors after each."""
    (folder / "problem.py").write_text(PROBLEM)
    settings = EvaluatorSettings(target=None, shapes="given", modes=("eval",))
    findings, counts = [], []
    with Evaluator(parse_problem(str(folder / "problem.py")), settings, nursery=nursery) as evaluator:
        assert evaluator._checker.lent, "nothing was large enough to travel in a file"
        assert evaluator._checker._child is not None
        for number in range(candidates):
            verdict = evaluator.evaluate(
                KERNEL.format(value="x + x" if number % 2 == 0 else "x + x + x") + f"#{number}"
            )
            assert verdict.status is not Status.CHEATED, verdict.message
            findings.append(verdict.finding)
            counts.append(len(os.listdir(f"/proc/{evaluator._checker._child.pid}/fd")))
    return findings, counts


def test_verdicts_on_large_inputs_are_right_and_the_checker_keeps_no_descriptor(
    nursery: Nursery, tmp_path: Path
) -> None:
    findings, counts = judged(nursery, tmp_path, 4)
    assert findings == [None, Finding.VALUES] * 2
    assert max(counts) <= counts[0] + 1


@pytest.mark.slow
def test_a_checker_keeps_no_descriptor_over_two_hundred_candidates(nursery: Nursery, tmp_path: Path) -> None:
    findings, counts = judged(nursery, tmp_path, 200)
    assert findings == [None, Finding.VALUES] * 100
    assert max(counts) <= counts[0] + 1


def test_haste_holds_in_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads._FastPacking, "checksums", True)
    monkeypatch.setattr(payloads._FastPacking, "pinned", False)
    payloads.pack_quickly()
    seen: list[bool] = []

    def packs() -> None:
        payloads.pack(torch.ones(3))
        seen.append(torch.serialization.get_crc32_options())

    thread = threading.Thread(target=packs)
    thread.start()
    thread.join()
    assert seen == [False]
    monkeypatch.undo()
    assert payloads.pack(torch.ones(3)).unpack().tolist() == [1, 1, 1] and torch.serialization.get_crc32_options()


def test_others_get_the_gpu_while_a_large_value_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "STAGED_BYTES", 1 << 20)
    asides: list[int] = []

    @contextlib.contextmanager
    def aside() -> Iterator[None]:
        asides.append(0)
        yield

    sent = [torch.arange(1 << 18), torch.arange(1 << 10)]
    assert all(map(torch.equal, payloads.pack(sent, aside).unpack(), sent))
    assert len(asides) == 1


class NoStream:
    def synchronize(self) -> None:
        return


def copied_on_the_host(source: torch.Tensor, target: torch.Tensor, number: int) -> None:
    for start in range(number * PIECE, source.numel(), staged_copies.THREADS * PIECE):
        target[start : start + PIECE].copy_(source[start : start + PIECE])


@pytest.mark.parametrize(
    "where",
    ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not gpus(), reason="needs a GPU")])],
)
def test_large_storages_of_a_gpu_are_written_from_there(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU, memory of the host plays that of the GPU."""
    monkeypatch.setattr(payloads._FastPacking, "checksums", False)
    for module in (payloads, staged_copies):
        monkeypatch.setattr(module, "STAGED_BYTES", 1 << 20)
    monkeypatch.setattr(staged_copies, "PIECE_BYTES", PIECE)
    if where == "cpu":
        monkeypatch.setattr(staged_copies, "is_on_gpu", lambda tensor: True)
        monkeypatch.setattr(staged_copies, "_write_share", copied_on_the_host)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: NoStream())
    whole = torch.randn(700, 1000, device=where)
    halves = torch.randn(1 << 20, device=where).bfloat16()
    sent = [whole, (whole.t()[5:100], {"few": torch.ones(3), "halves": halves[3:]}), 5]
    packed = payloads.pack(sent)
    got = packed.unpack()
    assert packed.file is not None and memory_files.is_frozen(packed.file, packed.size_bytes)
    assert torch.equal(got[0], whole) and torch.equal(got[1][0], sent[1][0])
    assert got[1][0].stride() == (1, 1000) and got[1][0].data_ptr() == got[0].data_ptr() + 5 * 4
    assert torch.equal(got[1][1]["halves"], halves[3:]) and got[1][1]["few"].tolist() == [1, 1, 1] and got[2] == 5
    assert got[0].device == whole.device and got[1][1]["few"].device.type == "cpu"


def test_touched_memory_is_all_there() -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    with mmap.mmap(-1, 64 * MIB + 5) as memory:
        before = resident_bytes()
        staged_copies.touch(memory)
        assert resident_bytes() - before >= 60 * MIB


def test_a_file_is_written_in_pieces_each_at_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_files, "PIECE_BYTES", 1000)
    file, data = memory_files.create("test"), os.urandom(7_321)
    memory_files.write(file, memoryview(data), 0)
    memory_files.write(file, memoryview(data), len(data))
    assert memory_files.read(file) == 2 * data
    os.close(file)

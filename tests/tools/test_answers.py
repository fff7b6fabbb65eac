"""Answers of workers arrive unchanged, and a file that a hostile worker could still change is never read."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tools.played_workers import (
    ANY_CALL,
    NOTHING,
    descriptors,
    filler,
    honest,
    of_every_dtype,
    of_every_form,
    played_by,
)

from triton_agent.tools.checker.session import Failed
from triton_agent.tools.processes import answers, memory_files
from triton_agent.tools.processes.codec import to_plain
from triton_agent.tools.processes.payloads import pack
from triton_agent.tools.processes.protocol import Called, Delivered
from triton_agent.tools.processes.tensors import row, unpack
from triton_agent.tools.processes.wire import Channel, ChannelClosed
from triton_agent.tools.results import Finding

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no files in memory")

MIB = 1 << 20


@pytest.mark.parametrize("large", [False, True], ids=["as bytes", "in a file"])
def test_answers_of_every_dtype_and_form_arrive_as_given(large: bool) -> None:
    given = [*of_every_dtype(), *of_every_form(), *([filler()] if large else [])]
    with played_by(honest) as session:
        reply, rows = session.ask(ANY_CALL, Called, [pack(given)])
    assert is_mapped(rows[0]) == large
    for want, described, got in zip(given, reply.outputs, rows, strict=True):
        assert torch.equal(row(want), row(unpack(described, got)))


def test_an_answer_far_larger_than_expected_travels_as_bytes() -> None:
    large = torch.arange(answers.LENT_BYTES // 4 + 1, dtype=torch.int32)
    with played_by(honest) as session:
        _, refused = session.ask(ANY_CALL, Called, [pack([large])])
        _, lent = session.ask(ANY_CALL, Called, [pack([large])], expected_bytes=large.nbytes)
    assert torch.equal(refused[0], lent[0])
    assert [is_mapped(rows[0]) for rows in (refused, lent)] == [False, True]


def is_mapped(tensor: torch.Tensor) -> bool:
    """Return True if the tensor is mapped from a file in memory."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(end, 16) for end in line.split()[0].split("-"))
        if low <= tensor.data_ptr() < high:
            return "/memfd:" in line
    return False


def claiming(lengths: Any) -> dict[str, Any]:
    """Return an answer that claims rows of these lengths."""
    return {**to_plain(NOTHING), answers.WAITING: lengths}


def borrowing(behave: Callable[[int], Any]) -> Callable[[Channel], None]:
    """A worker that announces an answer of a megabyte, calls `behave` on the lent file, and reports it as written."""

    def worker(channel: Channel) -> None:
        channel.receive_with_fds()
        channel.send(claiming([[MIB]]))
        _, _, files = channel.receive_with_fds()
        held = behave(files[0])
        channel.send(to_plain(Delivered(written=True)))
        with contextlib.suppress(ChannelClosed):
            channel.receive(5)
        del held
        os.close(files[0])

    return worker


def cannot_shrink(file: int) -> None:
    for size in (0, MIB // 2, 2 * MIB):
        with pytest.raises(PermissionError):
            os.ftruncate(file, size)


def seals_all_but_writing(file: int) -> None:
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK)


def keeps_a_mapping(file: int) -> mmap.mmap:
    held = mmap.mmap(file, MIB)
    with pytest.raises(OSError, match="busy"):
        memory_files.freeze(file)
    return held


@pytest.mark.parametrize("behave", [lambda file: None, cannot_shrink, seals_all_but_writing, keeps_a_mapping])
def test_a_file_that_could_still_change_is_refused_by_name(behave: Callable[[int], Any]) -> None:
    before = descriptors()
    with played_by(borrowing(behave)) as session, pytest.raises(Failed, match="not sealed") as failed:
        session.ask(ANY_CALL, Called)
    assert failed.value.finding is Finding.TAMPERED
    assert descriptors() == before


def test_what_was_sealed_stays_as_it_was() -> None:
    attempts: list[str] = []

    def writes_afterwards(file: int) -> None:
        os.pwrite(file, b"right", 0)
        memory_files.freeze(file)
        for attempt in (lambda: os.pwrite(file, b"wrong", 0), lambda: mmap.mmap(file, MIB)):
            with pytest.raises(PermissionError):
                attempt()
            attempts.append("refused")

    with played_by(borrowing(writes_afterwards)) as session:
        _, rows = session.ask(ANY_CALL, Called)
        assert bytes(rows[0][:6].tolist()) == b"right\0"
    assert attempts == ["refused", "refused"]


def test_a_file_whose_mode_was_changed_is_read_all_the_same() -> None:
    def bars_the_way(file: int) -> None:
        os.pwrite(file, b"right", 0)
        memory_files.freeze(file)
        os.fchmod(file, 0)

    with played_by(borrowing(bars_the_way)) as session:
        _, rows = session.ask(ANY_CALL, Called)
    assert bytes(rows[0][:5].tolist()) == b"right"


def test_an_answer_in_a_file_that_was_never_lent_is_refused() -> None:
    def worker(channel: Channel) -> None:
        channel.receive_with_fds()
        channel.send(claiming([[2 * answers.LENT_BYTES]]))
        _, _, files = channel.receive_with_fds()
        assert files == []
        channel.send(to_plain(Delivered(written=True)))

    with played_by(worker) as session, pytest.raises(Failed, match="never lent") as failed:
        session.ask(ANY_CALL, Called)
    assert failed.value.finding is Finding.TAMPERED


def test_an_answer_that_could_not_be_written_comes_as_bytes() -> None:
    lent: list[int] = []

    def worker(channel: Channel) -> None:
        channel.receive_with_fds()
        channel.send(claiming([[5]]))
        for content in ([], [b"right"]):
            _, _, files = channel.receive_with_fds()
            lent.append(len(files))
            for file in files:
                os.close(file)
            channel.send(to_plain(Delivered(written=False)), content)

    with played_by(worker) as session:
        _, rows = session.ask(ANY_CALL, Called)
    assert lent == [1, 0] and bytes(rows[0].tolist()) == b"right"


@pytest.mark.parametrize(
    "waiting", [7, [7], [[-1]], [[True]], [[1.5]], [["9"]], [[2**62]], [[1] * 5000], [[1]] * 100, {"0": [1]}, [[[1]]]]
)
def test_lengths_that_cannot_be_meant_are_refused(waiting: Any) -> None:
    def worker(channel: Channel) -> None:
        channel.receive_with_fds()
        channel.send(claiming(waiting))

    with played_by(worker) as session, pytest.raises(Failed) as failed:
        session.ask(ANY_CALL, Called)
    assert failed.value.finding is Finding.TAMPERED


def test_files_of_a_workers_own_are_closed_unread() -> None:
    def worker(channel: Channel) -> None:
        channel.receive_with_fds()
        own = memory_files.create("mine")
        channel.send(claiming([[MIB]]), fds=(own,))
        _, _, files = channel.receive_with_fds()
        channel.send(to_plain(Delivered(written=True)), fds=(own, own))
        for file in (own, *files):
            os.close(file)

    before = descriptors()
    with played_by(worker) as session, pytest.raises(Failed, match="not sealed"):
        session.ask(ANY_CALL, Called)
    assert descriptors() == before


def test_two_hundred_candidates_leave_no_descriptor_behind() -> None:
    given = [filler(), torch.ones(3)]
    payload = pack(given)
    before = descriptors()
    for _ in range(200):
        with played_by(honest) as session:
            _, rows = session.ask(ANY_CALL, Called, [payload])
            assert torch.equal(rows[0].view(torch.int32), given[0])
        del rows  # an answer keeps its file for as long as it is looked at
    assert descriptors() == before
    assert payload.file is not None
    payload.close()
    assert len(descriptors()) == len(before) - 1

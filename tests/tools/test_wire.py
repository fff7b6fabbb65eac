"""Messages arrive completely or not at all, and malformed data of a hostile process is refused."""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time

import pytest

from triton_agent.tools.errors import NotJudgeableHere, ProblemError
from triton_agent.tools.processes.wire import (
    HEADER,
    Channel,
    ChannelClosed,
    ChannelGarbled,
    ChannelTimeout,
    error_from_json,
    error_to_json,
)


def test_messages_and_blobs_arrive_as_sent() -> None:
    left, right = Channel.pair()
    big = os.urandom(3_000_000)
    sender = threading.Thread(target=left.send, args=({"op": "x", "n": [1, None, "ü"]}, [b"", b"abc", big]))
    sender.start()
    message, blobs = right.receive(5)
    sender.join()
    assert message == {"op": "x", "n": [1, None, "ü"]}
    assert blobs == [b"", b"abc", big]


def test_descriptors_travel_with_a_message() -> None:
    left, right = Channel.pair()
    reader, writer = os.pipe()
    left.send({"op": "take"}, fds=(writer,))
    message, _, fds = right.receive_with_fds(5)
    os.write(fds[0], b"hello")
    assert message == {"op": "take"}
    assert os.read(reader, 5) == b"hello"


def test_a_silent_process_ends_in_a_timeout_and_a_gone_one_in_closed() -> None:
    left, right = Channel.pair()
    began = time.monotonic()
    with pytest.raises(ChannelTimeout):
        right.receive(0.05)
    assert time.monotonic() - began < 2
    left.close()
    with pytest.raises(ChannelClosed):
        right.receive(1)


def test_a_process_that_dribbles_bytes_cannot_hold_the_reader_forever() -> None:
    left, right = Channel.pair()
    stop = threading.Event()

    def dribble() -> None:
        for byte in HEADER.pack(1000, 0, 0) + b"{" * 900:
            if stop.is_set():
                return
            left.sock.send(bytes([byte]))
            time.sleep(0.01)

    thread = threading.Thread(target=dribble)
    thread.start()
    with pytest.raises(ChannelTimeout):
        right.receive(0.3)
    stop.set()
    thread.join()


@pytest.mark.parametrize(
    "written",
    [
        b"GARBAGE" * 10,
        HEADER.pack(2**31, 0, 0),
        HEADER.pack(10, 2**31, 0),
        HEADER.pack(10, 1, 2**62),
        HEADER.pack(2, 0, 0) + b"[]",
        HEADER.pack(4, 0, 0) + b"null",
        HEADER.pack(len(b'{"m": 1, "b": []}'), 0, 0) + b'{"m": 1, "b": []}',
        HEADER.pack(len(b'{"m": {}, "b": [-5, 5]}'), 2, 0) + b'{"m": {}, "b": [-5, 5]}',
        HEADER.pack(20, 0, 0) + pickle.dumps({"m": 1})[:20],
        HEADER.pack(100_000, 0, 0) + b"[" * 100_000,
    ],
)
def test_what_is_no_message_is_refused(written: bytes) -> None:
    left, right = Channel.pair()
    left.sock.sendall(written)
    left.close()
    with pytest.raises((ChannelGarbled, ChannelClosed)):
        right.receive(2)


def test_descriptors_that_come_with_garbage_or_unasked_are_closed() -> None:
    left, right = Channel.pair()
    reader, writer = os.pipe()
    before = len(os.listdir("/proc/self/fd"))
    left.send({"op": "x"}, fds=(writer, writer))
    right.receive(5)
    socket.send_fds(left.sock, [HEADER.pack(10, 2**31, 0)], [reader, writer])
    with pytest.raises(ChannelGarbled):
        right.receive_with_fds(5)
    assert len(os.listdir("/proc/self/fd")) == before
    for descriptor in (reader, writer):
        os.close(descriptor)


def test_received_descriptors_are_not_passed_on_to_programs() -> None:
    left, right = Channel.pair()
    left.send({"op": "x"}, fds=(left.fileno(),))
    _, _, (descriptor,) = right.receive_with_fds(5)
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


@pytest.mark.parametrize("error", [ProblemError("no Model", where="a.py:3", remedy="add one"), NotJudgeableHere("x")])
def test_our_errors_cross_with_their_kind(error: ProblemError | NotJudgeableHere) -> None:
    again = error_from_json(error_to_json(error))
    assert type(again) is type(error)
    assert (again.what, again.where, again.remedy) == (error.what, error.where, error.remedy)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_messages_of_many_threads_arrive_whole() -> None:
    ours, theirs = Channel.pair()
    text = "x" * 300_000  # more than the kernel takes at once

    def send(number: int) -> None:
        for _ in range(5):
            ours.send({"from": number, "text": text})

    threads = [threading.Thread(target=send, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    received = [theirs.receive(10.0)[0] for _ in range(30)]
    for thread in threads:
        thread.join()
    assert sorted(message["from"] for message in received) == sorted(list(range(6)) * 5)
    assert all(message["text"] == text for message in received)

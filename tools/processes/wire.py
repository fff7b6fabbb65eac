"""A channel between two processes: framed messages of plain JSON and raw blobs over a Unix socket.

A message may come from a process that runs hostile code, so nothing is unpickled here, every length is bounded, and
every wait has a deadline. Errors of this package are sent as data and raised again on the other side.
"""

from __future__ import annotations

import array
import contextlib
import errno
import json
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

from triton_agent.tools.errors import KINDS, InstrumentError, TritonAgentError

HEADER = struct.Struct("!IIQ")
"""Length of the JSON, number of blobs, total length of the blobs."""
JSON_LIMIT_BYTES = 16 << 20
BLOB_LIMIT_BYTES = 8 << 30
BLOBS_AT_MOST = 4096
FDS_AT_MOST = 8
SENT_AT_ONCE_BYTES = 64 << 10
"""Up to this total size, blobs are sent together with the JSON in one system call."""


class ChannelClosed(Exception):
    """The other side is gone."""


class ChannelTimeout(Exception):
    """No message, or only part of one, arrived in time."""


class ChannelGarbled(Exception):
    """Data that is not a message arrived; only a misbehaving process sends such data."""


class Channel:
    """One end of a connected Unix stream socket. Any thread may send; one at a time may receive."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._sending = threading.Lock()

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(left), cls(right)

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        return self.sock.fileno()

    def let_go(self) -> None:
        """Close this copy of the descriptor; the connection stays open in processes that have another copy."""
        self.sock.close()

    def close(self) -> None:
        """End the connection for all processes that share it."""
        with contextlib.suppress(OSError):  # the other side may have closed it already
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def send(
        self,
        message: dict[str, Any],
        blobs: Sequence[bytes | bytearray | memoryview] = (),
        fds: tuple[int, ...] = (),
    ) -> None:
        """Send one message; `fds` are duplicated into the receiving process."""
        if len(fds) > FDS_AT_MOST:
            raise ValueError(f"{len(fds)} descriptors in one message")
        lengths = [memoryview(blob).nbytes for blob in blobs]
        body = json.dumps({"m": message, "b": lengths}).encode()
        head = HEADER.pack(len(body), len(blobs), sum(lengths))
        self.sock.settimeout(None)
        try:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            with self._sending:
                small = sum(lengths) <= SENT_AT_ONCE_BYTES  # in one call, which wakes the receiver once
                text = memoryview(b"".join([head, body, *blobs] if small else [head, body]))
                if rest := text[self.sock.sendmsg([text], ancillary) :]:
                    self.sock.sendall(rest)
                for blob in () if small else blobs:
                    self.sock.sendall(blob)
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:
                raise InstrumentError("this user has too many descriptors under way between processes") from error
            raise ChannelClosed(str(error)) from error

    def is_readable(self) -> bool:
        """Return True if `receive` would return or raise at once, without waiting."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))

    def receive(self, timeout_s: float | None = None) -> tuple[dict[str, Any], list[bytearray]]:
        """Return the next message and its blobs."""
        message, blobs, fds = self.receive_with_fds(timeout_s)
        for fd in fds:
            os.close(fd)
        return message, blobs

    def receive_with_fds(self, timeout_s: float | None = None) -> tuple[dict[str, Any], list[bytearray], list[int]]:
        """Return the next message, its blobs and its descriptors, which the caller closes."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        fds: list[int] = []
        try:
            message, blobs = self._receive_parts(self._receive_head(deadline, fds), deadline)
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        return message, blobs, fds

    def _receive_parts(self, head: bytes, deadline: float | None) -> tuple[dict[str, Any], list[bytearray]]:
        json_bytes, blob_count, blob_bytes = HEADER.unpack(head)
        if json_bytes > JSON_LIMIT_BYTES or blob_count > BLOBS_AT_MOST or blob_bytes > BLOB_LIMIT_BYTES:
            raise ChannelGarbled("a message larger than any that is sent")
        try:
            body = json.loads(self._exactly(json_bytes, deadline))
            message, lengths = body["m"], body["b"]
            if not isinstance(message, dict) or len(lengths) != blob_count or sum(lengths) != blob_bytes:
                raise ValueError("lengths contradict one another")
            if any(not isinstance(length, int) or length < 0 for length in lengths):
                raise ValueError("not a length")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ChannelGarbled(str(error)) from error
        return message, [self._exactly(length, deadline) for length in lengths]

    def _receive_head(self, deadline: float | None, fds: list[int]) -> bytes:
        """Return the header; add the descriptors that came with its first byte to `fds`."""
        self._wait(deadline)
        room = socket.CMSG_SPACE(FDS_AT_MOST * 4)
        try:
            data, ancillary, _, _ = self.sock.recvmsg(HEADER.size, room, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except TimeoutError as error:
            raise ChannelTimeout("no answer in time") from error
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.extend(array.array("i", payload[: len(payload) - len(payload) % 4]))
        if not data:
            raise ChannelClosed("end of stream")
        if len(data) < HEADER.size:
            data += bytes(self._exactly(HEADER.size - len(data), deadline))
        return data

    def _wait(self, deadline: float | None) -> None:
        if deadline is None:
            self.sock.settimeout(None)
            return
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise ChannelTimeout("no answer in time")
        self.sock.settimeout(left_s)

    def _exactly(self, count: int, deadline: float | None) -> bytearray:
        buffer = bytearray(count)
        view = memoryview(buffer)
        got = 0
        while got < count:
            self._wait(deadline)
            try:
                step = self.sock.recv_into(view[got:])
            except TimeoutError as error:
                raise ChannelTimeout("the rest of a message did not arrive in time") from error
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if step == 0:
                raise ChannelClosed("end of stream inside a message")
            got += step
        return buffer


def error_to_json(error: TritonAgentError) -> dict[str, str]:
    """Return an error of this package as plain data."""
    return {"kind": type(error).__name__, "what": error.what, "where": error.where, "remedy": error.remedy}


def error_from_json(data: dict[str, str]) -> TritonAgentError:
    """Return the error from plain data; an unknown kind becomes an InstrumentError."""
    if not all(isinstance(value, str) for value in data.values()):
        raise ValueError("an error with other fields than texts")
    kind = KINDS.get(data.get("kind", ""), InstrumentError)
    return kind(data.get("what", ""), where=data.get("where", ""), remedy=data.get("remedy", ""))

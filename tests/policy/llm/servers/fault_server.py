"""A chat server that fails on command: real sockets, one behaviour per question, and the last one for all further
questions.

It implements only as much HTTP as the tests need, and records every request.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from triton_agent.policy.answer import write_answer

KERNEL = write_answer("a plan", "class ModelNew:\n    answer = 1\n")
LONG_S = 60.0
"""Seconds that no test waits."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as received."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclasses.dataclass(slots=True, kw_only=True)
class Line:
    """The connection to a client, with methods that send parts of a response."""

    writer: asyncio.StreamWriter
    asked: Asked

    def send(self, text: str | bytes) -> None:
        self.writer.write(text.encode() if isinstance(text, str) else text)

    async def head(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        """Send the header of a chunked response."""
        named = {"Content-Type": kind, "Transfer-Encoding": "chunked", "Connection": "close"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        self.send(f"HTTP/1.1 {status} Because\r\n{lines}\r\n")
        await self.writer.drain()

    async def chunk(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    async def event(self, data: Any) -> None:
        await self.chunk(f"data: {json.dumps(data) if not isinstance(data, str) else data}\n\n")

    async def end(self) -> None:
        self.send("0\r\n\r\n")
        await self.writer.drain()

    async def whole(self, status: int, body: Any, kind: str = "application/json", **headers: str) -> None:
        await self.head(status, kind, **headers)
        await self.chunk(body if isinstance(body, (str, bytes)) else json.dumps(body))
        await self.end()

    def reset(self) -> None:
        """Reset the connection without closing it properly."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Behaviour = Callable[[Line], Awaitable[None]]


def piece(text: str, *, finish: str | None = None, **extra: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish, **extra}
    return {"id": "x", "object": "chat.completion.chunk", "model": "served", "choices": [choice]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 70, "completion_tokens": 30}}


def saying(text: str, *, finish: str = "stop", usage: bool = True) -> Behaviour:
    """Return a behaviour that streams this text without faults."""

    async def say(line: Line) -> None:
        await line.head()
        await line.chunk(": keep-alive\n\n")
        for start in range(0, len(text), 16):
            await line.event(piece(text[start : start + 16]))
        await line.event(piece("", finish=finish))
        if usage:
            await line.event(USAGE)
        await line.event("[DONE]")
        await line.end()

    return say


good = saying(KERNEL)


def refusing(status: int, message: str, code: str | None = None, **headers: str) -> Behaviour:
    async def refuse(line: Line) -> None:
        await line.whole(status, {"error": {"message": message, "code": code}}, **headers)

    return refuse


def answering(body: Any, kind: str = "application/json") -> Behaviour:
    async def answer(line: Line) -> None:
        await line.whole(200, body, kind)

    return answer


def streaming(*data: Any) -> Behaviour:
    async def stream(line: Line) -> None:
        await line.head()
        for item in data:
            await line.event(item)
        await line.end()

    return stream


async def hang(line: Line) -> None:
    """Receive the question and never answer."""
    await asyncio.sleep(LONG_S)


async def hang_after_the_headers(line: Line) -> None:
    await line.head()
    await asyncio.sleep(LONG_S)


async def hang_in_the_middle(line: Line) -> None:
    await line.head()
    await line.event(piece("a pl"))
    await asyncio.sleep(LONG_S)


async def think_unheard(line: Line) -> None:
    """Send an empty piece, wait, then send the whole answer."""
    await line.head()
    await line.event(piece(""))
    await asyncio.sleep(0.3)
    await line.event(piece(KERNEL, finish="stop"))
    await line.end()


async def hang_at_the_end(line: Line) -> None:
    """Send the whole answer, but never end the stream."""
    await line.head()
    await line.event(piece(KERNEL, finish="stop"))
    await asyncio.sleep(LONG_S)


async def half_a_stream(line: Line) -> None:
    """Close the connection in the middle of the body."""
    await line.head()
    await line.event(piece("a pl"))
    line.writer.close()


async def half_a_stream_that_looks_whole(line: Line) -> None:
    """End the body properly in the middle of an answer, as a proxy between server and client does."""
    await line.head()
    await line.event(piece("a pl"))
    await line.end()


async def reset(line: Line) -> None:
    line.reset()


async def reset_in_the_middle(line: Line) -> None:
    await line.head()
    await line.event(piece("a pl"))
    line.reset()


async def slow_bytes(line: Line) -> None:
    """Send pieces with short pauses and never end."""
    await line.head()
    with contextlib.suppress(ConnectionError):
        while True:
            await line.event(piece("x"))
            await asyncio.sleep(0.02)


async def endless(line: Line) -> None:
    """Send pieces as fast as possible and never end."""
    await line.head()
    with contextlib.suppress(ConnectionError):
        while True:
            await line.event(piece("spam " * 200))


async def one_endless_line(line: Line) -> None:
    """Send one event that never ends."""
    await line.head()
    with contextlib.suppress(ConnectionError):
        await line.chunk("data: ")
        while True:
            await line.chunk(b"a" * 4096)


class FaultServer:
    """Serves one behaviour per question, in a thread of its own."""

    def __init__(self, *behaviours: Behaviour, models: Any = None, spelled: Any = None) -> None:
        self.behaviours = behaviours
        self.models = models
        """Response to requests for the list of models; None for 404."""
        self.spelled = spelled
        """Response to requests to detokenize; None if there must be none."""
        self.asked: list[Asked] = []
        """Questions in the order of arrival."""
        self.looked: list[Asked] = []
        """All other requests, such as those for the list of models and to detokenize."""
        self.open_connections = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> FaultServer:
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = starting.result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        try:
            line = Line(writer=writer, asked=await _read(reader))
            await self._answer(reader, line)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open_connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, line: Line) -> None:
        if not line.asked.path.endswith("/chat/completions"):
            self.looked.append(line.asked)
            said = self.spelled if line.asked.path == "/detokenize" else self.models
            await (refusing(404, "not here") if said is None else answering(said))(line)
            return
        self.asked.append(line.asked)
        behaviour = self.behaviours[min(len(self.asked), len(self.behaviours)) - 1]
        acting, gone = asyncio.ensure_future(behaviour(line)), asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({acting, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            acting.cancel()
            gone.cancel()
            await asyncio.gather(acting, gone, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if name}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method=method, path=path, headers=headers, body=json.loads(body) if body else None)


@contextlib.contextmanager
def dead_port() -> Iterator[int]:
    """Yield a port on which nobody listens and which no other process can take meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]

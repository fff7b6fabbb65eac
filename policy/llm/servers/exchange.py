"""Sends one request to a chat server and reads the response, within limits of time and size.

The response is streamed if the server supports that, so that a dead server is noticed long before the answer would be
due. Redirects are not followed, so the key goes only to the named address. Not covered: retries; see `openai.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx

from triton_agent.policy.llm.servers.keys import Key
from triton_agent.policy.llm.servers.patience import Patience
from triton_agent.policy.llm.servers.refusals import NoReply, Refusal, read_error_event, read_refusal
from triton_agent.policy.llm.servers.reply import Response, garbage

ERROR_BYTES = 16 << 10
"""Most bytes that are read of an error response."""
DONE = "[DONE]"
NOBODY = "check that the server runs and that --base-url is its address"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Sends requests to one server."""

    client: httpx.AsyncClient
    url: str
    key: Key
    patience: Patience
    heed: Callable[[Mapping[str, str]], None] = lambda headers: None
    """Called with the headers of each response."""

    async def ask(self, body: dict[str, Any]) -> Response:
        """Send a request; return a response with at least one finished answer, or raise NoReply."""
        model, reply = str(body["model"]), Response(wanted=body.get("n", 1))
        request = self.client.build_request("POST", self.url, content=json.dumps(body), headers=self._headers())
        try:
            return await self._ask(request, model, reply)
        except httpx.ConnectTimeout:
            raise lost(f"no connection within {self.patience.connect_s:g} s", NOBODY) from None
        except httpx.ConnectError as error:
            again = "certificate" not in str(error).lower()  # retrying does not fix a certificate
            raise NoReply(Refusal(what=f"no connection: {error}", remedy=NOBODY, again=again)) from None
        except httpx.DecodingError:
            raise garbage("bytes that do not have the stated compression") from None
        except httpx.TransportError as error:
            raise lost(f"the connection broke: {str(error) or type(error).__name__}") from None

    def _headers(self) -> dict[str, str]:
        plain = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        return plain | {"Accept-Encoding": "identity"} | self.key.headers()

    async def _ask(self, request: httpx.Request, model: str, reply: Response) -> Response:
        first_by = asyncio.get_running_loop().time() + self.patience.first_byte_s
        async with self._sent(request, first_by) as response:
            self.heed(response.headers)
            if response.status_code != 200:
                raise NoReply(await self._refusal(response, model, first_by))
            chunks = self._chunks(response, first_by, reply)
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "text/event-stream":
                return await self._streamed(chunks, reply, model)
            if kind == "application/json":
                return await self._whole(chunks, reply, model)
            raise NoReply(
                Refusal(
                    what=f"it answers with {kind or 'no content type'}, which is no chat completion",
                    remedy="is --base-url the address of an OpenAI-compatible server? it often ends in /v1",
                )
            )

    @contextlib.asynccontextmanager
    async def _sent(self, request: httpx.Request, first_by: float) -> AsyncIterator[httpx.Response]:
        try:
            async with asyncio.timeout_at(first_by):
                response = await self.client.send(request, stream=True, follow_redirects=False)
        except TimeoutError:
            raise lost(f"no response within {self.patience.first_byte_s:g} s") from None
        try:
            yield response
        finally:
            await response.aclose()

    async def _chunks(self, response: httpx.Response, first_by: float, reply: Response) -> AsyncIterator[bytes]:
        """Yield bytes as they arrive, within the limits of silence and size. The limit before the first byte of text is
        longer, because a model may think first.
        """
        loop, source, received = asyncio.get_running_loop(), response.aiter_bytes(), 0
        due = first_by
        while True:
            try:
                async with asyncio.timeout_at(due):
                    chunk = await anext(source, None)
            except TimeoutError:
                raise lost("the server stopped sending" if received else "no byte of an answer in time") from None
            if chunk is None:
                return
            received += len(chunk)
            if received > self.patience.wire_bytes:
                raise NoReply(Refusal(what=f"more than {self.patience.wire_bytes} bytes that are no answer"))
            yield chunk
            due = loop.time() + (self.patience.between_bytes_s if reply.text_bytes else self.patience.first_byte_s)

    async def _refusal(self, response: httpx.Response, model: str, first_by: float) -> Refusal:
        body = bytearray()
        with contextlib.suppress(NoReply, httpx.TransportError, httpx.DecodingError):  # use the bytes that have arrived
            async for chunk in self._chunks(response, first_by, Response()):
                body += chunk
                if len(body) > ERROR_BYTES:
                    break
        text = bytes(body[:ERROR_BYTES]).decode("utf-8", "replace")
        return read_refusal(response.status_code, response.headers, text, model=model, key_name=self.key.name)

    async def _streamed(self, chunks: AsyncIterator[bytes], reply: Response, model: str) -> Response:
        try:
            async for data in events(chunks):
                if data == DONE:
                    reply.complete = True
                    return _finished(reply, "stop")
                self._take(reply, data, model)
                if reply.cut(self.patience.answer_bytes):
                    return reply
        except (NoReply, httpx.TransportError):
            if not reply.finished:  # unfinished answers are requested again, unless the server says why not
                raise
        return _finished(reply, "")

    async def _whole(self, chunks: AsyncIterator[bytes], reply: Response, model: str) -> Response:
        body = bytearray()
        async for chunk in chunks:
            body += chunk
        self._take(reply, body.decode("utf-8", "replace"), model)
        reply.complete = True
        reply.cut(self.patience.answer_bytes)
        return _finished(reply, "stop")

    def _take(self, reply: Response, data: str, model: str) -> None:
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            raise garbage("something that is no JSON") from None
        if isinstance(event, dict) and event.get("error"):
            raise NoReply(read_error_event(event["error"], model=model, key_name=self.key.name))
        reply.take(event)


def _finished(reply: Response, otherwise: str) -> Response:
    """Return a response with finished answers. An answer is unfinished if its stream breaks off."""
    if not reply.replies:
        raise garbage("a response without an answer in it")
    reply.finish(otherwise)
    if not reply.finished:
        raise lost("the stream ended in the middle of the answer")
    return reply


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield the data of server-sent events, skipping keep-alive comments."""
    data: list[str] = []
    async for line in _lines(chunks):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []
    if data:
        yield "\n".join(data)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    rest = bytearray()
    async for chunk in chunks:
        searched = len(rest)
        rest += chunk
        while (end := rest.find(b"\n", searched)) >= 0:
            yield rest[:end].decode("utf-8", "replace").removesuffix("\r")
            del rest[: end + 1]
            searched = 0
    if rest:
        yield rest.decode("utf-8", "replace").removesuffix("\r")


def lost(what: str, remedy: str = "") -> NoReply:
    return NoReply(Refusal(what=what, remedy=remedy, again=True))

"""Reads a server's list of models: the kind of server, and the context size of the model.

vLLM names itself and its limit there; llama.cpp gives its limit in another field. Most other servers give neither. A
missing list is not an error: if something is wrong, the first question shows it.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import httpx

from triton_agent.policy.llm.servers.keys import Key

LOOK_S = 5.0
LIST_BYTES = 4 << 20
"""Longest list that is read; hosted routers list a few hundred models."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerCard:
    """Known properties of a server."""

    owner: str = ""
    """Kind of server: `vllm` or `llamacpp`, among others."""
    context_tokens: int | None = None


async def look(client: httpx.AsyncClient, base_url: str, key: Key, model: str) -> ServerCard | None:
    """Read the list of models; return None without a response, in which case it may be requested again later."""
    try:
        async with asyncio.timeout(LOOK_S):
            async with client.stream("GET", f"{base_url}/models", headers=key.headers()) as response:
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > LIST_BYTES:
                        return ServerCard()
                return _read(httpx.Response(response.status_code, content=bytes(body)), model)
    except (TimeoutError, httpx.TransportError, httpx.DecodingError):
        return None


def _read(response: httpx.Response, model: str) -> ServerCard:
    try:
        listed = response.json()["data"] if response.status_code == 200 else []
        cards = [item for item in listed if isinstance(item, dict)]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ServerCard()
    card = next((item for item in cards if item.get("id") == model), cards[0] if len(cards) == 1 else {})
    return ServerCard(owner=str(card.get("owned_by") or ""), context_tokens=_context(card))


def _context(card: dict[str, Any]) -> int | None:
    meta = card.get("meta") if isinstance(card.get("meta"), dict) else {}
    told = (card.get("max_model_len"), (meta or {}).get("n_ctx"), card.get("context_length"))
    return next((value for value in told if type(value) is int and value > 0), None)

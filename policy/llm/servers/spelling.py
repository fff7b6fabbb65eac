"""Compares the text of an answer with its tokens, and restores an end that the server held back.

Servers stream text and hold back incomplete characters. If an answer ends within a character, as it may at its limit,
these bytes are never sent. Tokens of such bytes have no text in the list of log-probabilities, so only answers with
such a token are in doubt. vLLM can then decode all tokens. Not covered: servers other than vLLM; the answer then
records that its last character may be missing.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

import httpx

from triton_agent.policy.llm.servers.keys import Key
from triton_agent.policy.llm.servers.reply import Reply

SPELLING_BYTES = 16 << 20
UNREADABLE = "\ufffd"
"""Replacement for bytes that do not form a character."""
KEPT_APART = "the server separates thoughts and tool calls, which the tokens include"
KEPT_BACK = "the text may lack its last character, whose bytes the server held back"
OTHERWISE = "the text differs from the tokens as the server decodes them"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Speller:
    """Asks a vLLM server to decode tokens."""

    client: httpx.AsyncClient
    base_url: str
    key: Key
    model: str
    within_s: float

    async def spell(self, token_ids: Sequence[int]) -> str | None:
        """Decode tokens, including special ones; return None if the server fails."""
        url = f"{self.base_url.removesuffix('/v1')}/detokenize"
        asked = {"model": self.model, "tokens": list(token_ids)}
        body = bytearray()
        try:
            async with asyncio.timeout(self.within_s):
                async with self.client.stream("POST", url, json=asked, headers=self.key.headers()) as response:
                    async for chunk in response.aiter_bytes():
                        body += chunk
                        if len(body) > SPELLING_BYTES:
                            return None
            told = httpx.Response(response.status_code, content=bytes(body)).json() if response.is_success else None
        except (TimeoutError, httpx.TransportError, httpx.DecodingError, ValueError, RecursionError):
            return None
        text = told.get("prompt") if isinstance(told, dict) else None
        return text if isinstance(text, str) else None


async def respell(reply: Reply, speller: Speller | None) -> None:
    """Set the reply's text to the decoded tokens, or record why it may differ from them."""
    token_ids, _, _ = reply.tokens()
    texts = reply.listed_texts
    if token_ids is None:
        return
    if reply.reasoned or reply.called:
        reply.doubt = KEPT_APART
    elif len(texts) == len(token_ids) and "" in texts:
        if speller is not None:
            await _spell(reply, token_ids, speller)
        elif reply.finish_reason == "length" and not texts[-1]:
            reply.doubt = KEPT_BACK


async def _spell(reply: Reply, token_ids: Sequence[int], speller: Speller) -> None:
    said = [token for token, text in zip(token_ids, reply.listed_texts) if not _is_mark(text, reply.text)]
    spelled = await speller.spell(said)
    if spelled is None:
        reply.doubt = KEPT_BACK
    elif spelled.startswith(reply.text):
        reply.spelled = spelled
    else:
        reply.doubt = OTHERWISE


def _is_mark(token_text: str, answer: str) -> bool:
    """Return True for special tokens, such as the end of a turn, whose text is not in the answer."""
    return token_text not in answer and UNREADABLE not in token_text

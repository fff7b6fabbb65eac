"""True if the text of an answer is what its tokens spell; and its end, where the server kept that back.

Servers send text as it grows, and wait with the bytes of a character until the last of them has come. Where an answer
ends before that, as at its limit, they are never sent. Tokens that brought such bytes have no text of their own beside
their log-probabilities, so only answers with one of those are in doubt. vLLM then says what all the tokens spell. Not
covered: servers other than vLLM; what they may have kept back is said and stays away.
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
"""Stands for bytes that make up no character."""
PUT_TOGETHER = "the server keeps thoughts apart: the text puts them back, and its tokens do not spell it to the letter"
KEPT_BACK = "the text may lack its last character, whose bytes the server kept back"
OTHERWISE = "the text is not what its tokens spell, by the server itself"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Speller:
    """A vLLM server that is asked what tokens spell."""

    client: httpx.AsyncClient
    base_url: str
    key: Key
    model: str
    within_s: float

    async def spell(self, token_ids: Sequence[int]) -> str | None:
        """With the marks of the format; None where the server does not say."""
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
    """Gives the reply the text that its tokens spell, or the reason why it may have another one."""
    token_ids, _, _ = reply.tokens()
    texts = reply.listed_texts
    if token_ids is None:
        return
    if reply.reasoned:
        reply.doubt = PUT_TOGETHER
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
    """Marks of the format, such as the end of a turn, are tokens whose text the answer does not have."""
    return token_text not in answer and UNREADABLE not in token_text

"""Which number each answer is drawn with: the same for the same question, another for another."""

from __future__ import annotations

import hashlib

from triton_agent.policy.llm.engine import ModelQuestion

BITS = 62
"""Fits the signed integers that generators of all engines take."""


def seeds_of(question: ModelQuestion) -> list[int]:
    """One for each answer wanted. They depend on the conversation, too: turns under one seed must not be alike."""
    said = hashlib.sha256(str(question.sampling.seed).encode())
    for message in question.messages:
        said.update(f"\0{message.role}\0{message.content}".encode(errors="surrogatepass"))
    return [_number(said.digest(), index) for index in range(question.n)]


def _number(said: bytes, index: int) -> int:
    return int.from_bytes(hashlib.sha256(said + index.to_bytes(8, "big")).digest()[:8], "big") >> (64 - BITS)

"""Shared parts of the tests of language models: an observation, a short prompt, and short timeouts."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules
from triton_agent.memory.records import Completion, Message
from triton_agent.policy.llm.author import LanguageAuthor
from triton_agent.policy.llm.engine import Sampling
from triton_agent.policy.llm.servers.keys import Key
from triton_agent.policy.llm.servers.openai import OpenAIEngine, Server
from triton_agent.policy.llm.servers.patience import Patience

KEY = "sk-test-0123456789abcdef"
PATIENT = Patience(
    connect_s=10.0,
    first_byte_s=20.0,
    between_bytes_s=20.0,
    total_s=60.0,
    tries=3,
    retry_within_s=60.0,
    first_wait_s=0.01,
    longest_wait_s=0.02,
    answer_bytes=20_000,
    wire_bytes=100_000,
)
"""Timeouts for servers that answer, long enough for a busy machine."""
HASTY = dataclasses.replace(PATIENT, first_byte_s=0.5, between_bytes_s=0.3)
"""Timeouts for servers that hang."""
VIEW = ProblemView(digest="p", name="problem", spec={}, source="class Model: ...", fingerprint="f")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A rendered prompt."""

    messages: tuple[Message, ...]
    version: str
    tokens: int


def render(observation: Observation, *, budget_tokens: int, count: Callable[[str], int]) -> Page:
    """Render a prompt that fills the budget with filler words."""
    text = " ".join(["write", *["word"] * 5000])
    words = text.split()[: max(1, budget_tokens - 16)]
    said = Message(role="user", content=" ".join(words))
    return Page(messages=(Message(role="system", content="Be brief."), said), version="test/1", tokens=len(words))


def seen(**changes: Any) -> Observation:
    usual: dict[str, Any] = {"problem": VIEW, "rules": Rules(), "turn": 0, "seed": 0, "budget": BudgetLeft()}
    return Observation(**usual | changes)


def author(url: str, *, model: str = "served", key: str = KEY, sampling: Sampling | None = None, **server: Any) -> Any:
    settings = Server(**{"base_url": url, "key": Key("TEST_KEY", key), "patience": PATIENT} | server)
    return LanguageAuthor(OpenAIEngine(model, settings), sampling, render=render)


def propose(asked: LanguageAuthor, n: int = 1, **changes: Any) -> list[Completion]:
    return asyncio.run(asked.propose(seen(**changes), n))

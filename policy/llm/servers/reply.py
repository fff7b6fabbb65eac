"""Collects an answer from the pieces of a stream or from one response.

Reads the OpenAI format and the token ids that vLLM and llama.cpp add. Reasoning that a server keeps apart is put back
before the answer, between tags that `policy/answer.py` skips, so that no sampled text is lost.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from triton_agent.policy.llm.servers.refusals import NoReply, Refusal

REASONING_NAMES = ("reasoning_content", "reasoning")
NO_IDS = "the server tells no token ids"
NO_LOG_PROBABILITIES = "the server tells no log-probabilities"


@dataclasses.dataclass(slots=True)
class Reply:
    """The answer so far."""

    said: list[str] = dataclasses.field(default_factory=list)
    reasoned: list[str] = dataclasses.field(default_factory=list)
    text_bytes: int = 0
    finish_reason: str = ""
    prompt_ids: tuple[int, ...] | None = None
    token_ids: list[int] = dataclasses.field(default_factory=list)
    listed_ids: list[int] = dataclasses.field(default_factory=list)
    """Token ids in the list of log-probabilities."""
    listed_texts: list[str] = dataclasses.field(default_factory=list)
    """Text of each token; empty where its bytes await those of the next."""
    log_probabilities: list[float] = dataclasses.field(default_factory=list)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    model: str = ""
    fingerprint: str = ""
    answered: bool = False
    """The response held at least one choice."""
    spelled: str | None = None
    """The text decoded from the tokens, if it was requested."""
    doubt: str = ""
    """Why the text may differ from the tokens."""

    @property
    def text(self) -> str:
        if self.spelled is not None:
            return self.spelled
        said, reasoned = "".join(self.said), "".join(self.reasoned)
        if not reasoned:
            return said
        return f"<think>{reasoned}</think>\n{said}" if said else f"<think>{reasoned}"

    @property
    def version(self) -> str:
        """The model's name and the server's configuration, as far as it says."""
        return f"{self.model} {self.fingerprint}".strip()

    def take(self, event: Any) -> None:
        """Add one piece of a stream, or the whole response."""
        if not isinstance(event, dict):
            raise garbage(f"a {type(event).__name__} instead of an object")
        self.model = _text(event.get("model")) or self.model
        self.fingerprint = _text(event.get("system_fingerprint")) or self.fingerprint
        self._count(event.get("usage"))
        ids = _ids(event.get("prompt_token_ids"))
        self.prompt_ids = tuple(ids) if ids else self.prompt_ids
        choices = event.get("choices")
        if choices is not None and not isinstance(choices, list):
            raise garbage("choices that are no list")
        for choice in (choices or [])[:1]:
            self._choose(choice)

    def _choose(self, choice: Any) -> None:
        if not isinstance(choice, dict):
            raise garbage("a choice that is no object")
        self.answered = True
        message = choice.get("delta") or choice.get("message") or {}
        if not isinstance(message, dict):
            raise garbage("a message that is no object")
        self._say(self.said, _content(message.get("content")) or _text(message.get("refusal")))
        self._say(self.reasoned, next(filter(None, (_text(message.get(name)) for name in REASONING_NAMES)), ""))
        self.token_ids += _ids(choice.get("token_ids"))
        self._list(choice.get("logprobs"))
        self.finish_reason = _text(choice.get("finish_reason")) or self.finish_reason

    def _say(self, where: list[str], text: str) -> None:
        if text:
            where.append(text)
            self.text_bytes += len(text.encode("utf-8", "surrogatepass"))

    def _list(self, logprobs: Any) -> None:
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        for item in content if isinstance(content, list) else []:
            value = item.get("logprob") if isinstance(item, dict) else None
            if isinstance(value, (int, float)) and math.isfinite(value):
                self.log_probabilities.append(float(value))
                self.listed_ids += _ids([item.get("id")])
                self.listed_texts += [item["token"]] if isinstance(item.get("token"), str) else []

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self.prompt_tokens = _count(usage.get("prompt_tokens"), self.prompt_tokens)
            self.completion_tokens = _count(usage.get("completion_tokens"), self.completion_tokens)

    def cut(self, limit: int) -> None:
        """Cut the text to `limit` bytes."""
        text = self.text.encode("utf-8", "surrogatepass")[:limit].decode("utf-8", "ignore")
        self.said, self.reasoned, self.text_bytes = [text], [], min(self.text_bytes, limit)
        self.finish_reason = OVERSIZED

    def tokens(self) -> tuple[tuple[int, ...] | None, tuple[float, ...] | None, str]:
        """Return token ids, their log-probabilities, and why either is missing."""
        ids = self.token_ids or self.listed_ids
        if self.finish_reason == OVERSIZED:
            return None, None, "the answer was cut off where it became too long"
        if not ids:
            beside = "; its log-probabilities are of no use without" if self.log_probabilities else ""
            return None, None, NO_IDS + beside
        if len(ids) != len(self.log_probabilities):
            found = len(self.log_probabilities)
            why = f"the server tells {found} log-probabilities for {len(ids)} tokens" if found else NO_LOG_PROBABILITIES
            return tuple(ids), None, why
        return tuple(ids), tuple(self.log_probabilities), ""


OVERSIZED = "oversized"
"""Our own finish reason for an answer that was cut."""


def garbage(what: str) -> NoReply:
    return NoReply(Refusal(what=f"the server sent {what}", again=True))


def _content(value: Any) -> str:
    """Return the text of a content field: text, or a list of parts of which some are text."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _ids(value: Any) -> list[int]:
    return [item for item in value if type(item) is int] if isinstance(value, list) else []


def _count(value: Any, before: int | None) -> int | None:
    return value if type(value) is int and value >= 0 else before

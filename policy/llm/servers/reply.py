"""Assembles the answers of a response, from the chunks of a stream or from a whole response.

Reads the OpenAI format and the token ids that vLLM and llama.cpp add. Thoughts that a server separates stay separate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from triton_agent.memory.records import ToolCall, Usage
from triton_agent.policy.llm.servers.refusals import NoReply, Refusal

REASONING_NAMES = ("reasoning_content", "reasoning")
NO_IDS = "the server returns no token ids"
NO_LOG_PROBABILITIES = "the server returns no log-probabilities"
MOST_CALLS = 16
"""Most tool calls of one message; further ones are dropped."""


@dataclasses.dataclass(slots=True)
class Reply:
    """One answer as received so far."""

    said: list[str] = dataclasses.field(default_factory=list)
    reasoned: list[str] = dataclasses.field(default_factory=list)
    called: dict[int, dict[str, str]] = dataclasses.field(default_factory=dict)
    """Tool calls by their index, with id, name and arguments."""
    text_bytes: int = 0
    finish_reason: str = ""
    token_ids: list[int] = dataclasses.field(default_factory=list)
    listed_ids: list[int] = dataclasses.field(default_factory=list)
    """Token ids in the list of log-probabilities."""
    listed_texts: list[str] = dataclasses.field(default_factory=list)
    """Text of each token; empty if its bytes only form a character with the next token's bytes."""
    log_probabilities: list[float] = dataclasses.field(default_factory=list)
    spelled: str | None = None
    """The text decoded from the tokens, if it was requested."""
    doubt: str = ""
    """Why the text may differ from the tokens."""

    @property
    def text(self) -> str:
        return self.spelled if self.spelled is not None else "".join(self.said)

    @property
    def reasoning(self) -> str:
        return "".join(self.reasoned)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(ToolCall(**call) for _, call in sorted(self.called.items()) if call["name"])

    def take(self, choice: dict[str, Any]) -> None:
        """Add one chunk of this answer, or the whole answer."""
        message = choice.get("delta") or choice.get("message") or {}
        if not isinstance(message, dict):
            raise garbage("a message that is not an object")
        self._append(self.said, _content(message.get("content")) or _text(message.get("refusal")))
        self._append(self.reasoned, next(filter(None, (_text(message.get(name)) for name in REASONING_NAMES)), ""))
        self._call(message.get("tool_calls"))
        self.token_ids += _ids(choice.get("token_ids"))
        self._list(choice.get("logprobs"))
        self.finish_reason = _text(choice.get("finish_reason")) or self.finish_reason

    def _append(self, where: list[str], text: str) -> None:
        if text:
            where.append(text)
            self.text_bytes += len(text.encode("utf-8", "surrogatepass"))

    def _call(self, tool_calls: Any) -> None:
        """Add to the tool calls, whose arguments arrive in chunks, too."""
        for place, item in enumerate(tool_calls if isinstance(tool_calls, list) else []):
            if not isinstance(item, dict):
                continue
            index = item["index"] if type(item.get("index")) is int else place
            function = item["function"] if isinstance(item.get("function"), dict) else {}
            if index in self.called or len(self.called) < MOST_CALLS:
                call = self.called.setdefault(index, {"id": "", "name": "", "arguments": ""})
                call["id"] = _text(item.get("id")) or call["id"] or f"call_{index}"
                call["name"] = call["name"] or _text(function.get("name"))
                arguments = _text(function.get("arguments"))
                call["arguments"] += arguments
                self.text_bytes += len(arguments.encode("utf-8", "surrogatepass"))

    def _list(self, logprobs: Any) -> None:
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        for item in content if isinstance(content, list) else []:
            value = item.get("logprob") if isinstance(item, dict) else None
            if isinstance(value, (int, float)) and math.isfinite(value):
                self.log_probabilities.append(float(value))
                self.listed_ids += _ids([item.get("id")])
                self.listed_texts += [item["token"]] if isinstance(item.get("token"), str) else []

    def cut(self, limit: int) -> None:
        """Cut thoughts and text to `limit` bytes in all, and drop tool calls."""
        reasoning = _first_bytes(self.reasoning, limit)
        left = limit - len(reasoning.encode("utf-8", "surrogatepass"))
        self.said, self.reasoned, self.called = [_first_bytes(self.text, left)], [reasoning], {}
        self.text_bytes = min(self.text_bytes, limit)
        self.finish_reason = OVERSIZED

    def tokens(self) -> tuple[tuple[int, ...] | None, tuple[float, ...] | None, str]:
        """Return token ids, their log-probabilities, and why either is missing."""
        ids = self.token_ids or self.listed_ids
        if self.finish_reason == OVERSIZED:
            return None, None, "the answer was cut off where it became too long"
        if not ids:
            beside = "; log-probabilities are useless without them" if self.log_probabilities else ""
            return None, None, NO_IDS + beside
        if len(ids) != len(self.log_probabilities):
            found = len(self.log_probabilities)
            why = (
                f"the server returns {found} log-probabilities for {len(ids)} tokens" if found else NO_LOG_PROBABILITIES
            )
            return tuple(ids), None, why
        return tuple(ids), tuple(self.log_probabilities), ""


@dataclasses.dataclass(slots=True)
class Response:
    """A server's response to one request so far: one or several answers, and properties of the whole response."""

    wanted: int = 1
    """Number of answers requested."""
    replies: dict[int, Reply] = dataclasses.field(default_factory=dict)
    """Answers by the server's index."""
    prompt_ids: tuple[int, ...] | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    model: str = ""
    fingerprint: str = ""
    complete: bool = False
    """True if the server marked the end of the response."""

    @property
    def text_bytes(self) -> int:
        return sum(reply.text_bytes for reply in self.replies.values())

    @property
    def version(self) -> str:
        """The model's name and the fingerprint of the server's configuration, as far as the server states them."""
        return f"{self.model} {self.fingerprint}".strip()

    @property
    def finished(self) -> list[Reply]:
        """The answers that are complete, in order."""
        return [reply for _, reply in sorted(self.replies.items()) if reply.finish_reason]

    def take(self, event: Any) -> None:
        """Add one chunk of a stream, or the whole response."""
        if not isinstance(event, dict):
            raise garbage(f"a {type(event).__name__} instead of an object")
        self.model = _text(event.get("model")) or self.model
        self.fingerprint = _text(event.get("system_fingerprint")) or self.fingerprint
        self._count(event.get("usage"))
        ids = _ids(event.get("prompt_token_ids"))
        self.prompt_ids = tuple(ids) if ids else self.prompt_ids
        choices = event.get("choices")
        if choices is not None and not isinstance(choices, list):
            raise garbage("choices that are not a list")
        for place, choice in enumerate(choices or []):
            if not isinstance(choice, dict):
                raise garbage("a choice that is not an object")
            number = choice["index"] if type(choice.get("index")) is int else place
            if 0 <= number < self.wanted:
                self.replies.setdefault(number, Reply()).take(choice)

    def cut(self, limit: int) -> bool:
        """Cut the answers that are longer than `limit` bytes; return True if there were any."""
        long = [reply for reply in self.replies.values() if reply.text_bytes > limit]
        for reply in long:
            reply.cut(limit)
        return bool(long)

    def finish(self, otherwise: str) -> None:
        """Set this finish reason for answers that have none."""
        for reply in self.replies.values():
            reply.finish_reason = reply.finish_reason or otherwise

    def usages(self) -> list[Usage] | None:
        """Return the usage of each finished answer, which add up to the request's; None if the server states none.

        The answers of one request share its prompt. An answer's own tokens are counted if the server lists them,
        otherwise estimated in proportion to its text.
        """
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        replies = self.finished
        lengths = [len(reply.token_ids or reply.listed_ids) for reply in replies]
        weights = lengths if all(lengths) else [1 + reply.text_bytes for reply in replies]
        even = [1] * len(replies)
        shares = zip(
            _shared(self.prompt_tokens, even),
            _shared(min(self.cached_tokens or 0, self.prompt_tokens), even),
            _shared(self.completion_tokens, weights),
            _shared(self.reasoning_tokens or 0, weights),
        )
        return [
            Usage(prompt_tokens=prompt, cached_tokens=cached, completion_tokens=completion, reasoning_tokens=reasoning)
            for prompt, cached, completion, reasoning in shares
        ]

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        self.prompt_tokens = _count(usage.get("prompt_tokens"), self.prompt_tokens)
        self.completion_tokens = _count(usage.get("completion_tokens"), self.completion_tokens)
        prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
        cached = prompt.get("cached_tokens") if isinstance(prompt, dict) else usage.get("prompt_cache_hit_tokens")
        self.cached_tokens = _count(cached, self.cached_tokens)
        thought = completion.get("reasoning_tokens") if isinstance(completion, dict) else None
        self.reasoning_tokens = _count(thought, self.reasoning_tokens)


OVERSIZED = "oversized"
"""This module's finish reason for an answer that was cut off."""


def garbage(what: str) -> NoReply:
    return NoReply(Refusal(what=f"the server sent {what}", again=True))


def _shared(total: int, weights: Sequence[int]) -> list[int]:
    """Divide a number in proportion to the weights, without a remainder."""
    found, before = [], 0
    for number in range(1, len(weights) + 1):
        upto = total * sum(weights[:number]) // sum(weights)
        found.append(upto - before)
        before = upto
    return found


def _first_bytes(text: str, limit: int) -> str:
    return text.encode("utf-8", "surrogatepass")[:limit].decode("utf-8", "ignore")


def _content(value: Any) -> str:
    """Return the text of a content field, which is a string or a list of parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _ids(value: Any) -> list[int]:
    return [item for item in value if type(item) is int] if isinstance(value, list) else []


def _count(value: Any, before: int | None) -> int | None:
    return value if type(value) is int and value >= 0 else before

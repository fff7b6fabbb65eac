"""`chat:PROVIDER:MODEL`: models of any provider that has a LangChain package, with the extra `chat`.

LangChain hides token ids, log-probabilities and stalled streams, so they are not available here. Its models retry by
themselves and read their keys from the environment. For OpenAI-compatible servers, use `openai.py`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from triton_agent.memory.records import Message, SamplingRecord, Usage
from triton_agent.memory.redaction import REDACTED, redact_text, secrets_of
from triton_agent.policy.llm.engine import ModelQuestion, Sampled, Sampling, Trouble
from triton_agent.policy.llm.prompting.counting import token_bound
from triton_agent.policy.llm.servers.keys import Key
from triton_agent.policy.llm.servers.openai import ASSUMED_CONTEXT_TOKENS, AT_ONCE
from triton_agent.policy.llm.servers.patience import Patience
from triton_agent.policy.llm.servers.price import UNKNOWN, Price
from triton_agent.policy.llm.servers.refusals import OVERFLOW
from triton_agent.tools.errors import UsageError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

MISSING = "LangChain returns no token ids"
CUT_SHORT = frozenset({"length", "max_tokens", "MAX_TOKENS", "model_length"})
"""Providers' finish reasons for an answer that was cut off at its limit."""
WORDS_SHOWN = 300


class ChatEngine:
    """A chat model of LangChain."""

    def __init__(
        self,
        model: BaseChatModel,
        *,
        name: str,
        context_tokens: int | None = None,
        price: Price = UNKNOWN,
        total_s: float = Patience().total_s,
    ) -> None:
        self._model = model
        self._context_tokens = context_tokens
        self._price = price
        self._total_s = total_s
        self.name = name
        self.version = name.rpartition(":")[2]

    @property
    def context_tokens(self) -> int:
        profile = getattr(self._model, "profile", None)
        told = profile.get("max_input_tokens") if isinstance(profile, dict) else None
        return self._context_tokens or told or ASSUMED_CONTEXT_TOKENS

    def count(self, text: str) -> int:
        return token_bound(text)

    async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        room = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            asked = [[group.create_task(self._sample(one, room)) for _ in range(one.n)] for one in questions]
        return [[task.result() for task in tasks] for tasks in asked]

    async def close(self) -> None:
        """Do nothing: LangChain owns the connections."""

    async def _sample(self, question: ModelQuestion, room: asyncio.Semaphore) -> Sampled:
        async with room:
            began_s = time.monotonic()
            try:
                async with asyncio.timeout(self._total_s):
                    answer = await self._model.ainvoke([(item.role, item.content) for item in question.messages])
            # each provider raises its own errors, and none of them is a failure of the model
            except Exception as error:
                return Sampled(text="", finish_reason="", trouble=_trouble(error, self._total_s))
            return self._sampled(answer, question, time.monotonic() - began_s)

    def _sampled(self, answer: Any, question: ModelQuestion, wall_s: float) -> Sampled:
        text = _without_secrets(str(answer.text))
        used, about = answer.usage_metadata or {}, answer.response_metadata or {}
        known = "input_tokens" in used and "output_tokens" in used
        prompt_tokens = used["input_tokens"] if known else self._bound(question.messages)
        completion_tokens = used["output_tokens"] if known else self.count(text)
        cached_tokens = min(prompt_tokens, (used.get("input_token_details") or {}).get("cache_read") or 0)
        reason = str(about.get("finish_reason") or about.get("stop_reason") or "stop")
        return Sampled(
            text=text,
            sampling=SamplingRecord(
                temperature=question.sampling.temperature, tokens_at_most=question.sampling.max_tokens
            ),
            finish_reason="length" if reason in CUT_SHORT else "stop" if reason in ("end_turn", "STOP") else reason,
            missing=MISSING if known else f"{MISSING}, and no usage: it is estimated, rather too high",
            usage=Usage(
                prompt_tokens=prompt_tokens,
                cached_tokens=cached_tokens,
                completion_tokens=completion_tokens,
                cost=self._price.of(prompt_tokens, completion_tokens, cached_tokens),
                wall_s=wall_s,
            ),
            version=str(about.get("model_name") or about.get("model") or ""),
        )

    def _bound(self, messages: Sequence[Message]) -> int:
        return sum(self.count(message.content) for message in messages)


def open_chat(
    text: str,
    sampling: Sampling,
    *,
    base_url: str | None = None,
    key_name: str | None = None,
    context_tokens: int | None = None,
    price: Price = UNKNOWN,
) -> ChatEngine:
    """Open the engine named after `chat:`."""
    provider, _, model = text.partition(":")
    if not provider or not model:
        raise UsageError(f"--policy chat:{text}", remedy="chat:PROVIDER:MODEL, as in chat:mistralai:codestral-latest")
    options: dict[str, Any] = {"temperature": sampling.temperature, "max_tokens": sampling.max_tokens}
    if base_url is not None:
        options["base_url"] = base_url
    if key_name is not None:
        options["api_key"] = Key.from_environment(key_name, required=True).reveal()
    return ChatEngine(_open(provider, model, options), name=f"chat:{text}", context_tokens=context_tokens, price=price)


def _open(provider: str, model: str, options: dict[str, Any]) -> BaseChatModel:
    where = f"--policy chat:{provider}:{model}"
    try:
        from langchain.chat_models import init_chat_model
    except ImportError:
        raise UsageError(
            "this needs LangChain and its package for the provider",
            where=where,
            remedy=f"pip install 'triton-agent[chat]' and, say, langchain-{provider}",
        ) from None
    try:
        opened: BaseChatModel = init_chat_model(model, model_provider=provider, **options)
    except ImportError as error:
        raise UsageError(_words(error), where=where, remedy="install that package beside the extra `chat`") from None
    except Exception as error:  # each package reports an unknown provider or a missing key in its own way
        raise UsageError(_words(error), where=where) from None
    return opened


def _trouble(error: Exception, total_s: float) -> Trouble:
    if isinstance(error, TimeoutError):
        return Trouble(what=f"no whole answer within {total_s:g} s")
    said = f"{type(error).__name__}: {_words(error)}"
    return Trouble(what=said, too_long=OVERFLOW.search(said) is not None)


def _words(error: Exception) -> str:
    return redact_text(" ".join(str(error).split()), secrets_of(os.environ))[:WORDS_SHOWN]


def _without_secrets(text: str) -> str:
    """Remove secrets from an answer and change nothing else."""
    for secret in secrets_of(os.environ):
        text = text.replace(secret, REDACTED)
    return text

"""LangChain's chat models as engines. The extra is not needed here, because langgraph brings the core package."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from tests.policy.llm.asking import KEY, render, seen

from triton_agent.policy.llm.author import LanguageAuthor
from triton_agent.policy.llm.engine import EngineError, Sampling
from triton_agent.policy.llm.servers.chat import ChatEngine, open_chat
from triton_agent.policy.llm.servers.price import Price
from triton_agent.tools.errors import UsageError


class Provider(GenericFakeChatModel):
    """A model that returns its messages in order and raises those that are exceptions."""

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        result = super()._generate(messages)
        text = str(result.generations[0].message.content)
        if text == "sleep":
            await asyncio.sleep(60)
        if text.startswith("raise "):
            raise RuntimeError(text)
        return result


def author(*messages: AIMessage | str, **settings: Any) -> LanguageAuthor:
    engine = ChatEngine(Provider(messages=iter(messages)), name="chat:fake:model", **settings)
    return LanguageAuthor(engine, render=render)


def test_answers_tokens_and_money_are_kept() -> None:
    used = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    about = {"stop_reason": "max_tokens", "model_name": "model-2026"}
    message = AIMessage(content="answer", usage_metadata=used, response_metadata=about)
    (answer,) = asyncio.run(author(message, price=Price(prompt=100.0, completion=1000.0)).propose(seen()))
    assert (answer.text, answer.finish_reason, answer.policy_version) == ("answer", "length", "model-2026")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (10, 5)
    assert answer.usage.cost == pytest.approx(0.006)
    assert answer.token_ids is None and "no token ids" in answer.missing


def test_usage_that_is_not_told_is_estimated_and_said() -> None:
    (answer,) = asyncio.run(author("some words").propose(seen()))
    assert answer.usage.completion_tokens > 0 and "estimated" in answer.missing


def test_one_failure_is_not_the_others() -> None:
    asked = author("one", "raise trouble", "three")
    assert [answer.text for answer in asyncio.run(asked.propose(seen(), 3))] == ["one", "three"]
    assert asked.troubles() == ["RuntimeError: raise trouble"]


def test_a_key_in_an_error_or_an_answer_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_API_KEY", KEY)
    with pytest.raises(EngineError) as raised:
        asyncio.run(author(f"raise {KEY} is wrong").propose(seen()))
    assert KEY not in str(raised.value) and "is wrong" in str(raised.value)
    (answer,) = asyncio.run(author(f"a {KEY} b").propose(seen()))
    assert answer.text == "a [redacted] b"


def test_a_provider_that_hangs_is_given_up() -> None:
    with pytest.raises(EngineError, match="no whole answer within"):
        asyncio.run(author("sleep", total_s=0.05).propose(seen()))


@pytest.mark.parametrize("text", ["", "provider", "provider:", ":model"])
def test_half_a_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="chat:PROVIDER:MODEL"):
        open_chat(text, Sampling())


@pytest.mark.skipif(importlib.util.find_spec("langchain") is not None, reason="the extra is installed")
def test_without_the_extra_it_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"pip install 'triton-agent\[chat\]'"):
        open_chat("someone:model", Sampling())


@pytest.mark.skipif(importlib.util.find_spec("langchain") is None, reason="needs the extra `chat`")
def test_an_unknown_provider_is_refused_with_the_words_of_langchain() -> None:
    with pytest.raises(UsageError, match="nobody"):
        open_chat("nobody:model", Sampling())

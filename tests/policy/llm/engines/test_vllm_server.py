"""A real vLLM server: several answers per request, sampling settings, limited reasoning, and tool calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.policy.llm.engines.real_engines import run_script, vllm_python, vllm_server

from triton_agent.memory.records import Message
from triton_agent.policy.llm.engine import ModelQuestion, Sampled, Sampling, ToolSpec
from triton_agent.policy.llm.servers.openai import OpenAIEngine, Server
from triton_agent.policy.llm.servers.pacing import Limits

pytestmark = pytest.mark.slow
QUESTION = (Message(role="user", content="Write a kernel."),)
THINKS = json.dumps({"reasoning_start_str": "<think>", "reasoning_end_str": "</think>"})
OPTIONS = ("--reasoning-parser", "deepseek_r1", "--reasoning-config", THINKS)
OPTIONS += ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
TOOL = ToolSpec(
    name="profile",
    description="Show a profile.",
    parameters={
        "type": "object",
        "properties": {"attempt": {"enum": ["0.0", "1.0"]}},
        "required": ["attempt"],
        "additionalProperties": False,
    },
)


@pytest.fixture(scope="module")
def url(served_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    vllm_python()
    folder = tmp_path_factory.mktemp("thinking")
    run_script("thinking", folder / "model", served_model)
    with vllm_server(folder / "model", folder / "log", *OPTIONS) as started:
        yield started


def drawn(
    url: str, sampling: Sampling, *, n: int = 1, tools: tuple[ToolSpec, ...] = (), **server: Any
) -> list[Sampled]:
    engine = OpenAIEngine("served", Server.at(url, None, **server))
    question = ModelQuestion(messages=QUESTION, n=n, sampling=sampling, tools=tools)
    (answers,) = asyncio.run(engine.answer([question]))
    assert not [one.trouble for one in answers if one.trouble]
    assert engine._refused == {}, "the server takes every field that it is sent"
    return answers


def test_several_answers_come_in_one_request_each_with_its_own_tokens_and_seed(url: str) -> None:
    sampling = Sampling(max_tokens=24, max_thinking_tokens=8)
    answers = drawn(url, sampling, n=3, limits=Limits(requests=1))
    assert len({one.token_ids for one in answers}) == 3
    first = answers[0].sampling.seed
    assert [one.sampling.seed for one in answers] == [first, first + 1, first + 2]
    assert all(one.token_ids and len(one.token_ids) == len(one.log_probabilities or ()) for one in answers)
    assert len({one.prompt_ids for one in answers}) == 1 and answers[0].prompt_ids


def test_settings_of_the_draw_are_those_that_were_asked_for(url: str) -> None:
    greedy = drawn(url, Sampling(max_tokens=16, top_k=1), n=3)
    assert len({one.token_ids for one in greedy}) == 1, "one token to choose from"
    record = drawn(url, Sampling(max_tokens=4, top_k=5, min_p=0.1, top_p=0.9, repetition_penalty=1.2))[0].sampling
    assert (record.top_k, record.min_p, record.top_p, record.repetition_penalty) == (5, 0.1, 0.9, 1.2)


def test_thoughts_end_at_their_limit_and_leave_the_answer_its_own(url: str) -> None:
    (answer,) = drawn(url, Sampling(max_tokens=32, max_thinking_tokens=16), reasoning_effort="low")
    assert answer.reasoning and answer.text
    assert "think>" not in answer.reasoning + answer.text
    assert answer.usage.completion_tokens <= 48 and answer.sampling.thinking_tokens_at_most == 16
    (longer,) = drawn(url, Sampling(max_tokens=32, max_thinking_tokens=64), reasoning_effort="low")
    assert len(longer.reasoning) > len(answer.reasoning)


def test_a_call_of_a_tool_is_read(url: str) -> None:
    must_call = {"tool_choice": "required"}
    sampling = Sampling(max_tokens=1024, max_thinking_tokens=8)
    (answer,) = drawn(url, sampling, tools=(TOOL,), extra_body=must_call)
    assert answer.calls and {call.name for call in answer.calls} == {"profile"}
    assert all(call.arguments and json.dumps(json.loads(call.arguments)) for call in answer.calls), (
        "a weak model's JSON"
    )
    assert len({call.id for call in answer.calls}) == len(answer.calls)
    assert json.loads(answer.sampling.extra_body or "") == must_call

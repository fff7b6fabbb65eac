"""Tool calls over HTTP: how they are streamed, sent back, refused, and broken."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.policy.llm.asking import KEY, PATIENT, render
from tests.policy.llm.prompting import shown
from tests.policy.llm.servers import fault_server as faults
from tests.policy.llm.servers.fault_server import KERNEL, USAGE, Behaviour, FaultServer, Line, good, refusing, saying

from triton_agent.memory.observation import Observation
from triton_agent.memory.records import Completion, ToolCall
from triton_agent.policy.llm.author import TOOL_ROUNDS, LanguageAuthor
from triton_agent.policy.llm.engine import Sampling, ToolSpec
from triton_agent.policy.llm.servers.keys import Key
from triton_agent.policy.llm.servers.openai import OpenAIEngine, Server

PROFILE = ToolSpec(name="profile", description="Show a profile.", parameters={"type": "object", "properties": {}})
SAMPLING = Sampling(max_tokens=500)


@dataclasses.dataclass(slots=True)
class Noting:
    """Tools that note their calls and answer each with its number."""

    calls: list[ToolCall] = dataclasses.field(default_factory=list)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return (PROFILE,)

    async def use(self, call: ToolCall, seen: Observation, used: Sequence[str]) -> str:
        self.calls.append(call)
        return f"result {len(self.calls)}"


def calling(*pieces: list[dict[str, Any]], finish: str | None = "tool_calls") -> Behaviour:
    """Return a behaviour that streams these pieces of tool calls."""

    async def call(line: Line) -> None:
        await line.head()
        for tool_calls in pieces:
            await line.event({"choices": [{"index": 0, "delta": {"tool_calls": tool_calls}}]})
        if finish is None:
            line.reset()
            return
        await line.event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        await line.event(USAGE)
        await line.event("[DONE]")
        await line.end()

    return call


def one_call(number: int = 0, arguments: str = '{"attempt": "0.0"}') -> dict[str, Any]:
    return {"index": number, "id": f"c{number}", "function": {"name": "profile", "arguments": arguments}}


def talk(*behaviours: Behaviour, n: int = 1) -> tuple[list[Completion], list[Any], Noting, list[str]]:
    """Ask a server that behaves so; return the answers, the requests, the calls and the troubles."""
    tools = Noting()
    with FaultServer(*behaviours) as server:
        engine = OpenAIEngine("served", Server(base_url=server.url, key=Key("TEST_KEY", KEY), patience=PATIENT))
        asked = LanguageAuthor(engine, SAMPLING, render=short, uses_tools=True)
        asked.equip(tools)
        answers = asyncio.run(asked.propose(shown.observation(), n))
    return answers, [one.body for one in server.asked if one.body], tools, asked.troubles()


def short(observation: Observation, *, budget_tokens: int, count: Any) -> Any:
    return render(observation, budget_tokens=100, count=count)


def test_a_call_that_is_streamed_in_pieces_is_used_and_answered() -> None:
    begin, rest = {"index": 0, "id": "c0", "function": {"name": "profile", "arguments": '{"atte'}}, 'mpt": "0.0"}'
    pieces = ([begin], [{"index": 0, "function": {"arguments": rest}}])
    (answer,), (first, second), tools, _ = talk(calling(*pieces), good)
    assert first["tools"] == [{"type": "function", "function": dataclasses.asdict(PROFILE)}]
    assert [(call.id, call.name, json.loads(call.arguments)) for call in tools.calls] == [
        ("c0", "profile", {"attempt": "0.0"})
    ]
    called, result = second["messages"][-2:]
    assert called["role"] == "assistant"
    assert called["tool_calls"] == [
        {
            "id": "c0",
            "type": "function",
            "function": {"name": "profile", "arguments": begin["function"]["arguments"] + rest},
        }
    ]  # type: ignore[index]
    assert result == {"role": "tool", "tool_call_id": "c0", "content": "result 1"}
    assert answer.text == KERNEL and answer.usage.prompt_tokens == 140, "the usage of both requests"


def test_several_calls_of_one_answer_are_all_answered_in_order() -> None:
    _, (_, second), tools, _ = talk(calling([one_call(0), one_call(1)]), good)
    assert [call.id for call in tools.calls] == ["c0", "c1"]
    assert [message["tool_call_id"] for message in second["messages"][-2:]] == ["c0", "c1"]


@pytest.mark.parametrize("broken", [[None], "no list", [{"function": None}], [{"index": "x", "function": []}]])
def test_calls_of_another_shape_do_no_harm(broken: Any) -> None:
    (answer,), bodies, tools, _ = talk(calling(broken), good)
    assert answer.text in (KERNEL, "")
    assert all(call.name == "" for call in tools.calls)
    assert len(bodies) <= 2


def test_a_server_that_refuses_tools_is_asked_without_them_from_then_on() -> None:
    async def strict(line: Line) -> None:
        refused = "tools" in line.asked.body
        await (refusing(400, '"auto" tool choice requires --tool-call-parser') if refused else good)(line)

    (answer,), bodies, tools, _ = talk(strict)
    assert ["tools" in body for body in bodies] == [True, False]
    assert answer.text == KERNEL and "asked without tools" in answer.missing and tools.calls == []


@pytest.mark.parametrize("fault", [refusing(500, "oops"), faults.reset, faults.half_a_stream])
def test_a_fault_after_a_call_is_retried_and_the_tool_is_not_used_again(fault: Behaviour) -> None:
    (answer,), bodies, tools, _ = talk(calling([one_call()]), fault, good)
    assert answer.text == KERNEL and len(bodies) == 3 and len(tools.calls) == 1
    assert bodies[1]["messages"] == bodies[2]["messages"]


def test_a_call_that_breaks_off_is_not_used() -> None:
    (answer,), _, tools, _ = talk(calling([one_call()], finish=None), good)
    assert answer.text == KERNEL and tools.calls == []


def test_an_answer_whose_conversation_ends_in_faults_is_missing_with_the_reason() -> None:
    answers, _, tools, troubles = talk(calling([one_call()]), refusing(401, "no longer valid"))
    assert answers == [] and len(tools.calls) == 1
    assert any("no longer valid" in trouble for trouble in troubles)


def test_a_model_that_never_stops_calling_is_left_after_some_rounds() -> None:
    (answer,), bodies, _, _ = talk(calling([one_call()]))
    assert len(bodies) == TOOL_ROUNDS + 1 and answer.text == ""


def test_each_of_several_answers_has_a_conversation_of_its_own() -> None:
    async def two(line: Line) -> None:
        """Answer at once for one, and call a tool for the other."""
        if line.asked.body.get("n", 1) == 1:
            await saying("after the tool")(line)
            return
        await line.head()
        await line.event({"choices": [{"index": 0, "delta": {"content": "at once"}, "finish_reason": "stop"}]})
        delta = {"tool_calls": [one_call()]}
        await line.event({"choices": [{"index": 1, "delta": delta, "finish_reason": "tool_calls"}]})
        await line.event(USAGE)
        await line.event("[DONE]")
        await line.end()

    answers, bodies, tools, _ = talk(two, n=2)
    assert [answer.text for answer in answers] == ["at once", "after the tool"]
    assert len(tools.calls) == 1 and len(bodies) == 2
    assert len({answer.group for answer in answers}) == 2, "answers to other messages are another group"

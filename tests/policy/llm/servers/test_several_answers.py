"""Several answers per request, reasoning, rate limits and prices: the requests and the recorded answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.policy.llm.asking import author, propose, seen
from tests.policy.llm.servers import fault_server as faults
from tests.policy.llm.servers.fault_server import Behaviour, FaultServer, Line, good, piece, refusing

from triton_agent.policy.llm.engine import Sampling
from triton_agent.policy.llm.servers.openai import HOSTED, Server
from triton_agent.policy.llm.servers.pacing import Limits, Pace
from triton_agent.policy.llm.servers.price import Price
from triton_agent.tools.errors import UsageError

VLLM = {"data": [{"id": "served", "owned_by": "vllm", "max_model_len": 4096}]}
LLAMA = {"data": [{"id": "served", "owned_by": "llamacpp"}]}


def choice(number: int, text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "model": "served",
        "choices": [{"index": number, "delta": {"content": text}, "finish_reason": finish, **more}],
    }


async def as_many_as_asked_for(line: Line) -> None:
    """Stream the requested number of answers, with their pieces interleaved."""
    await line.head()
    wanted = line.asked.body.get("n", 1)
    for number in range(wanted):
        await line.event(choice(number, f"answer {number}"))
    for number in reversed(range(wanted)):
        await line.event(choice(number, "!", "stop"))
    await line.event({"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 10 * wanted}})
    await line.event("[DONE]")
    await line.end()


def texts(answers: list) -> list[str]:
    return [answer.text for answer in answers]


def test_answers_to_one_question_are_one_request_and_share_its_usage() -> None:
    with FaultServer(as_many_as_asked_for) as server:
        answers = propose(author(server.url, price=Price(prompt=1e6, completion=1e6)), 3)
    (request,) = server.asked
    assert request.body["n"] == 3
    assert texts(answers) == ["answer 0!", "answer 1!", "answer 2!"]
    assert sum(answer.usage.prompt_tokens for answer in answers) == 90
    assert sum(answer.usage.cost for answer in answers) == pytest.approx(120)


def test_seeds_of_one_request_are_on_the_record_only_where_they_are_known() -> None:
    for models, steps in ((VLLM, [0, 1]), (None, None)):
        with FaultServer(as_many_as_asked_for, models=models) as server:
            answers = propose(author(server.url), 2)
        first = server.asked[0].body["seed"]
        expected = [first + step for step in steps] if steps else [None, None]
        assert [answer.sampling.seed for answer in answers] == expected


@pytest.mark.parametrize(
    "message", ["Only one completion choice is allowed", "n must be 1", "body.n: Input should be 1"]
)
def test_a_server_that_refuses_several_answers_is_asked_for_each_from_then_on(message: str) -> None:
    async def only_one(line: Line) -> None:
        await (refusing(400, message) if line.asked.body.get("n", 1) > 1 else good)(line)

    with FaultServer(only_one) as server:
        asked = author(server.url)
        assert [len(propose(asked, 3)), len(propose(asked, 2))] == [3, 2]
    assert [request.body.get("n", 1) for request in server.asked] == [3, 1, 1, 1, 1, 1]
    assert len({request.body["seed"] for request in server.asked[1:4]}) == 3


def test_a_server_that_ignores_the_number_is_found_out_once() -> None:
    with FaultServer(good) as server:
        asked = author(server.url)
        first, second = propose(asked, 3), propose(asked, 2)
    assert [len(first), len(second)] == [3, 2]
    assert [request.body.get("n", 1) for request in server.asked] == [3, 1, 1, 1, 1]
    assert all("asked without n" not in answer.missing for answer in (*first, *second))


def test_finished_answers_are_kept_when_a_response_breaks_off() -> None:
    async def break_off(line: Line) -> None:
        await line.head()
        await line.event(choice(1, "whole", "stop"))
        await line.event(choice(0, "ha"))
        line.reset()

    with FaultServer(break_off, as_many_as_asked_for) as server:
        answers = propose(author(server.url), 3)
    assert texts(answers) == ["whole", "answer 0!", "answer 1!"]
    assert [request.body["n"] for request in server.asked] == [3, 2]


def test_an_endless_answer_costs_the_others_nothing() -> None:
    async def first_is_endless(line: Line) -> None:
        await line.head()
        await line.event(choice(1, "whole", "stop"))
        await line.event(choice(0, "spam " * 6_000))

    with FaultServer(first_is_endless) as server:
        answers = propose(author(server.url), 2)
    assert sorted(answer.finish_reason for answer in answers) == ["oversized", "stop"]


# -- settings of the draw ------------------------------------------------------------------------------------------


def asked_of(behaviour: Behaviour = good, models: Any = None, **settings: Any) -> tuple[Any, dict[str, Any]]:
    with FaultServer(behaviour, models=models) as server:
        (answer,) = propose(author(server.url, **settings))
    return answer, server.asked[-1].body


def test_every_setting_is_sent_and_on_the_record() -> None:
    sampling = Sampling(top_p=0.9, top_k=40, min_p=0.05, repetition_penalty=1.1)
    answer, body = asked_of(sampling=sampling)
    for name in ("top_p", "top_k", "min_p", "repetition_penalty"):
        assert body[name] == getattr(sampling, name) == getattr(answer.sampling, name)
    plain, body = asked_of()
    assert (body["top_k"], body["min_p"], body["repetition_penalty"]) == (0, 0.0, 1.0)
    assert not plain.sampling.reshaped


def test_llama_cpp_has_another_name_for_the_repetition_penalty() -> None:
    answer, body = asked_of(models=LLAMA, sampling=Sampling(repetition_penalty=1.2))
    assert body["repeat_penalty"] == 1.2 == answer.sampling.repetition_penalty
    assert "repetition_penalty" not in body


def test_the_hosted_service_is_sent_only_what_it_knows() -> None:
    from tests.policy.llm.asking import KEY

    from triton_agent.memory.records import Message
    from triton_agent.policy.llm.engine import ModelQuestion
    from triton_agent.policy.llm.servers.keys import Key
    from triton_agent.policy.llm.servers.openai import OpenAIEngine

    engine = OpenAIEngine("m", Server(base_url=HOSTED, key=Key("TEST_KEY", KEY)))
    question = ModelQuestion(messages=(Message(role="user", content="hi"),))
    assert "top_k" not in engine._body(question, [1], {})


def test_a_setting_that_a_server_refuses_is_unknown_on_the_record() -> None:
    async def strict(line: Line) -> None:
        await (refusing(400, "unknown field `top_k`") if "top_k" in line.asked.body else good)(line)

    answer, body = asked_of(strict)
    assert "top_k" not in body and answer.sampling.top_k is None and "asked without top_k" in answer.missing


# -- models that think ---------------------------------------------------------------------------------------------


def test_thoughts_have_room_of_their_own() -> None:
    sampling = Sampling(max_tokens=300, max_thinking_tokens=700)
    answer, body = asked_of(models=VLLM, sampling=sampling, reasoning_effort="low")
    assert (body["max_tokens"], body["thinking_token_budget"], body["reasoning_effort"]) == (1000, 700, "low")
    record = answer.sampling
    assert (record.tokens_at_most, record.thinking_tokens_at_most, record.reasoning_effort) == (1000, 700, "low")


@pytest.mark.parametrize("field", ["reasoning_effort", "thinking_token_budget"])
def test_a_server_that_does_not_know_about_thoughts_is_asked_without(field: str) -> None:
    async def strict(line: Line) -> None:
        await (refusing(400, f"{field} is set but not supported") if field in line.asked.body else good)(line)

    answer, body = asked_of(strict, VLLM, sampling=Sampling(max_thinking_tokens=9000), reasoning_effort="high")
    assert field not in body and f"asked without {field}" in answer.missing


def test_further_fields_are_sent_and_on_the_record() -> None:
    extra = {"chat_template_kwargs": {"enable_thinking": True}, "temperature": 0.6}
    answer, body = asked_of(extra_body=extra)
    assert body["chat_template_kwargs"] == {"enable_thinking": True}
    assert body["temperature"] == 0.6 == answer.sampling.temperature
    assert "enable_thinking" in answer.sampling.extra_body
    with pytest.raises(UsageError, match="--extra-body sets messages"):
        asked_of(extra_body={"messages": []})


def test_thoughts_and_cached_tokens_are_counted_and_priced() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 40},
    }
    behaviour = faults.streaming(piece("so", finish="stop"), {"choices": [], "usage": usage}, "[DONE]")
    answer, _ = asked_of(behaviour, price=Price(prompt=1e6, completion=1e6, cached=0.5e6))
    used = answer.usage
    assert (used.prompt_tokens, used.cached_tokens, used.completion_tokens, used.reasoning_tokens) == (100, 60, 50, 40)
    assert used.cost == pytest.approx(40 + 30 + 50)


# -- limits per minute ---------------------------------------------------------------------------------------------


class Clock:
    """A clock that advances only by sleeping."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def paced(limits: Limits, tokens: list[int], headers: list[dict[str, str]] | None = None) -> list[float]:
    """Return the times at which these requests may be sent, if each is answered at once with these headers."""
    clock = Clock()
    pace = Pace(limits, longest_wait_s=300.0, now=clock.now, sleep=clock.sleep)

    async def send() -> list[float]:
        times = []
        for number, need in enumerate(tokens):
            await pace.enter(need)
            times.append(clock.now_s)
            if headers and number < len(headers):
                pace.heed(headers[number])
        return times

    return asyncio.run(send())


def test_no_minute_has_more_requests_or_tokens_than_allowed() -> None:
    assert paced(Limits(requests=2), [1] * 5) == [0, 0, 60, 60, 120]
    assert paced(Limits(tokens=100), [60, 40, 50, 10]) == [0, 0, 60, 60]
    assert paced(Limits(tokens=100), [500, 1]) == [0, 60], "a request larger than the limit goes alone"
    assert paced(Limits(), [10**9] * 3) == [0, 0, 0]


@pytest.mark.parametrize(
    ("told", "wait_s"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2s"}, 62),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "7.5s"}, 7.5),
        ({"x-ratelimit-remaining-tokens": "50", "x-ratelimit-reset-tokens": "7.5s"}, 0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "86400"}, 0),
        ({"x-ratelimit-remaining-requests": "many", "x-ratelimit-reset-requests": "soon"}, 0),
    ],
)
def test_what_a_server_says_of_its_limits_is_heeded(told: dict[str, str], wait_s: float) -> None:
    assert paced(Limits(), [10, 10], [told]) == [0, pytest.approx(wait_s)]


def test_a_wait_for_the_pace_is_no_silence_of_the_server() -> None:
    """With one request per minute the second answer must wait, and the time limits of the server do not count that
    wait.
    """
    with FaultServer(good) as server:
        asked = author(server.url, limits=Limits(requests=1))
        engine = asked._engine
        clock = Clock()
        engine._pace = Pace(Limits(requests=1), longest_wait_s=300.0, now=clock.now, sleep=clock.sleep)
        answers = asyncio.run(asked.propose_many([seen(), seen(attempts_before=1)]))
    assert all(answers) and clock.now_s == 60


def test_all_requests_rest_when_the_server_asks_for_it() -> None:
    clock = Clock()
    pace = Pace(Limits(), longest_wait_s=300.0, now=clock.now, sleep=clock.sleep)
    pace.rest(20)
    pace.rest(10_000)
    asyncio.run(pace.enter(1))
    assert clock.now_s == 20


def test_limits_below_one_are_refused() -> None:
    with pytest.raises(UsageError, match="--requests-per-minute"):
        Limits(requests=0)

"""Requests to OpenAI servers and the records of their answers, over real connections."""

from __future__ import annotations

import asyncio
import pickle
import traceback
from typing import Any

import pytest
from tests.policy.llm.asking import KEY, PATIENT, author, propose, seen
from tests.policy.llm.servers import fault_server as faults
from tests.policy.llm.servers.fault_server import (
    USAGE,
    Behaviour,
    FaultServer,
    Line,
    good,
    piece,
    refusing,
    saying,
    streaming,
)

from triton_agent.policy.llm.author import LanguageAuthor
from triton_agent.policy.llm.engine import EngineError, Sampling
from triton_agent.policy.llm.servers.keys import Key
from triton_agent.policy.llm.servers.openai import OpenAIEngine, Server, parse_base_url
from triton_agent.policy.llm.servers.price import Price
from triton_agent.tools.errors import UsageError

VLLM = {"data": [{"id": "served", "owned_by": "vllm", "max_model_len": 4096}]}
LIKELY = [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1.25}]


def one(behaviour: Behaviour, models: Any = None, **settings: Any) -> Any:
    """Ask for one answer; return it and the server."""
    with FaultServer(behaviour, models=models) as server:
        (answer,) = propose(author(server.url, **settings))
    return answer, server


def test_tokens_of_vllm_are_kept_as_they_were_drawn() -> None:
    first = piece("a", token_ids=[7], logprobs={"content": LIKELY[:1]}) | {"prompt_token_ids": [1, 2, 3]}
    last = piece("b", token_ids=[8], logprobs={"content": LIKELY[1:]}, finish="stop")
    answer, server = one(streaming(first, last, USAGE, "[DONE]"), VLLM)
    assert server.asked[0].body["return_token_ids"] is True
    assert (answer.prompt_ids, answer.token_ids, answer.log_probabilities) == ((1, 2, 3), (7, 8), (-0.5, -1.25))
    assert answer.missing == "" and answer.text == "ab"
    body, record = server.asked[0].body, answer.sampling
    assert (body["top_k"], body["min_p"], body["repetition_penalty"]) == (0, 0.0, 1.0)
    assert (record.temperature, record.top_p, record.top_k) == (body["temperature"], body["top_p"], 0)
    assert (record.tokens_at_most, record.seed) == (body["max_tokens"], body["seed"])
    assert record.frequency_penalty is None, "a setting that was not sent is the server's, and unknown"


def test_tokens_that_stand_beside_log_probabilities_are_kept() -> None:
    listed = [{**item, "id": number} for number, item in enumerate(LIKELY)]
    answer, server = one(streaming(piece("ab", logprobs={"content": listed}, finish="stop"), USAGE))
    assert "return_token_ids" not in server.asked[0].body
    assert (answer.token_ids, answer.log_probabilities, answer.missing) == ((0, 1), (-0.5, -1.25), "")


@pytest.mark.parametrize(
    ("choice", "missing", "ids"),
    [
        ({}, "returns no token ids", None),
        ({"logprobs": {"content": LIKELY}}, "log-probabilities are useless without", None),
        ({"token_ids": [1, 2]}, "returns no log-probabilities", (1, 2)),
        ({"token_ids": [1, 2, 3], "logprobs": {"content": LIKELY}}, "2 log-probabilities for 3 tokens", (1, 2, 3)),
    ],
)
def test_what_a_server_does_not_tell_is_missing_with_the_reason(choice: dict, missing: str, ids: tuple | None) -> None:
    answer, _ = one(streaming(piece("ab", finish="stop", **choice), USAGE, "[DONE]"))
    assert missing in answer.missing
    assert (answer.token_ids, answer.log_probabilities) == (ids, None)


def cut_within_a_character(finish: str = "length") -> Behaviour:
    """Stream tokens as vLLM does when an answer ends within a character: the last two tokens have no text."""
    tokens = [{"token": text, "logprob": -0.5} for text in ("a", "", "", "<|end|>")[: 4 if finish == "stop" else 3]]
    ids = [7, 8, 9, 2][: len(tokens)]
    first = piece("a", token_ids=ids[:1], logprobs={"content": tokens[:1]})
    last = piece("", token_ids=ids[1:], logprobs={"content": tokens[1:]}, finish=finish)
    return streaming(first, last, USAGE, "[DONE]")


@pytest.mark.parametrize("finish", ["length", "stop"])
def test_what_vllm_keeps_back_of_an_answer_is_asked_for(finish: str) -> None:
    with FaultServer(cut_within_a_character(finish), models=VLLM, spelled={"prompt": "a\ufffd"}) as server:
        (answer,) = propose(author(server.url))
    assert server.looked[-1].body == {"model": "served", "tokens": [7, 8, 9]}
    assert server.looked[-1].headers["authorization"] == f"Bearer {KEY}"
    assert (answer.text, answer.missing) == ("a\ufffd", "")
    assert answer.token_ids == (7, 8, 9, 2)[: len(answer.token_ids)]


@pytest.mark.parametrize(
    ("models", "spelled", "doubt"),
    [
        (VLLM, None, "may lack its last character"),
        (VLLM, "no object", "may lack its last character"),
        (VLLM, {"prompt": "b\ufffd"}, "differs from the tokens"),
        (None, None, "may lack its last character"),
    ],
)
def test_a_text_that_may_not_be_what_its_tokens_spell_says_so(models: Any, spelled: Any, doubt: str) -> None:
    with FaultServer(cut_within_a_character(), models=models, spelled=spelled) as server:
        (answer,) = propose(author(server.url))
    assert answer.text == "a" and doubt in answer.missing
    assert answer.token_ids == (7, 8, 9) and answer.log_probabilities == (-0.5, -0.5, -0.5)


def test_an_answer_of_whole_characters_is_not_asked_about() -> None:
    whole = piece("ab", token_ids=[7, 8], logprobs={"content": LIKELY}, finish="stop")
    answer, server = one(streaming(whole, USAGE, "[DONE]"), VLLM)
    assert [asked.path for asked in server.looked] == ["/v1/models"]
    assert answer.missing == ""


def test_thoughts_that_a_server_keeps_apart_are_not_spelled_by_the_tokens() -> None:
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}
    said = piece("ab", token_ids=[7, 8], logprobs={"content": LIKELY}, finish="stop")
    answer, _ = one(streaming(thought, said, USAGE, "[DONE]"), VLLM)
    assert (answer.reasoning, answer.text) == ("hm", "ab") and "separates thoughts" in answer.missing


def refusing_field(name: str, message: str) -> Behaviour:
    """Refuse requests that have this field, as strict servers do."""

    async def serve(line: Line) -> None:
        system = any(one["role"] == "system" for one in line.asked.body["messages"])
        refused = system if name == "system role" else name in line.asked.body
        await (refusing(400, message) if refused else good)(line)

    return serve


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("logprobs", "This model does not support logprobs"),
        ("stream_options", "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options')}]"),
        ("temperature", "Unsupported value: 'temperature' does not support 0.8 with this model."),
        ("seed", "unknown field seed"),
        ("stream", "stream is not supported"),
        ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        ("system role", "System role not supported"),
        ("return_token_ids", "body.return_token_ids: Extra inputs are not permitted"),
    ],
)
def test_what_a_server_does_not_take_is_left_out_and_said(name: str, message: str) -> None:
    with FaultServer(refusing_field(name, message), models=VLLM) as server:
        asked = author(server.url)
        (answer,) = propose(asked)
        assert len(propose(asked, 2)) == 2
    assert len(server.asked) == 4  # the server refuses the field once
    assert (f"asked without {name}" in answer.missing) == (name != "max_tokens")
    assert all("write" in request.body["messages"][-1]["content"] for request in server.asked)
    if name == "max_tokens":
        assert server.asked[-1].body["max_completion_tokens"] == server.asked[0].body["max_tokens"]
    if name == "system role":
        assert server.asked[-1].body["messages"][0]["content"].startswith("Be brief.")


def fitting(words: int, message: str) -> Behaviour:
    """Serve a context of this many tokens, with one token per word."""

    async def serve(line: Line) -> None:
        body = line.asked.body
        asked = sum(len(one["content"].split()) for one in body["messages"]) + body["max_tokens"]
        await (refusing(400, message) if asked > words else good)(line)

    return serve


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 3000 tokens. However, you requested more.",
        "request (9412 tokens) exceeds the available context size (3000 tokens), try increasing it",
        "prompt is too long",
    ],
)
def test_a_question_that_is_too_long_is_asked_again_shorter(message: str) -> None:
    with FaultServer(fitting(3000, message)) as server:
        asked = author(server.url, sampling=Sampling(max_tokens=500))
        (answer,) = propose(asked)
        tries = len(server.asked)
        propose(asked)
    assert tries > 1 and answer.finish_reason == "stop"
    assert [one.content for one in answer.messages] == [
        one["content"] for one in server.asked[tries - 1].body["messages"]
    ]
    # the limit named in the message is remembered
    assert len(server.asked) == (tries + 1 if "3000" in message else 2 * tries)


def test_a_context_that_the_server_tells_is_kept_to_from_the_start() -> None:
    answer, server = one(fitting(4096, "maximum context length is 4096 tokens"), VLLM)
    assert len(server.asked) == 1
    assert server.asked[0].body["max_tokens"] == 2048 and len(answer.messages[1].content.split()) > 1000


def test_a_user_who_knows_the_context_is_believed() -> None:
    _, server = one(good, VLLM, context_tokens=1000)
    assert server.asked[0].body["max_tokens"] == 500


def test_tokens_and_money_are_counted() -> None:
    answer, _ = one(good, price=Price(prompt=1.0, completion=10.0))
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (70, 30)
    assert answer.usage.cost == pytest.approx(370e-6)
    assert answer.usage.wall_s > 0


def test_usage_that_is_not_told_is_estimated_and_said() -> None:
    answer, _ = one(saying(faults.KERNEL, usage=False), price=Price(prompt=1.0, completion=10.0))
    assert "states no usage" in answer.missing
    assert answer.usage.prompt_tokens >= sum(len(one.content.split()) for one in answer.messages)
    assert answer.usage.completion_tokens > 10 and answer.usage.cost > 0


def test_an_answer_cut_short_by_its_limit_says_so() -> None:
    answer, _ = one(saying("half an ans", finish="length"))
    assert (answer.text, answer.finish_reason) == ("half an ans", "length")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_that_comes_apart_stays_apart(name: str) -> None:
    thought = {"choices": [{"index": 0, "delta": {name: "hm"}}]}
    answer, _ = one(streaming(thought, thought, piece("so", finish="stop"), "[DONE]"))
    assert (answer.reasoning, answer.text, answer.whole) == ("hmhm", "so", "<think>hmhm</think>\nso")


def test_reasoning_within_the_text_is_taken_out_of_it() -> None:
    assert_apart = {
        "<think>\nhm</think>\n\nso": ("\nhm", "so"),
        "hm</think>so": ("hm", "so"),
        "<think>for ever": ("for ever", ""),
        "so <think> is a tag": ("", "so <think> is a tag"),
    }
    for said, apart in assert_apart.items():
        answer, _ = one(saying(said))
        assert (answer.reasoning, answer.text) == apart


def test_a_server_that_does_not_stream_is_understood() -> None:
    whole = {"model": "m", "choices": [{"message": {"content": "all"}, "finish_reason": "stop"}], **{"usage": {}}}
    answer, _ = one(faults.answering(whole))
    assert (answer.text, answer.policy_version) == ("all", "m")


def test_letters_cut_apart_and_other_line_ends_are_read() -> None:
    async def serve(line: Line) -> None:
        await line.head()
        data = 'data: {"choices":[{"delta":{"content":"größer"},"finish_reason":"stop"}]}\r\n\r\n'.encode()
        for byte in data:
            await line.chunk(bytes([byte]))
        await line.end()

    assert one(serve)[0].text == "größer"


def test_answers_of_a_batch_are_asked_for_at_once() -> None:
    together = asyncio.Event()

    async def wait_for_all(line: Line) -> None:
        if len(server.asked) == 5:
            together.set()
        await together.wait()
        await good(line)

    with FaultServer(wait_for_all) as server:
        asked = author(server.url)
        answers = asyncio.run(asked.propose_many([seen(attempts_before=number) for number in range(5)]))
    assert all(answer is not None for answer in answers)
    seeds = [request.body["seed"] for request in server.asked]
    assert len(set(seeds)) == 5


def test_the_same_question_is_asked_with_the_same_seeds() -> None:
    with FaultServer(good) as server:
        for _ in range(2):
            propose(author(server.url), 2, turn=3)
    seeds = [request.body["seed"] for request in server.asked]
    assert set(seeds[:2]) == set(seeds[2:]) and len(set(seeds)) == 2


def test_a_server_on_this_machine_is_not_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with faults.dead_port() as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert one(good)[0].text == faults.KERNEL


def test_a_proxy_that_cannot_be_used_is_an_engine_that_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://user:secret@proxy")
    with pytest.raises(EngineError, match="a proxy that cannot be used") as raised:
        propose(author("http://192.0.2.1/v1"))
    assert "secret" not in "".join(traceback.format_exception(raised.value))


# -- keys ----------------------------------------------------------------------------------------------------------


def test_the_key_is_in_one_header_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)
    with FaultServer(refusing(401, f"your key {KEY} has expired")) as server:
        settings = Server.at(server.url, "TEST_KEY", patience=PATIENT)
        engine = OpenAIEngine("served", settings)
        asked = LanguageAuthor(engine)
        with pytest.raises(EngineError) as raised:
            propose(asked)
    (request,) = server.asked
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(request.body) + request.path
    told = [repr(settings), repr(engine), repr(vars(engine)), str(raised.value), repr(raised.value), *asked.troubles()]
    told += ["".join(traceback.format_exception(raised.value)), repr(pickle.dumps(settings))]
    assert not [text for text in told if KEY in text]
    assert pickle.loads(pickle.dumps(settings)).key.headers() == settings.key.headers()


def test_a_key_that_comes_back_in_an_answer_is_taken_out() -> None:
    answer, _ = one(streaming(piece(f"# {KEY}\nx", token_ids=[1], logprobs={"content": LIKELY[:1]}, finish="stop")))
    assert answer.text == "# [redacted]\nx"
    assert answer.token_ids is None and "contained the server's key" in answer.missing


def test_what_stands_in_for_a_key_does_not_change_answers() -> None:
    assert one(saying("EMPTY rows"), key="EMPTY")[0].text == "EMPTY rows"


@pytest.mark.parametrize("value", ["two words", "line\nend", "schlüssel"])
def test_what_cannot_be_a_key_is_refused_unseen(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", value)
    with pytest.raises(UsageError) as raised:
        Key.from_environment("TEST_KEY")
    assert value not in str(raised.value) and "TEST_KEY" in str(raised.value)


def test_without_a_key_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with FaultServer(good) as server:
        propose(LanguageAuthor(OpenAIEngine("served", Server.at(server.url, None, patience=PATIENT))))
    assert "authorization" not in server.asked[0].headers
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        Server.at(None, None)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("http://h/", "http://h/v1"),
        ("https://h/api/v1/", "https://h/api/v1"),
        ("https://h/v1/chat/completions", "https://h/v1"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
    ],
)
def test_addresses_are_understood(given: str, meant: str) -> None:
    assert parse_base_url(given) == meant


@pytest.mark.parametrize(
    "given",
    [
        "h:80",
        "ftp://h",
        "http://",
        "http://h:port",
        "http://two words/v1",
        "http://h\x00",
        "http://u:secret@h",
        "http://h?key=secret",
    ],
)
def test_what_is_no_address_is_refused_without_showing_what_is_secret(given: str) -> None:
    with pytest.raises(UsageError, match="--base-url") as raised:
        parse_base_url(given)
    assert "secret" not in str(raised.value)

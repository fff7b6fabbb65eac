"""Faults of servers: each leads to the expected answer or error, and the run continues."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import email.utils
import uuid
from collections.abc import Iterator

import pytest
from tests.agent.tables import Table, kernel, new_run, passed, script
from tests.policy.llm.asking import HASTY, KEY, PATIENT, author, propose, seen
from tests.policy.llm.servers import fault_server as faults
from tests.policy.llm.servers.fault_server import Behaviour, FaultServer, good, refusing

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.loop import Loop
from triton_agent.agent.settings import LoopSettings, StopReason
from triton_agent.memory.observation import Rules
from triton_agent.memory.store import Store
from triton_agent.policy.llm.engine import EngineError
from triton_agent.policy.llm.servers.patience import Patience
from triton_agent.policy.scripted import Scripted

SOON = email.utils.format_datetime(datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=5), usegmt=True)
TRIES = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The behaviours of a server, and the expected result."""

    does: tuple[Behaviour, ...]
    requests: int
    """Expected number of requests."""
    error: str = ""
    """Part of the expected error; empty if an answer is expected."""
    finish: str = "stop"
    patience: Patience = PATIENT


def again(fault: Behaviour, **more) -> Case:
    """Return a case with one fault, after which the second request succeeds."""
    return Case(does=(fault, good), requests=2, **more)


def endless(fault: Behaviour, error: str, **more) -> Case:
    """Return a case whose fault persists until all tries are used up."""
    return Case(does=(fault,), requests=TRIES, error=error, **more)


def final(fault: Behaviour, error: str) -> Case:
    """Return a case whose fault must not be retried."""
    return Case(does=(fault, good), requests=1, error=error)


CASES = {
    "hangs once": again(faults.hang, patience=HASTY),
    "hangs for ever": endless(faults.hang, "no response within 0.5 s (after 3 tries)", patience=HASTY),
    "hangs after the headers": again(faults.hang_after_the_headers, patience=HASTY),
    "hangs in the middle": again(faults.hang_in_the_middle, patience=HASTY),
    "hangs in the middle each time": endless(faults.hang_in_the_middle, "stopped sending", patience=HASTY),
    "thinks unheard": Case(
        does=(faults.think_unheard,), requests=1, patience=dataclasses.replace(PATIENT, between_bytes_s=0.01)
    ),
    "hangs when all is said": Case(does=(faults.hang_at_the_end,), requests=1, patience=HASTY),
    "too many requests": again(refusing(429, "slow down")),
    "too many requests, come back soon": again(refusing(429, "slow down", Retry_After="0.01")),
    "too many requests, come back at a time": again(refusing(429, "slow down", Retry_After=SOON)),
    "too many requests, come back tomorrow": final(
        refusing(429, "slow down", Retry_After="86400"), "the server asks to wait 86400 s"
    ),
    "too many requests for ever": endless(refusing(429, "slow down"), "429: slow down (after 3 tries)"),
    "no credit": final(refusing(429, "quota exceeded", code="insufficient_quota"), "429: quota exceeded"),
    "a moment's failure": again(refusing(500, "oops")),
    "fails for ever": endless(refusing(503, "loading the model"), "503: loading the model"),
    "request timeout": again(refusing(408, "you were slow")),
    "conflict": again(refusing(409, "busy")),
    "half a stream": again(faults.half_a_stream),
    "half a stream each time": endless(faults.half_a_stream, "the connection broke"),
    "half a stream that looks whole": endless(faults.half_a_stream_that_looks_whole, "in the middle of the answer"),
    "reset": again(faults.reset),
    "reset each time": endless(faults.reset, "the connection broke"),
    "reset in the middle": again(faults.reset_in_the_middle),
    "garbage in the stream": again(faults.streaming("{ this is not JSON")),
    "garbage as JSON": endless(faults.answering("[[[", "application/json"), "no JSON"),
    "another shape": endless(faults.streaming({"choices": {"a": 1}}), "choices that are not a list"),
    "slow bytes": Case(
        does=(faults.slow_bytes,),
        requests=1,
        error="no whole answer within 1 s",
        patience=dataclasses.replace(PATIENT, total_s=1.0),
    ),
    "oversized": Case(does=(faults.endless,), requests=1, finish="oversized"),
    "one endless line": final(faults.one_endless_line, "more than 100000 bytes"),
    "empty choices": endless(faults.answering({"choices": []}), "without an answer in it"),
    "an empty stream": endless(faults.streaming("[DONE]"), "without an answer in it"),
    "an error in the stream": again(faults.streaming({"error": {"message": "engine died", "code": 500}})),
    "a refusal in the stream": final(faults.streaming({"error": {"message": "no such thing", "code": 400}}), "no such"),
    "wrong model": final(refusing(404, "no model served"), "404: no model served"),
    "expired key": final(refusing(401, f"Incorrect API key provided: {KEY}"), "401: Incorrect API key provided: [red"),
    "forbidden": final(refusing(403, "not for you"), "403: not for you"),
    "payment": final(refusing(402, "pay first"), "402: pay first"),
    "bad request": final(refusing(400, "I do not like it"), "400: I do not like it"),
    "unprocessable": final(refusing(422, "I do not like it"), "422: I do not like it"),
    "another kind of content": final(faults.answering("hello", "text/plain"), "answers with text/plain"),
    "a page": final(faults.answering("<html>Sign in</html>", "text/html"), "answers with text/html"),
    "always too long": Case(
        does=(refusing(400, "This model's maximum context length is 100 tokens."),), requests=1, error="context length"
    ),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The store that all runs in this file share."""
    with Store.open(tmp_path_factory.mktemp("runs") / "store.db") as opened:
        yield opened


@pytest.mark.parametrize("name", CASES)
def test_each_fault_ends_in_its_outcome_and_the_run_goes_on(name: str, store: Store) -> None:
    case = CASES[name]
    with FaultServer(*case.does) as server:
        loop = _loop(store, [script([kernel(2)]), author(server.url, patience=case.patience)], turns=1)
        asyncio.run(_drain(loop))
        assert len(server.asked) == case.requests
    attempts, end = list(store.attempts(loop.ledger.run.id)), store.end(loop.ledger.run.id)
    assert end.stop_reason == StopReason.TURNS
    assert store.attempt(end.best).source.strip() == kernel(2).strip()
    assert all(store.gradings(item.key)[0].evaluation is not None for item in attempts)
    heard = [item.completion for item in attempts if item.completion.policy == "openai:served"]
    failures = [event.data["what"] for event in loop.ledger.noted("policy_failed")]
    if case.error:
        assert heard == [] and len(failures) == 1 and case.error in failures[0]
        assert end.summary["failed"] == {"openai:served": failures[0]}
    else:
        assert [item.finish_reason for item in heard] == [case.finish] and failures == []
    told = repr([attempts, list(store.events(loop.ledger.run.id)), end])
    assert "openai:served" in told and KEY not in told


def _loop(store: Store, policies: list, run: str | None = None, **changes) -> Loop:
    """Return the loop of a new run, or of the resumed run `run`."""
    table = Table({kernel(number): passed(kernel(number), float(number)) for number in (1, 2)})
    ledger = Ledger.resume(store, run) if run else Ledger.begin(store, new_run(f"run-{uuid.uuid4().hex}"))
    return Loop(ledger, policies, [table], LoopSettings(**{"rules": Rules(), "turns": 2, "parallel": 2} | changes))


async def _drain(loop: Loop) -> None:
    async for _ in loop.events():
        pass


def test_where_nobody_else_is_left_the_run_ends_and_can_be_taken_up(store: Store) -> None:
    with FaultServer(refusing(401, "who are you?")) as server:
        loop = _loop(store, [author(server.url)])
        asyncio.run(_drain(loop))
    end = store.end(loop.ledger.run.id)
    assert end.stop_reason == StopReason.POLICY_FAILED and end.best is None
    with FaultServer(good) as server:
        asyncio.run(_drain(_loop(store, [author(server.url)], loop.ledger.run.id)))
    end = store.end(loop.ledger.run.id)
    assert end.stop_reason == StopReason.TURNS and end.best.endswith("/0.0")


def test_a_server_that_comes_back_is_asked_again_in_the_same_run(store: Store) -> None:
    with FaultServer(refusing(401, "not yet"), good) as server:
        others = Scripted([f"words {number}" for number in range(100)])
        loop = _loop(store, [others, author(server.url)], turns=6)
        asyncio.run(_drain(loop))
    heard = [item.turn for item in store.attempts(loop.ledger.run.id) if item.completion.policy == "openai:served"]
    assert heard and min(heard) == 4
    assert "failed" not in store.end(loop.ledger.run.id).summary


def test_one_answers_failure_is_not_the_others() -> None:
    with FaultServer(good, refusing(422, "not this one"), good) as server:
        asked = author(server.url)
        assert len(propose(asked, 3)) == 2
    assert ["422: not this one" in what for what in asked.troubles()] == [True]
    assert asked.troubles() == []


def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else() -> None:
    with FaultServer(good) as elsewhere:
        moved = refusing(307, "moved", Location=f"{elsewhere.url}/chat/completions?token=abc")
        with FaultServer(moved) as server, pytest.raises(EngineError, match="it redirects to") as raised:
            propose(author(server.url))
        assert elsewhere.asked == [] and elsewhere.looked == []
    assert "token=abc" not in str(raised.value)


def test_nobody_listens() -> None:
    with faults.dead_port() as port, pytest.raises(EngineError, match=r"no connection.*after 3 tries"):
        propose(author(f"http://127.0.0.1:{port}/v1"))


def test_asking_that_is_called_off_closes_its_connection() -> None:
    async def call_off(url: str) -> None:
        asking = asyncio.ensure_future(author(url).propose_many([seen(), seen(attempts_before=1)]))
        while len(server.asked) < 2:
            await asyncio.sleep(0.005)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        while server.open_connections:
            await asyncio.sleep(0.005)

    with FaultServer(faults.hang) as server:
        asyncio.run(asyncio.wait_for(call_off(server.url), 5))
    assert server.open_connections == 0

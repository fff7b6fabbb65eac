"""`openai:MODEL`: any server with OpenAI's chat completions: vllm serve, llama.cpp, Ollama, or a hosted one.

Each answer is a request of its own, so that one failure does not cost the others. Fields that a server refuses are left
out of later requests, and the answers say so. Token ids are requested from vLLM; llama.cpp sends them anyway. If the
text may differ from the tokens, the answer says so (`spelling.py`). Not covered: prompts and parsing of answers
(`policy/llm/author.py`), the bytes of a request (`exchange.py`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import re
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from triton_agent.memory.records import SamplingRecord
from triton_agent.policy.llm.engine import EngineError, ModelQuestion, Sampled, Trouble, seeds_of
from triton_agent.policy.llm.prompting.counting import token_bound
from triton_agent.policy.llm.servers.exchange import Exchange
from triton_agent.policy.llm.servers.keys import Key
from triton_agent.policy.llm.servers.patience import Patience
from triton_agent.policy.llm.servers.price import UNKNOWN, Price
from triton_agent.policy.llm.servers.refusals import NoReply, Refusal
from triton_agent.policy.llm.servers.reply import Reply
from triton_agent.policy.llm.servers.server_card import ServerCard, look
from triton_agent.policy.llm.servers.spelling import Speller, respell
from triton_agent.tools.errors import UsageError

HOSTED = "https://api.openai.com/v1"
KEY_NAME = "OPENAI_API_KEY"
ASSUMED_CONTEXT_TOKENS = 32768
"""Assumed if neither user nor server says: recent models have at least this, and prompts hardly need more."""
AT_ONCE = 32
"""Requests at a time; servers queue what exceeds their own limit."""
RENAMED = {"max_tokens": "max_completion_tokens"}
"""Fields that newer OpenAI models have renamed."""
UNCHANGED = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
"""vLLM takes these from the model's folder unless they are given; said here, they are known."""
SYSTEM_ROLE = "system role"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Address and terms of a server."""

    base_url: str = HOSTED
    key: Key
    context_tokens: int | None = None
    """None: as the server says, or as assumed."""
    price: Price = UNKNOWN
    patience: Patience = dataclasses.field(default_factory=Patience)

    @classmethod
    def at(cls, base_url: str | None, key_name: str | None, **rest: Any) -> Server:
        """Describe a server by its address and the name of the variable with its key; both are optional."""
        required = key_name is not None or base_url is None  # the hosted one answers nobody without
        url = parse_base_url(base_url) if base_url is not None else HOSTED
        return cls(base_url=url, key=Key.from_environment(key_name or KEY_NAME, required=required), **rest)


class OpenAIEngine:
    def __init__(self, model: str, server: Server) -> None:
        if not model:
            raise UsageError("openai: names no model", remedy="--policy openai:MODEL, as the server calls it")
        self.model = model
        self._server = server
        self._card: ServerCard | None = None
        self._told_context: int | None = None
        self._refused: dict[str, str] = {}
        self._chance = random.Random()

    @property
    def name(self) -> str:
        return f"openai:{self.model}"

    @property
    def version(self) -> str:
        return self.model

    @property
    def context_tokens(self) -> int:
        listed = self._card.context_tokens if self._card else None
        return self._server.context_tokens or self._told_context or listed or ASSUMED_CONTEXT_TOKENS

    @property
    def _is_vllm(self) -> bool:
        return self._card is not None and self._card.is_vllm

    def count(self, text: str) -> int:
        return token_bound(text)

    async def prepare(self) -> None:
        """Ask the server about the model."""
        if self._card is None:
            async with self._client() as client:
                self._card = await look(client, self._server.base_url, self._server.key, self.model)

    async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        await self.prepare()
        room = asyncio.Semaphore(AT_ONCE)
        async with self._client() as client:
            url = f"{self._server.base_url}/chat/completions"
            exchange = Exchange(client=client, url=url, key=self._server.key, patience=self._server.patience)
            async with asyncio.TaskGroup() as group:
                asked = [
                    [
                        group.create_task(self._sample(exchange, question, seed >> 31, room))  # some take 31 bits
                        for seed in seeds_of(question)
                    ]
                    for question in questions
                ]
        return [[task.result() for task in tasks] for tasks in asked]

    async def close(self) -> None:
        """Nothing to close: connections end with each `answer`."""

    def _client(self) -> httpx.AsyncClient:
        """Make a client for one batch: it belongs to an event loop, and a trainer uses a new loop for each call."""
        local = urlsplit(self._server.base_url).hostname in ("localhost", "127.0.0.1", "::1")
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        timeout = httpx.Timeout(None, connect=self._server.patience.connect_s)  # the others: see `exchange.py`
        try:
            return httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=not local, follow_redirects=False)
        except (ValueError, ImportError):  # its words may hold the proxy's password
            raise EngineError(
                "the environment names a proxy that cannot be used",
                where=self.name,
                remedy="mend HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, or name the server in NO_PROXY",
            ) from None

    # -- one answer ------------------------------------------------------------------------------------------------

    async def _sample(self, exchange: Exchange, question: ModelQuestion, seed: int, room: asyncio.Semaphore) -> Sampled:
        async with room:
            began_s = time.monotonic()
            try:
                async with asyncio.timeout(self._server.patience.total_s):
                    reply, body, without = await self._insist(exchange, question, seed, began_s)
            except TimeoutError:
                total_s = self._server.patience.total_s
                return self._trouble(Refusal(what=f"no whole answer within {total_s:g} s"))
            except NoReply as error:
                return self._trouble(error.refusal)
            await respell(reply, self._speller(exchange.client))
            return self._sampled(reply, question, body, without, time.monotonic() - began_s)

    async def _insist(
        self, exchange: Exchange, question: ModelQuestion, seed: int, began_s: float
    ) -> tuple[Reply, dict[str, Any], dict[str, str]]:
        """Ask until there is an answer or no hope of one; return it with the request, and why fields were left out."""
        patience, tries = self._server.patience, 0
        while True:
            without = dict(self._refused)
            body = self._body(question, seed, without)
            try:
                return await exchange.ask(body), body, without
            except NoReply as error:
                refusal = error.refusal
            if refused := [field for field in refusal.fields if field not in without and _holds(body, field)]:
                self._refused |= dict.fromkeys(refused, refusal.what)
                continue
            tries += 1
            wait_s = patience.wait_s(tries, refusal.retry_after_s, self._chance)
            late = time.monotonic() - began_s + wait_s > patience.retry_within_s
            if not refusal.again or tries >= patience.tries or late:
                raise NoReply(_given_up(refusal, tries, late))
            await asyncio.sleep(wait_s)

    def _body(self, question: ModelQuestion, seed: int, without: dict[str, str]) -> dict[str, Any]:
        sampling = question.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": item.role, "content": item.content} for item in question.messages],
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": seed,
            "stream": True,
            "stream_options": {"include_usage": True},
            "logprobs": True,
        }
        if self._is_vllm:
            body |= {"return_token_ids": True, **UNCHANGED}
        if "stream" in without:
            body.pop("stream_options")
        for field in without:
            value = body.pop(field, None)
            if field in RENAMED:
                body[RENAMED[field]] = value
        if SYSTEM_ROLE in without:
            body["messages"] = _without_system(body["messages"])
        return body

    def _speller(self, client: httpx.AsyncClient) -> Speller | None:
        if not self._is_vllm:
            return None
        server = self._server
        return Speller(
            client=client,
            base_url=server.base_url,
            key=server.key,
            model=self.model,
            within_s=server.patience.between_bytes_s,
        )

    def _sampled(
        self, reply: Reply, question: ModelQuestion, body: dict[str, Any], without: dict[str, str], wall_s: float
    ) -> Sampled:
        token_ids, log_probabilities, missing = reply.tokens()
        notes = [note for note in (missing, reply.doubt) if note]
        notes += [f"asked without {field}: {why}" for field, why in without.items() if field not in RENAMED]
        text = reply.text
        if self._server.key.is_in(text):
            text, token_ids, log_probabilities = self._server.key.hide(text), None, None
            notes = ["the answer held the key to the server, which was taken out"]
        prompt_tokens, completion_tokens = reply.prompt_tokens, reply.completion_tokens
        if prompt_tokens is None or completion_tokens is None:
            prompt_tokens = sum(self.count(message.content) for message in question.messages)
            completion_tokens = len(token_ids) if token_ids else self.count(text)
            notes.append("the server tells no usage: it is estimated, rather too high")
        return Sampled(
            text=text,
            finish_reason=reply.finish_reason,
            prompt_ids=reply.prompt_ids,
            token_ids=token_ids,
            log_probabilities=log_probabilities,
            sampling=_record(body),
            missing=self._server.key.clean("; ".join(notes)),
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cost=self._server.price.of(prompt_tokens, completion_tokens),
            wall_s=wall_s,
            version=self._server.key.clean(reply.version),
        )

    def _trouble(self, refusal: Refusal) -> Sampled:
        if refusal.context_tokens is not None and self._server.context_tokens is None:
            self._told_context = refusal.context_tokens
        clean = self._server.key.clean
        trouble = Trouble(
            what=clean(f"{self._server.base_url}: {refusal.what}"),
            remedy=clean(refusal.remedy),
            too_long=refusal.too_long,
            context_tokens=refusal.context_tokens,
        )
        return Sampled(text="", finish_reason="", trouble=trouble)


def _record(body: dict[str, Any]) -> SamplingRecord:
    """Return the settings of a draw as far as the request states them; the server's defaults are not known."""
    return SamplingRecord(
        **{name: body.get(name) for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")},
        tokens_at_most=body.get("max_tokens", body.get(RENAMED["max_tokens"])),
        pattern="",
    )


def _holds(body: dict[str, Any], field: str) -> bool:
    return field in body or (field == SYSTEM_ROLE and any(one["role"] == "system" for one in body["messages"]))


def _without_system(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Move system messages into the first user message: some models' templates know no other role."""
    system = [one["content"] for one in messages if one["role"] == "system"]
    rest = [one for one in messages if one["role"] != "system"]
    return [{"role": "user", "content": "\n\n".join([*system, *(one["content"] for one in rest[:1])])}, *rest[1:]]


def _given_up(refusal: Refusal, tries: int, late: bool) -> Refusal:
    if tries == 1 and not late:
        return refusal
    told = refusal.retry_after_s
    wait = f"; it wants to be asked again in {told:.0f} s" if late and told else ""
    return dataclasses.replace(refusal, what=f"{refusal.what} (after {tries} {'try' if tries == 1 else 'tries'}{wait})")


def parse_base_url(text: str) -> str:
    """Validate and complete the base address; `/v1` is added to a bare host."""
    found = urlsplit(text.strip())
    try:
        valid = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
        valid = valid and not re.search(r"\s", text.strip())
        httpx.URL(text.strip())
    except (ValueError, httpx.InvalidURL):
        valid = False
    if found.username or found.password or found.query or found.fragment:
        raise UsageError("--base-url holds more than an address", remedy="keys come from the environment only")
    if not valid:
        raise UsageError(f"--base-url {text}", remedy="an address such as http://127.0.0.1:8000/v1")
    path = found.path.rstrip("/").removesuffix("/chat/completions")
    return f"{found.scheme}://{found.netloc}{path or '/v1'}"

"""`openai:MODEL`: any server with OpenAI's chat completions: vllm serve, llama.cpp, Ollama, or a hosted one.

Several answers to one question are one request if the server supports that, and its finished answers are kept if it
breaks off; otherwise each answer is a separate request. Fields that a server rejects are omitted from later requests,
and the answers record it. Token ids are requested from vLLM; llama.cpp always sends them. If the text may differ from
the tokens, the answer records that, too (`spelling.py`).

Not covered: prompts and parsing of answers (`policy/llm/author.py`), the bytes of a request (`exchange.py`), limits per
minute (`pacing.py`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from triton_agent.memory.records import Message, SamplingRecord, Usage
from triton_agent.policy.llm.engine import EngineError, ModelQuestion, Sampled, Trouble, seeds_of
from triton_agent.policy.llm.prompting.counting import token_bound
from triton_agent.policy.llm.servers.exchange import Exchange
from triton_agent.policy.llm.servers.keys import Key
from triton_agent.policy.llm.servers.pacing import Limits, Pace, Sent
from triton_agent.policy.llm.servers.patience import Patience
from triton_agent.policy.llm.servers.price import UNKNOWN, Price
from triton_agent.policy.llm.servers.refusals import NoReply, Refusal
from triton_agent.policy.llm.servers.reply import Reply, Response
from triton_agent.policy.llm.servers.server_card import ServerCard, look
from triton_agent.policy.llm.servers.spelling import Speller, respell
from triton_agent.tools.errors import UsageError

HOSTED = "https://api.openai.com/v1"
KEY_NAME = "OPENAI_API_KEY"
ASSUMED_CONTEXT_TOKENS = 32768
"""Context size that is assumed if neither user nor server states it. Recent models have at least this, and prompts
rarely need more.
"""
AT_ONCE = 32
"""Most requests at a time; servers queue requests beyond their own limit."""
RENAMED = {"max_tokens": "max_completion_tokens"}
"""Fields that newer OpenAI models have renamed."""
UNCHANGED = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
"""Fields that are always sent, because servers otherwise use the model folder's values or their own defaults, with the
values that have no effect. OpenAI's own service rejects these fields, so they are sent to it only with other values.
"""
PENALTY = {"llamacpp": "repeat_penalty"}
"""Names of the repetition penalty on servers that differ from vLLM."""
SEVERAL = "n"
SILENT = frozenset({SEVERAL, *RENAMED})
"""Fields whose rejection does not change the answers, because the request is split or the field gets another name. They
are not noted in the record.
"""
SYSTEM_ROLE = "system role"
OWN_FIELDS = frozenset({"model", "messages", SEVERAL, "stream", "stream_options", "tools", "max_tokens", "seed"})
"""Fields that `--extra-body` may not set, because they have their own options or this module depends on them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Address and terms of a server."""

    base_url: str = HOSTED
    key: Key
    context_tokens: int | None = None
    """None: as stated by the server, or else as assumed."""
    price: Price = UNKNOWN
    patience: Patience = dataclasses.field(default_factory=Patience)
    limits: Limits = dataclasses.field(default_factory=Limits)
    reasoning_effort: str = ""
    """How much a model should think, in the server's terms; empty for its default."""
    extra_body: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further fields of each request; they override those of this program."""

    def __post_init__(self) -> None:
        if taken := sorted(OWN_FIELDS & set(self.extra_body)):
            raise UsageError(f"--extra-body sets {', '.join(taken)}", remedy="leave these fields out")

    @classmethod
    def at(cls, base_url: str | None, key_name: str | None, **rest: Any) -> Server:
        """Describe a server by its address and the name of the variable with its key; both are optional."""
        required = key_name is not None or base_url is None  # the hosted service requires a key
        url = parse_base_url(base_url) if base_url is not None else HOSTED
        return cls(base_url=url, key=Key.from_environment(key_name or KEY_NAME, required=required), **rest)


class OpenAIEngine:
    def __init__(self, model: str, server: Server) -> None:
        if not model:
            raise UsageError(
                "openai: names no model", remedy="name the model as the server calls it: --policy openai:MODEL"
            )
        self.model = model
        self._server = server
        self._card: ServerCard | None = None
        self._told_context: int | None = None
        self._refused: dict[str, str] = {}
        self._chance = random.Random()
        self._pace = Pace(server.limits, longest_wait_s=server.patience.retry_within_s)

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
    def _owner(self) -> str:
        return self._card.owner if self._card is not None else ""

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
            exchange = Exchange(
                client=client,
                url=f"{self._server.base_url}/chat/completions",
                key=self._server.key,
                patience=self._server.patience,
                heed=self._pace.heed,
            )
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(
                        # some servers accept only 31 bits
                        self._draws(exchange, one, [seed >> 31 for seed in seeds_of(one)], room)
                    )
                    for one in questions
                ]
        return [task.result() for task in asked]

    async def close(self) -> None:
        """Do nothing: connections end with each `answer`."""

    def _client(self) -> httpx.AsyncClient:
        """Make a client for one batch. A client belongs to an event loop, and a trainer uses a new loop for each
        call.
        """
        local = urlsplit(self._server.base_url).hostname in ("localhost", "127.0.0.1", "::1")
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        timeout = httpx.Timeout(None, connect=self._server.patience.connect_s)  # other timeouts: see `exchange.py`
        try:
            return httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=not local, follow_redirects=False)
        except (ValueError, ImportError):  # the error's text may hold the proxy's password
            raise EngineError(
                "the environment names a proxy that cannot be used",
                where=self.name,
                remedy="mend HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, or name the server in NO_PROXY",
            ) from None

    # -- answers to one question -----------------------------------------------------------------------------------

    async def _draws(
        self, exchange: Exchange, question: ModelQuestion, seeds: Sequence[int], room: asyncio.Semaphore
    ) -> list[Sampled]:
        """Request an answer for each seed: all in one request if the server supports that, otherwise one each."""
        if len(seeds) > 1 and SEVERAL in self._refused:
            each = (self._draws(exchange, question, [seed], room) for seed in seeds)
            return [sampled for found in await asyncio.gather(*each) for sampled in found]
        sampled = await self._sample(exchange, question, seeds, room)
        if 0 < len(sampled) < len(seeds):
            sampled += await self._draws(exchange, question, seeds[len(sampled) :], room)
        return sampled

    async def _sample(
        self, exchange: Exchange, question: ModelQuestion, seeds: Sequence[int], room: asyncio.Semaphore
    ) -> list[Sampled]:
        """Send one request; return its answers, or the trouble once for each seed."""
        async with room:
            began_s = time.monotonic()
            total_s = self._server.patience.total_s
            try:
                async with asyncio.timeout(total_s) as limit:
                    response, body, without = await self._ask_with_retries(exchange, question, seeds, limit)
            except TimeoutError:
                return [self._trouble(Refusal(what=f"no whole answer within {total_s:g} s"))] * len(seeds)
            except NoReply as error:
                return [self._trouble(error.refusal)] * len(seeds)
            for reply in response.finished:
                await respell(reply, self._speller(exchange.client))
            return self._sampled(response, question, body, without, time.monotonic() - began_s)

    async def _ask_with_retries(
        self, exchange: Exchange, question: ModelQuestion, seeds: Sequence[int], limit: asyncio.Timeout
    ) -> tuple[Response, dict[str, Any], dict[str, str]]:
        """Ask until there is an answer or retrying is useless; return it with the request, and why fields were omitted.

        Time spent waiting for a limit per minute does not count against other limits.
        """
        patience, tries, paced_s = self._server.patience, 0, 0.0
        estimate = sum(self.count(message.content) for message in question.messages)
        estimate += len(seeds) * question.sampling.tokens_at_most
        began_s = time.monotonic()
        while True:
            without = dict(self._refused)
            body = self._body(question, seeds, without)
            due_s = limit.when()
            sent, waited_s = await self._waited(estimate, limit, due_s)
            paced_s += waited_s
            try:
                response = await exchange.ask(body)
                sent.tokens = (response.prompt_tokens or 0) + (response.completion_tokens or 0) or sent.tokens
                if len(seeds) > 1 and response.complete and len(response.replies) < len(seeds):
                    self._refused.setdefault(SEVERAL, "the server gave fewer answers than requested")
                return response, body, without
            except NoReply as error:
                refusal = error.refusal
            if refused := [field for field in refusal.fields if field not in without and _holds(body, field)]:
                self._refused |= dict.fromkeys(refused, refusal.what)
                continue
            tries += 1
            if refusal.retry_after_s is not None:
                self._pace.rest(refusal.retry_after_s)
            wait_s = patience.wait_s(tries, refusal.retry_after_s, self._chance)
            late = time.monotonic() - began_s - paced_s + wait_s > patience.retry_within_s
            if not refusal.again or tries >= patience.tries or late:
                raise NoReply(_given_up(refusal, tries, late))
            await asyncio.sleep(wait_s)

    async def _waited(self, tokens: int, limit: asyncio.Timeout, due_s: float | None) -> tuple[Sent, float]:
        """Wait for the limits per minute, and extend the time limit of the answer by the wait."""
        limit.reschedule(None)
        sent, waited_s = await self._pace.enter(tokens)
        limit.reschedule(None if due_s is None else due_s + waited_s)
        return sent, waited_s

    def _body(self, question: ModelQuestion, seeds: Sequence[int], without: dict[str, str]) -> dict[str, Any]:
        sampling = question.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [_plain(message) for message in question.messages],
            "max_tokens": sampling.tokens_at_most,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": seeds[0],
            "stream": True,
            "stream_options": {"include_usage": True},
            "logprobs": True,
        }
        for field, neutral in UNCHANGED.items():
            value = getattr(sampling, field)
            if self._server.base_url != HOSTED or value != neutral:
                body[PENALTY.get(self._owner, field) if field == "repetition_penalty" else field] = value
        if len(seeds) > 1:
            body[SEVERAL] = len(seeds)
        if self._server.reasoning_effort:
            body["reasoning_effort"] = self._server.reasoning_effort
        if question.tools:
            body["tools"] = [{"type": "function", "function": dataclasses.asdict(tool)} for tool in question.tools]
        if self._owner == "vllm":
            body["return_token_ids"] = True
            if sampling.max_thinking_tokens:
                body["thinking_token_budget"] = sampling.max_thinking_tokens
        body |= self._server.extra_body
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
        if self._owner != "vllm":
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
        self,
        response: Response,
        question: ModelQuestion,
        body: dict[str, Any],
        without: dict[str, str],
        wall_s: float,
    ) -> list[Sampled]:
        replies, usages = response.finished, response.usages()
        notes = [f"asked without {field}: {why}" for field, why in without.items() if field not in SILENT]
        if usages is None:
            asked = sum(self.count(message.content) for message in question.messages)
            usages = [
                Usage(
                    prompt_tokens=asked,
                    completion_tokens=len(reply.tokens()[0] or ()) or self.count(reply.reasoning + reply.text),
                )
                for reply in replies
            ]
            notes.append("the server states no usage; it is an upper estimate")
        return [
            self._one(
                reply, usage, notes, response, _record(body, number, self._owner, self._server.extra_body), wall_s
            )
            for number, (reply, usage) in enumerate(zip(replies, usages))
        ]

    def _one(
        self, reply: Reply, usage: Usage, notes: list[str], response: Response, record: SamplingRecord, wall_s: float
    ) -> Sampled:
        token_ids, log_probabilities, missing = reply.tokens()
        notes = [note for note in (missing, reply.doubt, *notes) if note]
        key, text, reasoning, calls = self._server.key, reply.text, reply.reasoning, reply.calls
        if key.is_in("\0".join((text, reasoning, *(call.arguments for call in calls)))):
            text, reasoning, token_ids, log_probabilities = key.hide(text), key.hide(reasoning), None, None
            calls = tuple(dataclasses.replace(call, arguments=key.hide(call.arguments)) for call in calls)
            notes = ["the answer contained the server's key, which was removed"]
        cost = self._server.price.of(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
        return Sampled(
            text=text,
            reasoning=reasoning,
            calls=calls,
            finish_reason=reply.finish_reason,
            prompt_ids=response.prompt_ids,
            token_ids=token_ids,
            log_probabilities=log_probabilities,
            sampling=record,
            missing=key.clean("; ".join(notes)),
            usage=dataclasses.replace(usage, cost=cost, wall_s=wall_s),
            version=key.clean(response.version),
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


def _record(body: dict[str, Any], number: int, owner: str, extra: Mapping[str, Any]) -> SamplingRecord:
    """Return the settings of one draw of a request, as far as the request states them.

    The server's defaults are not known. For a request of several answers only vLLM's seeds are known: it adds the
    answer's number to the seed.
    """
    names = ("temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "reasoning_effort")
    several, seed = SEVERAL in body, body.get("seed")
    if several and seed is not None:
        seed = seed + number if owner == "vllm" else None
    return SamplingRecord(
        **{name: body.get(name) for name in names},
        repetition_penalty=body.get(PENALTY.get(owner, "repetition_penalty")),
        tokens_at_most=body.get("max_tokens", body.get(RENAMED["max_tokens"])),
        thinking_tokens_at_most=body.get("thinking_token_budget"),
        extra_body=json.dumps(dict(extra), sort_keys=True) if extra else None,
        seed=seed,
        pattern="",
    )


def _plain(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        plain["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    return plain | {"tool_call_id": message.answers_call} if message.answers_call else plain


def _holds(body: dict[str, Any], field: str) -> bool:
    return field in body or (field == SYSTEM_ROLE and any(one["role"] == "system" for one in body["messages"]))


def _without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Move system messages into the first user message, for models whose templates reject the system role."""
    system = [one["content"] for one in messages if one["role"] == "system"]
    rest = [one for one in messages if one["role"] != "system"]
    return [{"role": "user", "content": "\n\n".join([*system, *(one["content"] for one in rest[:1])])}, *rest[1:]]


def _given_up(refusal: Refusal, tries: int, late: bool) -> Refusal:
    if tries == 1 and not late:
        return refusal
    told = refusal.retry_after_s
    wait = f"; the server asks to wait {told:.0f} s" if late and told else ""
    return dataclasses.replace(refusal, what=f"{refusal.what} (after {tries} {'try' if tries == 1 else 'tries'}{wait})")


def parse_base_url(text: str) -> str:
    """Validate and complete the base address; add `/v1` to a bare host."""
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

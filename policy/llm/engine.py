"""The interface of engines, which turn a conversation into text: a server, or a model on this machine.

An engine knows nothing about kernels; `author.py` makes a policy of one. It returns tokens and log-probabilities
exactly as sampled, or the reason why they are missing.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from triton_agent.memory.records import Distribution, Message, SamplingRecord, ToolCall, Usage
from triton_agent.tools.errors import InstrumentError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings for sampling an answer."""

    temperature: float = 0.8
    top_p: float = 1.0
    top_k: int = 0
    """0 for no limit."""
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    max_tokens: int = 8192
    """Most tokens of an answer without its thoughts."""
    max_thinking_tokens: int = 0
    """Most tokens of the thoughts before the answer; 0 for models that do not think."""
    seed: int = 0
    """Equal seeds and questions give equal answers if the engine supports that."""
    pattern: str = ""
    """A regular expression that the whole answer must match. Engines without constrained decoding report trouble."""

    @property
    def tokens_at_most(self) -> int:
        """Most tokens of thoughts and answer."""
        return self.max_tokens + self.max_thinking_tokens

    def record(self, *, seed: int, tokens_at_most: int) -> SamplingRecord:
        """Return the record of sampling one answer, for engines that apply these settings and no others."""
        return SamplingRecord(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            frequency_penalty=0.0,
            presence_penalty=0.0,
            repetition_penalty=self.repetition_penalty,
            pattern=self.pattern,
            tokens_at_most=tokens_at_most,
            seed=seed,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool that a model may call."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of its arguments."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    """A conversation and the number of answers wanted."""

    messages: tuple[Message, ...]
    n: int = 1
    sampling: Sampling = Sampling()
    tools: tuple[ToolSpec, ...] = ()

    @property
    def digest(self) -> bytes:
        """Hash of the conversation."""
        said = hashlib.sha256()
        for message in self.messages:
            said.update(f"\0{message.role}\0{message.content}".encode(errors="surrogatepass"))
            for call in message.calls:
                said.update(f"\0{call.name}\0{call.arguments}".encode(errors="surrogatepass"))
        return said.digest()


SEED_BITS = 62
"""Bits of a seed, which must fit the signed integers that the generators of all engines take."""


def seeds_of(question: ModelQuestion) -> list[int]:
    """Return a seed for each wanted answer. It depends on the conversation, too, so that turns of one run differ."""
    said = f"{question.sampling.seed}/".encode() + question.digest
    return [
        int.from_bytes(hashlib.sha256(said + index.to_bytes(8, "big")).digest()[:8], "big") >> (64 - SEED_BITS)
        for index in range(question.n)
    ]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The reason for a missing answer. It is no failure of the model and therefore never becomes an attempt."""

    what: str
    remedy: str = ""
    too_long: bool = False
    """True if question and answer do not fit into the context, so that a shorter question may get an answer."""
    context_tokens: int | None = None
    """Size of the context, if the server stated it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """One answer as it was drawn, or the trouble that prevented it."""

    text: str
    """The answer; it includes the thoughts if the engine does not separate them."""
    reasoning: str = ""
    """Thoughts, if the engine separates them."""
    calls: tuple[ToolCall, ...] = ()
    """Tools that the model calls before it answers."""
    finish_reason: str = "stop"
    """`stop`, `length` (cut off at the token limit), or the engine's own word."""
    prompt_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    log_probabilities: tuple[float, ...] | None = None
    log_probabilities_of: Distribution = Distribution.UNKNOWN
    sampling: SamplingRecord = dataclasses.field(default_factory=SamplingRecord)
    """Settings of this draw, as far as the engine knows them."""
    tokenizer: str = ""
    """Digest of the vocabulary; see `vocabulary_digest` in `engines/vllm_worker.py`."""
    missing: str = ""
    """Why tokens or log-probabilities are missing, or why the text may differ from the tokens."""
    usage: Usage = dataclasses.field(default_factory=Usage)
    version: str = ""
    """Version of the weights, if the response names it; otherwise the engine's version applies."""
    adapter_version: str = ""
    trouble: Trouble | None = None
    """The reason if there is no text. Other answers of the batch may have arrived."""


class Engine(Protocol):
    @property
    def name(self) -> str:
        """Name, as `--policy` takes it: `openai:MODEL`."""

    @property
    def version(self) -> str:
        """Version of the weights, as far as it is known."""

    @property
    def context_tokens(self) -> int:
        """Most tokens of question and answer together."""

    def count(self, text: str) -> int:
        """Count tokens with the model's tokenizer; without one, return an upper estimate."""

    async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        """Answer all questions in one batch; each gets at most as many answers as it asks for."""

    async def close(self) -> None:
        """Free all resources."""


@runtime_checkable
class Preparable(Protocol):
    """An engine whose `context_tokens` and `version` are reliable only after `prepare`."""

    async def prepare(self) -> None:
        """Look up the model's properties. Repeated calls are cheap, and finding nothing is not an error."""


class EngineError(InstrumentError):
    """Raised if an engine gives no answer and asking again is useless: it is down, rejects the key, or lacks the
    model.
    """

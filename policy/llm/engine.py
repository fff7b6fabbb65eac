"""The interface of engines, which turn a conversation into text: a server, or a model on this machine.

An engine knows nothing of kernels; `author.py` makes a policy of one. Tokens and log-probabilities are returned exactly
as sampled, or not at all with the reason.
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
    """Limit for one answer, thoughts not included."""
    max_thinking_tokens: int = 0
    """Further tokens for thoughts before it; 0 for models that do not think."""
    seed: int = 0
    """Equal seeds and questions give equal answers where the engine can promise that."""
    pattern: str = ""
    """A regular expression that the whole answer has to match; engines without that ability report trouble."""

    @property
    def tokens_at_most(self) -> int:
        """Most tokens of thoughts and answer."""
        return self.max_tokens + self.max_thinking_tokens

    def record(self, *, seed: int, tokens_at_most: int) -> SamplingRecord:
        """Return the record of one draw by an engine that changes the distribution in no other way."""
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
    """A tool that a model may ask for."""

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
"""Fits the signed integers that generators of all engines take."""


def seeds_of(question: ModelQuestion) -> list[int]:
    """Return a seed for each answer wanted. Seeds depend on the conversation, too, so that turns of one run differ."""
    said = f"{question.sampling.seed}/".encode() + question.digest
    return [
        int.from_bytes(hashlib.sha256(said + index.to_bytes(8, "big")).digest()[:8], "big") >> (64 - SEED_BITS)
        for index in range(question.n)
    ]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The reason for a missing answer. It says nothing about the model, so it never becomes an attempt."""

    what: str
    remedy: str = ""
    too_long: bool = False
    """Question and answer do not fit into the context: a shorter question may get an answer."""
    context_tokens: int | None = None
    """The size of the context, if the server said so."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """One answer as it was drawn, or the trouble that prevented it."""

    text: str
    """The answer; with its thoughts, if the engine does not keep them apart."""
    reasoning: str = ""
    """Thoughts that the engine keeps apart."""
    calls: tuple[ToolCall, ...] = ()
    """Tools that the model asks for before it answers."""
    finish_reason: str = "stop"
    """`stop`, `length` (cut short by its limit), or the engine's own word."""
    prompt_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    log_probabilities: tuple[float, ...] | None = None
    log_probabilities_of: Distribution = Distribution.UNKNOWN
    sampling: SamplingRecord = dataclasses.field(default_factory=SamplingRecord)
    """Settings of this draw, as far as the engine knows them."""
    tokenizer: str = ""
    """Digest of the vocabulary; see `vocabulary_digest` in `engines/vllm_worker.py`."""
    missing: str = ""
    """Why tokens or log-probabilities are missing, or the text may differ from the tokens."""
    usage: Usage = dataclasses.field(default_factory=Usage)
    version: str = ""
    """Version of the weights if the answer names it; otherwise it is the engine's."""
    adapter_version: str = ""
    trouble: Trouble | None = None
    """If set, there is no text; other answers of the batch may have arrived."""


class Engine(Protocol):
    @property
    def name(self) -> str:
        """Name, as `--policy` takes it: `openai:MODEL`."""

    @property
    def version(self) -> str:
        """Version of the weights, as far as known."""

    @property
    def context_tokens(self) -> int:
        """Most tokens of question and answer together."""

    def count(self, text: str) -> int:
        """Count tokens with the model's tokenizer, or estimate them from above without one."""

    async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        """Answer all questions in one batch; each gets at most as many answers as it asks for."""

    async def close(self) -> None:
        """Free all resources."""


@runtime_checkable
class Preparable(Protocol):
    """An engine whose `context_tokens` and `version` are reliable only after `prepare`."""

    async def prepare(self) -> None:
        """Look up the model's properties; cheap when repeated, and no failure if nothing is found."""


class EngineError(InstrumentError):
    """No answer, and no use in asking again: the engine is down, refuses the key, or does not know the model."""

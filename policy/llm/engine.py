"""The interface of engines, which turn a conversation into text: a server, or a model on this machine.

An engine knows nothing of kernels; `author.py` makes a policy of one. Tokens and log-probabilities are returned exactly
as sampled, or not at all with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from triton_agent.memory.records import Message
from triton_agent.tools.errors import InstrumentError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings for sampling an answer."""

    temperature: float = 0.8
    top_p: float = 1.0
    max_tokens: int = 8192
    """Limit for one answer."""
    seed: int = 0
    """Equal seeds and questions give equal answers where the engine can promise that."""
    pattern: str = ""
    """A regular expression that the whole answer has to match; engines without that ability report trouble."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    """A conversation and the number of answers wanted."""

    messages: tuple[Message, ...]
    n: int = 1
    sampling: Sampling = Sampling()


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
    finish_reason: str = "stop"
    """`stop`, `length` (cut short by its limit), or the engine's own word."""
    prompt_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    log_probabilities: tuple[float, ...] | None = None
    missing: str = ""
    """Why tokens or log-probabilities are missing, or the text may differ from the tokens."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    wall_s: float = 0.0
    version: str = ""
    """Version of the weights if the answer names it; otherwise it is the engine's."""
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

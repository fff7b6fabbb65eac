"""Whatever turns a conversation into text: a server, an engine of our own, a model in memory.

An engine knows nothing of kernels. `author.py` makes a policy of one: it renders the observation, asks, and keeps what
was sampled. Tokens and log-probabilities are given exactly as they were sampled, or not at all with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from triton_agent.memory.records import Message
from triton_agent.tools.errors import InstrumentError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How an answer is drawn."""

    temperature: float = 0.8
    top_p: float = 1.0
    max_tokens: int = 8192
    """Of one answer."""
    seed: int = 0
    """The same seed and question give the same answers where the engine can promise that."""
    pattern: str = ""
    """A regular expression that the whole answer is held to; trouble where the engine cannot do that."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One conversation, and how many answers are wanted."""

    messages: tuple[Message, ...]
    n: int = 1
    sampling: Sampling = Sampling()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a question has no answer. It says nothing about the model, so it never becomes an attempt."""

    what: str
    remedy: str = ""
    too_long: bool = False
    """Question and answer do not fit into the context: a shorter question would get an answer."""
    context_tokens: int | None = None
    """What does fit, where that was said."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """One answer as it was drawn, or the trouble that kept it from coming."""

    text: str
    finish_reason: str = "stop"
    """`stop`, `length` (cut short by its limit), or the engine's own word."""
    prompt_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    log_probabilities: tuple[float, ...] | None = None
    missing: str = ""
    """Why tokens or log-probabilities are not there, or the text may not be what the tokens spell."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    wall_s: float = 0.0
    version: str = ""
    """Of the weights that drew it, where that is told with the answer; else it is the engine's."""
    trouble: Trouble | None = None
    """Then there is no text; other answers of the same batch may have come."""


class Engine(Protocol):
    """A model that can be asked."""

    @property
    def name(self) -> str:
        """As `--policy` takes it: `openai:MODEL`."""

    @property
    def version(self) -> str:
        """Of the weights, as far as it is known."""

    @property
    def context_tokens(self) -> int:
        """What question and answer may have together."""

    def count(self, text: str) -> int:
        """Tokens of a text by the model's own tokenizer, or a bound from above where that is out of reach."""

    async def answer(self, questions: Sequence[Question]) -> list[list[Sampled]]:
        """For each question as many answers as were asked for, or fewer; all questions in one batch."""

    async def close(self) -> None:
        """Let go of whatever it holds."""


@runtime_checkable
class Preparable(Protocol):
    """An engine that has to look around before its `context_tokens` and `version` can be relied on."""

    async def prepare(self) -> None:
        """Called before they are read; quick where nothing is to be done, and no failure where nothing is found."""


class EngineError(InstrumentError):
    """No answer, and asking again would not help: it is down, refuses the key, or knows no such model."""

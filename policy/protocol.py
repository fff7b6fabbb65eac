"""Who writes kernels: the one interface of the built-in author, scripts and language models alike.

A policy keeps nothing between calls: all it may use is in the observation, or a run could not be resumed, replayed or
forked. It may answer less often than asked, also not at all: then it has nothing more to say. One with a true attribute
`trusted` writes only what it made up itself, so a quick look in a shared worker may sort its files before verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from triton_agent.memory.observation import Observation
from triton_agent.memory.records import Completion


@runtime_checkable
class Policy(Protocol):
    """An author of kernels."""

    @property
    def name(self) -> str:
        """As `--policy` takes it."""

    @property
    def version(self) -> str:
        """Of its code or its weights; stored with every answer."""

    async def propose(self, observation: Observation, n: int = 1) -> list[Completion]:
        """At most `n` answers to one observation, as different as it can make them."""

    async def propose_many(self, observations: Sequence[Observation]) -> list[Completion | None]:
        """One answer to each observation, in one batch; None where it has nothing to say."""

    async def close(self) -> None:
        """Let go of servers and engines."""

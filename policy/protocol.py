"""The interface of authors of kernels: the built-in author, scripts and language models.

A policy keeps nothing between calls. Everything it may use is in the observation; otherwise a run could not be resumed,
replayed or forked. It may give fewer answers than requested, or none if it has no more to propose.

A policy with a true attribute `trusted` varies only numbers that it chose itself, so quick looks in a shared worker may
sort its files before verdicts. A policy with a true attribute `takes_tasks` follows `Observation.task`, so the search
may choose tasks for it.
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
        """Name, as `--policy` takes it."""

    @property
    def version(self) -> str:
        """Version of its code or weights, stored with every answer."""

    async def propose(self, observation: Observation, n: int = 1) -> list[Completion]:
        """Return at most `n` answers to one observation, as different as possible."""

    async def propose_many(self, observations: Sequence[Observation]) -> list[Completion | None]:
        """Return one answer to each observation, asked in one batch; None where there is nothing to propose."""

    async def close(self) -> None:
        """Close servers and engines."""

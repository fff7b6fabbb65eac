"""Asks the policies of a run for answers within the time left; one policy's failure does not end the run.

A policy that cannot answer is an instrument failure: the policy is skipped for a few turns, then asked again. Not
covered: which policy writes which answer; see `portfolio.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from triton_agent.memory.observation import Observation
from triton_agent.memory.records import Completion
from triton_agent.policy.protocol import Policy
from triton_agent.tools.errors import InstrumentError

LEFT_OUT_TURNS = 4
"""Number of turns for which a failed policy is skipped. A server may come back and a key may be renewed, but asking a
failed policy in every turn would make every turn wait for it.
"""
LEAST_ASKING_S = 30.0
"""Shortest time that a turn waits for answers, even when less is left, so that a run with a short budget gets an
answer.
"""
FAILED, SHORT = "policy_failed", "answers_missing"
"""Kinds of events: no answer at all, and fewer answers than requested."""

Tell = Callable[..., Awaitable[None]]
"""Stores an event with the run and shows it."""


class Authors:
    """The policies of a run and their failures."""

    def __init__(self, policies: Sequence[Policy], tell: Tell) -> None:
        self._policies = {policy.name: policy for policy in policies}
        self._tell = tell
        self._failed: dict[str, tuple[int, str]] = {}
        self._answered: dict[str, int] = {}
        self._stopping = asyncio.Event()

    def __getitem__(self, name: str) -> Policy:
        return self._policies[name]

    def able(self, turn: int) -> list[str]:
        """Return the policies that did not fail within the last `LEFT_OUT_TURNS` turns."""
        lately = {name for name in self.failures if turn < self._failed[name][0] + LEFT_OUT_TURNS}
        return [name for name in self._policies if name not in lately]

    @property
    def failures(self) -> dict[str, str]:
        """Map each policy that failed when it was last asked, and gave no answer in that turn, to its error."""
        return {name: what for name, (turn, what) in self._failed.items() if self._answered.get(name, -1) < turn}

    def stop(self) -> None:
        """Stop waiting for answers."""
        self._stopping.set()

    async def ask(self, name: str, seen: Observation, count: int) -> list[Completion]:
        """Ask a policy; return nothing if it fails, the time is up, or the run is stopped."""
        try:
            answers = await self._within(self._policies[name].propose(seen, count), seen.budget.seconds)
        except InstrumentError as error:
            self._failed[name] = (seen.turn, _error_text(error, name))
            await self._tell(FAILED, policy=name, turn=seen.turn, what=_error_text(error, name))
            return []
        if answers:
            self._answered[name] = seen.turn
        for what in self._troubles(name):
            await self._tell(SHORT, policy=name, turn=seen.turn, asked=count, given=len(answers), what=what)
        return answers

    def _troubles(self, name: str) -> list[str]:
        told: Any = getattr(self._policies[name], "troubles", None)
        return told() if told is not None else []

    async def _within(self, asked: Coroutine[Any, Any, list[Completion]], left_s: float | None) -> list[Completion]:
        """Await the answers within the limit; giving up cancels the request."""
        limit_s = None if left_s is None else max(left_s, LEAST_ASKING_S)
        asking, stopping = asyncio.ensure_future(asked), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({asking, stopping}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (asking, stopping):
                task.cancel()
            await asyncio.gather(asking, stopping, return_exceptions=True)
        return [] if asking.cancelled() else asking.result()


def _error_text(error: InstrumentError, name: str) -> str:
    """Describe an error in one line, without repeating the policy's name."""
    where = f"{error.where}: " if error.where and error.where != name else ""
    return f"{where}{error.what}; {error.remedy}" if error.remedy else f"{where}{error.what}"

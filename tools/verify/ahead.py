"""On a GPU: a candidate's kernels are compiled before it has its turn, side by side, in processes that have no GPU.

Compiling takes longer than all else that a verdict asks of a candidate, and whoever compiles while it holds a place at
the GPU keeps the clock waiting. So its host code runs elsewhere first, for each size that will be checked, on inputs
without values and with nothing heavy computed (`emulate/uncomputed.py`); Triton keeps what it compiles in the
candidate's own folder, and finds it there again. Whatever fails here fails again where it counts, or was never needed:
nothing is decided, and after a while nothing is waited for.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import time
from collections.abc import Sequence

from triton_agent.tools.errors import TritonAgentError
from triton_agent.tools.isolate.conditions import Conditions
from triton_agent.tools.verify.plan import Trial
from triton_agent.tools.verify.session import Failed, Session

LEAST_S = 0.01
PATIENCE_S = 15.0
"""A badly spilling tile keeps ptxas busy for longer; then the candidate itself has to."""


def fill_cache(source: str, trials: Sequence[Trial], sessions: Sequence[Session], conditions: Conditions) -> None:
    """Until all trials' kernels are compiled, one fails, or it takes too long."""
    work = _Work(source, trials, conditions)
    if len(sessions) == 1:
        work.share(sessions[0])
        return
    with concurrent.futures.ThreadPoolExecutor(len(sessions), thread_name_prefix="ahead") as pool:
        list(pool.map(work.share, sessions))


class _Work:
    """The trials that are left, taken by whoever is free."""

    def __init__(self, source: str, trials: Sequence[Trial], conditions: Conditions) -> None:
        self._source = source
        self._left = collections.deque(trials)
        self._conditions = dataclasses.asdict(conditions)
        self._until_s = time.monotonic() + PATIENCE_S

    def share(self, session: Session) -> None:
        try:
            session.await_ready()
            reply, _ = session.ask("load", source=self._source, conditions=self._conditions, timeout_s=self._left_s())
            while self._left and "no_model" not in reply:
                self._compile(session, self._left.popleft())
        except (Failed, TritonAgentError, IndexError):  # another took the last one
            return

    def _compile(self, session: Session, trial: Trial) -> None:
        session.ask(
            "build",
            [trial.packed_init],
            timeout_s=self._left_s(),
            model=trial.variant,
            seed=trial.build_seed,
            silenced=False,
            uncomputed=True,
        )
        reply, _ = session.ask(
            "compile",
            [trial.outline],
            timeout_s=self._left_s(),
            model=trial.variant,
            train=trial.cases[0].train,
            uncomputed=True,
        )
        if reply["failure"]:
            self._left.clear()

    def _left_s(self) -> float:
        return max(LEAST_S, self._until_s - time.monotonic())

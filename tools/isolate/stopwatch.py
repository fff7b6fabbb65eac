"""The candidate's side of the clock: set up once with several sets of inputs, then asked for one reading at a time.

What it reads, it reads in the candidate's own process, so the checker does not take its word: it also asks for plain
batches of calls and times those from outside, where nothing in this process can reach.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from triton_agent.tools.isolate.conditions import Conditions
from triton_agent.tools.timing.clock import Clock, ClockSettings
from triton_agent.tools.timing.subject import Subject


class Stopwatch:
    """One subject and the clock that reads it."""

    def __init__(self) -> None:
        self._clock: Clock | None = None
        self._subject: Subject | None = None

    def set_up(self, model: torch.nn.Module, sets: list[list[Any]], conditions: Conditions) -> dict[str, Any]:
        """Calibrate, and warm the subject up."""
        self._subject = Subject([_Call(model, args, conditions) for args in sets])
        self._clock = Clock("cuda", ClockSettings(warm_up_s=0.02))
        self._clock.warm_up(self._subject)
        return {"overheads": dataclasses.asdict(self._clock.overheads), "method": self._clock.method}

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """One sample, or a batch of back-to-back calls whose time is for the asker to take."""
        assert self._clock is not None and self._subject is not None
        if "batch" in message:
            return self._batch(int(message["batch"]))
        return {"sample": dataclasses.asdict(self._clock.time_once(self._subject, int(message["turn"])))}

    def _batch(self, calls: int) -> dict[str, Any]:
        assert self._subject is not None
        result = None
        for turn in range(calls):
            result = self._subject.prepared(turn)()
        torch.cuda.synchronize()
        del result
        return {"done": calls}


class _Call:
    """One call without arguments, for the clock."""

    def __init__(self, model: torch.nn.Module, args: list[Any], conditions: Conditions) -> None:
        self._model = model
        self._args = args
        self._conditions = conditions

    def __call__(self) -> Any:
        with torch.no_grad(), self._conditions.calling("cuda"):
            return self._model(*self._args)

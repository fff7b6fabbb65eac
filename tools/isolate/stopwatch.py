"""The candidate's side of the clock: set up once with several sets of inputs, then asked for one reading at a time.

What it reads, it reads in the candidate's own process, so the checker does not take its word: it also asks for plain
batches of calls and times those from outside, where nothing in this process can reach. Inputs are new before every
call; now and then they come from the checker, who then wants to see what that call returned.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from triton_agent.tools.isolate.conditions import Conditions
from triton_agent.tools.isolate.tensors import UNREADABLE, describe, flatten, refill, row
from triton_agent.tools.timing.clock import Calibration, Clock, ClockSettings
from triton_agent.tools.timing.renewal import renew
from triton_agent.tools.timing.subject import Subject


class Stopwatch:
    """One subject and the clock that reads it."""

    def __init__(self) -> None:
        self._clock: Clock | None = None
        self._subject: Subject | None = None
        self._calls: list[TimedCall] = []

    def set_up(
        self,
        model: torch.nn.Module,
        sets: list[list[Any]],
        conditions: Conditions,
        calibration: dict[str, Any],
        *,
        renewed: bool,
    ) -> None:
        """Warm the subject up. Calibrated elsewhere: while others are at work here nothing could be calibrated."""
        self._calls = [TimedCall(model, args, conditions, renewed=renewed) for args in sets]
        self._subject = Subject(self._calls, refresh=self._refresh)
        self._clock = Clock("cuda", ClockSettings(warm_up_s=0.02), Calibration.from_json(calibration))
        self._clock.warm_up(self._subject)

    def answer(
        self, message: dict[str, Any], inputs: list[list[Any]]
    ) -> tuple[dict[str, Any], list[list[torch.Tensor]]]:
        """A sample for each turn, or a batch of back-to-back calls whose time is for the asker to take.

        With `inputs` the first sample's call for the device time, or the one after it for the latency, gets these, and
        what it returned goes back with the sample.
        """
        assert self._clock is not None and self._subject is not None
        if "batch" in message:
            return self._batch(int(message["batch"])), []
        turns = [int(turn) for turn in message["turns"]]
        looked_at = self._calls[(turns[0] + int(message.get("later", 0))) % len(self._calls)]
        for args in inputs:
            looked_at.take(args)
        samples = [dataclasses.asdict(sample) for sample in self._clock.read(self._subject, turns)]
        return looked_at.shown({"samples": samples}) if inputs else ({"samples": samples}, [])

    def _refresh(self, turn: int) -> None:
        self._calls[turn % len(self._calls)].refresh()

    def _batch(self, calls: int) -> dict[str, Any]:
        """Without new inputs in between, whose making would be timed as well."""
        for call in self._calls:
            call.refresh()
        result = None
        for turn in range(calls):
            result = self._calls[turn % len(self._calls)]()
        torch.cuda.synchronize()
        del result
        return {"done": calls}


class TimedCall:
    """One call without arguments, for the clock."""

    def __init__(self, model: torch.nn.Module, args: list[Any], conditions: Conditions, *, renewed: bool) -> None:
        self._model = model
        self._args = args
        self._conditions = conditions
        self._renewed = renewed
        self._due: list[Any] | None = None
        self._keeps = False
        self._kept: Any = None

    def __call__(self) -> Any:
        with torch.no_grad(), self._conditions.calling("cuda"):
            result = self._model(*self._args)
        if self._keeps:
            self._kept = result
        return result

    def take(self, args: list[Any]) -> None:
        """The next call has these inputs, and its result is kept."""
        self._due = args

    def refresh(self) -> None:
        """Before each call. What was kept stays: a call is repeated where the clock could not read it."""
        self._keeps, due, self._due = self._due is not None, self._due, None
        with torch.no_grad():
            if due is not None:
                self._args = [refill(old, new) for old, new in zip(self._args, due)]
            elif self._renewed:
                renew(self._args)

    def shown(self, reply: dict[str, Any]) -> tuple[dict[str, Any], list[list[torch.Tensor]]]:
        """The reply with what was kept, in the form in which every call's answer goes back."""
        outputs: list[torch.Tensor] = []

        def keep(tensor: torch.Tensor) -> int:
            outputs.append(tensor)
            return len(outputs) - 1

        kept, self._kept = self._kept, None
        try:
            tree, rows = flatten(kept, keep), [row(tensor) for tensor in outputs]
        except UNREADABLE as error:
            return {**reply, "foreign": str(error)[:300]}, []
        return {**reply, "tree": tree, "tensors": [describe(tensor) for tensor in outputs]}, [rows]

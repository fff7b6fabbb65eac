"""The executor's side of timing: set up once with several sets of inputs, then asked for one sample at a time.

Inputs are renewed before every call. Some calls get inputs from the checker instead, which then also gets the outputs
of that call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from triton_agent.tools.executor.file_program import FileProgram
from triton_agent.tools.executor.memory import Fresh
from triton_agent.tools.executor.program import Program, Run
from triton_agent.tools.executor.step_times import step_times
from triton_agent.tools.kernel_profile import StepTime
from triton_agent.tools.processes.protocol import ReadClock, Readings
from triton_agent.tools.processes.tensors import describe, refill, row
from triton_agent.tools.race.clock import Clock, ClockSettings, Subject
from triton_agent.tools.race.readings import Calibration, Sample
from triton_agent.tools.race.renewal import renew

AS_SHIPPED = Run(fresh=Fresh(device="cuda"))


class Stopwatch:
    """Times one program."""

    def __init__(self) -> None:
        self._clock: Clock | None = None
        self._subject: Subject | None = None
        self._calls: list[TimedCall] = []

    def set_up(
        self,
        program: Program | FileProgram,
        sets: list[list[torch.Tensor]],
        calibration: Calibration,
        *,
        renewed: bool,
    ) -> None:
        """Warm the program up. The calibration comes from elsewhere, since a shared GPU cannot be calibrated here."""
        self._calls = [TimedCall(program, inputs, renewed=renewed) for inputs in sets]
        self._subject = Subject(self._calls, refresh=self._refresh)
        self._clock = Clock("cuda", ClockSettings(warm_up_s=0.0), calibration)
        self._clock.warm_up(self._subject)

    def read(self, request: ReadClock, inputs: list[list[torch.Tensor]]) -> tuple[Readings, list[list[torch.Tensor]]]:
        """Return a sample for each turn.

        With `inputs`, one call uses these: the first sample's call for the device time, or the one after it for the
        latency (`request.later`). Its outputs are returned with the sample.
        """
        assert self._clock is not None and self._subject is not None
        looked_at = self._calls[(request.turns[0] + request.later) % len(self._calls)]
        for tensors in inputs:
            looked_at.take(tensors)
        samples = tuple(self._clock.read(self._subject, request.turns, request.series, one_call=request.one_call))
        return looked_at.shown(samples) if inputs else (Readings(samples=samples), [])

    def step_times(self, calls: int) -> tuple[StepTime, ...]:
        """Return the time of each step of the tape on the timed inputs."""
        assert self._clock is not None
        return self._calls[0].step_times(calls, self._clock.flush)

    def warm_up(self, calls: int) -> None:
        """Make `calls` calls."""
        for call in self._calls:
            call.refresh()
        for turn in range(calls):
            self._calls[turn % len(self._calls)]()
        torch.cuda.synchronize()

    def _refresh(self, turn: int) -> None:
        self._calls[turn % len(self._calls)].refresh()


class TimedCall:
    """A call without arguments, as the clock needs it."""

    def __init__(self, program: Program | FileProgram, inputs: list[torch.Tensor], *, renewed: bool) -> None:
        self._program = program
        self._inputs = inputs
        self._bound: Any = program.bound(inputs)
        self._renewed = renewed
        self._due: list[torch.Tensor] | None = None
        self._keeps = False
        self._kept: list[torch.Tensor] = []

    def __call__(self) -> list[torch.Tensor]:
        outputs = self._program.call(self._bound, AS_SHIPPED)
        if self._keeps:
            self._kept = outputs
        return outputs

    def step_times(self, calls: int, flush: Callable[[], None]) -> tuple[StepTime, ...]:
        assert isinstance(self._program, Program), "a shipped file has no steps"
        return step_times(self._program, self._bound, calls, flush)

    def take(self, inputs: list[torch.Tensor]) -> None:
        """Use these inputs in the next call, and keep its outputs."""
        self._due = inputs

    def refresh(self) -> None:
        """Renew the inputs before a call. Kept outputs are not dropped: a call is repeated if it could not be timed."""
        self._keeps, due, self._due = self._due is not None, self._due, None
        with torch.no_grad():
            if due is not None:
                self._inputs = [refill(old, new) for old, new in zip(self._inputs, due)]
                self._bound = self._program.bound(self._inputs)
            elif self._renewed:
                renew(self._inputs)

    def shown(self, samples: tuple[Sample, ...]) -> tuple[Readings, list[list[torch.Tensor]]]:
        """Return the samples with the kept outputs, in the form of every other answer."""
        outputs, self._kept = self._kept, []
        readings = Readings(samples=samples, outputs=tuple(describe(tensor) for tensor in outputs))
        return readings, [[row(tensor) for tensor in outputs]]

"""Steps of a tape are timed one by one, here with a fake clock that the test advances."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.tools.executor.test_program import Played, program
from tests.tools.tape.tapes import Writing

from triton_agent.tools.executor import step_times as timing
from triton_agent.tools.kernel_profile import StepTime

EMPTY_MS = 0.25
X = torch.arange(8.0).reshape(2, 4)


class Hand:
    """A fake device clock. The kernels of the test advance it."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.flushed = 0

    def event(self) -> Mark:
        return Mark(self)

    def takes(self, ms: float) -> Callable[..., None]:
        def kernel(x: torch.Tensor, y: torch.Tensor) -> None:
            self.now_ms += ms
            y.copy_(2 * x)

        return kernel

    def flush(self) -> None:
        self.flushed += 1
        self.now_ms += 100.0


class Mark:
    def __init__(self, hand: Hand) -> None:
        self.hand = hand

    def record(self) -> None:
        self.hand.now_ms += EMPTY_MS / 2
        self.at_ms = self.hand.now_ms
        self.hand.now_ms += EMPTY_MS / 2

    def elapsed_time(self, end: Mark) -> float:
        return end.at_ms - self.at_ms


def test_each_launch_and_operator_is_timed_without_the_cost_of_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    hand = Hand()
    monkeypatch.setattr(timing, "timing_event", hand.event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: None)
    writing = Writing()
    x = writing.input(X)
    w = writing.parameter("w", X)
    prepared = writing.operate("aten.neg.default", w, prepared=True)
    y = writing.allocate(2, 4)
    writing.launch("slow", x=x, y=y)
    summed = writing.operate("aten.add.Tensor", y, prepared)
    z = writing.allocate(2, 4)
    writing.launch("quick", x=summed, y=z)
    made = program(writing.tape(z), Played(slow=hand.takes(4.0), quick=hand.takes(1.0)))
    made.set_state({"w": X})

    found = timing.step_times(made, made.bound([X.clone()]), calls=3, flush=hand.flush)

    assert found == tuple(StepTime(step=step, choice=0, device_ms=ms) for step, ms in ((1, 4.0), (2, 0.0), (4, 1.0)))
    assert hand.flushed == 4, "each call finds a cold cache, and one call shows how long the host takes"

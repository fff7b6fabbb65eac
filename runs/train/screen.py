"""The screen of a training on stderr: one live line at a terminal, a line now and then in a pipe."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from triton_agent.policy.train.extra import require_training
from triton_agent.runs.cli import console
from triton_agent.runs.cli.pace import in_words, waiting

SHOWN = {
    "loss": "loss",
    "reward": "reward",
    "entropy": "entropy",
    "clip_ratio/region_mean": "clipped",
    "importance/capped": "capped",
    "mean_token_accuracy": "accuracy",
    "eval_loss": "held-out loss",
    "eval_reward": "held-out reward",
    "eval_correct": "held-out correct",
    "eval_hack": "held-out hacks",
}
"""Logged figures and their names on the screen; parts of rewards are shown as well."""
LINE_EVERY_S = 10.0


def load_libraries() -> None:
    """Import the training libraries, and say so if that takes long; raise UsageError if the extra is missing."""
    require_training()
    with waiting("loading torch, transformers and trl"):
        importlib.import_module("triton_agent.policy.train.update.session")


class TrainScreen:
    """Shows figures; a context manager. `show` takes the figures that the trainer logs."""

    def __init__(self, title: str, count_a_step: int, unit: str = "turns") -> None:
        self.console = console.progress()
        self.live = self.console.is_terminal
        self.title = title
        self.count_a_step, self.unit = count_a_step, unit
        self.latest: dict[str, float] = {}
        self.began: tuple[float, int] | None = None
        self.told_at = 0.0
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        self.bar = Progress(
            *columns, TimeRemainingColumn(), console=self.console, transient=True, disable=not self.live
        )
        self.task = self.bar.add_task(title, total=None)

    def __enter__(self) -> TrainScreen:
        self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()

    def show(self, step: int, logs: Mapping[str, Any], total: int | None = None) -> None:
        now = time.monotonic()
        self.began = self.began or (now, step)
        self.latest |= {name: float(value) for name, value in logs.items() if isinstance(value, (int, float))}
        self.bar.update(self.task, completed=step, total=total, description=f"{self.title}: {self.line(step, now)}")
        evaluated = any(name.startswith("eval_") for name in logs)
        if not self.live and (evaluated or now - self.told_at > LINE_EVERY_S):
            self.told_at = now
            of, left = (f" of {total}", self.left(step, total, now)) if total else ("", "")
            said = ", ".join(filter(None, (self.line(step, now), left)))
            self.console.print(f"step {step}{of}: {said}", markup=False, soft_wrap=True)

    def left(self, step: int, total: int, now: float) -> str:
        """Return the time left at the pace so far, in words; empty while it is unknown."""
        if self.began is None or not self.began[1] < step < total:
            return ""
        return f"about {in_words((now - self.began[0]) / (step - self.began[1]) * (total - step))} left"

    def line(self, step: int, now: float) -> str:
        """Return the latest figures in words."""
        parts = {name: name.removeprefix("reward/") for name in self.latest if name.startswith("reward/")}
        said = [f"{words} {self.latest[name]:.3g}" for name, words in {**SHOWN, **parts}.items() if name in self.latest]
        if self.began and step > self.began[1]:
            rate = (step - self.began[1]) * self.count_a_step / (now - self.began[0])
            said.append(f"{rate:.1f} {self.unit}/s")
        return ", ".join(said)

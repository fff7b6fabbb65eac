"""Callbacks of the trainers: mark complete checkpoints, keep the best weights, stop on collapse.

With several processes, all of them save, since each may hold a part of the weights; the first one writes the marks. A
sharded checkpoint has the parts of each process for resuming, and the whole weights in the common format.

The libraries write a checkpoint file by file, and a run killed meanwhile leaves a partial one that looks newest. A mark
is therefore written last, and only marked checkpoints are used for resuming.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from accelerate import PartialState
from transformers import TrainerCallback

from triton_agent.policy.train.prepare import held_out
from triton_agent.policy.train.update.signals import Alarms, collapse

MARK = "whole"
BEST = "best"
RECORD = "best.json"


def _number(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def whole_checkpoints(output: Path) -> list[Path]:
    """Return complete checkpoints, oldest first."""
    return sorted((mark.parent for mark in output.glob(f"checkpoint-*/{MARK}")), key=_number)


def last_whole_checkpoint(output: Path) -> Path | None:
    """Return the newest complete checkpoint and remove partial ones. Several processes may do so at once."""
    for folder in output.glob("checkpoint-*"):
        if folder.is_dir() and not (folder / MARK).exists():
            shutil.rmtree(folder, ignore_errors=True)
    return next(reversed(whole_checkpoints(output)), None)


class MarkWhole(TrainerCallback):
    """Marks each checkpoint as complete once every process has written its part.

    With `trainer`, adds the whole weights to the parts of a sharded checkpoint. `kept_back` are the problems that were
    held out from the training, which every checkpoint lists: a training may begin from it even if this one was killed.
    """

    def __init__(self, trainer: Any = None, kept_back: Mapping[str, str] | None = None) -> None:
        self.trainer, self.kept_back = trainer, kept_back or {}

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if self.trainer is not None and self.trainer.is_fsdp_enabled:
            save_weights(self.trainer, folder, self.kept_back)
        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            held_out.write([folder], self.kept_back)
            (folder / MARK).touch()


def save_weights(trainer: Any, folder: Path, kept_back: Mapping[str, str]) -> None:
    """Save whole weights in the common format, even if they are sharded, and the list of held-out problems beside them.
    Every process must call it.
    """
    plugin = trainer.accelerator.state.fsdp_plugin if trainer.is_fsdp_enabled else None
    parts = plugin.state_dict_type if plugin else None
    if plugin:
        plugin.set_state_dict_type("FULL_STATE_DICT")
    try:
        trainer.save_model(str(folder))
    finally:
        if plugin:
            plugin.set_state_dict_type(parts)
    if trainer.is_world_process_zero():
        held_out.write([folder], kept_back)


class KeepBest(TrainerCallback):
    """Saves the weights to `best` at every new maximum of a figure. The figure must be equal in all processes."""

    def __init__(self, figure: str, save: Callable[[Path], None]) -> None:
        self.figure = figure
        self.save = save
        self.best = -math.inf

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        record = Path(args.output_dir) / BEST / RECORD
        self.best = json.loads(record.read_text())["value"] if record.exists() else -math.inf
        PartialState().wait_for_everyone()  # before the first process can write a newer one

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Mapping[str, float], **rest: Any) -> None:
        value = metrics.get(self.figure, math.nan)
        if not value > self.best:
            return
        self.best = value
        folder = Path(args.output_dir) / BEST
        self.save(folder)
        if state.is_world_process_zero:
            record = {"step": state.global_step, "figure": self.figure, "value": value}
            (folder / RECORD).write_text(json.dumps(record))


class StopOnCollapse(TrainerCallback):
    """Stops the run on signs of collapse and keeps the reason."""

    def __init__(self, alarms: Alarms) -> None:
        self.alarms = alarms
        self.history: list[dict[str, float]] = []
        self.reason = ""

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **rest: Any) -> None:
        self.history.append({name: v for name, v in (logs or {}).items() if isinstance(v, (int, float))})
        self.reason = self.reason or collapse(self.history, self.alarms)
        if self.reason:
            control.should_training_stop = True


class LogDisplay(TrainerCallback):
    """Passes every logged entry to a display, with the numbers of steps so far and in all."""

    def __init__(self, show: Callable[[int, Mapping[str, Any], int | None], None]) -> None:
        self.show = show

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **rest: Any) -> None:
        if state.is_world_process_zero and logs:
            self.show(state.global_step, logs, state.max_steps or None)

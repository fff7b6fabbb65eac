"""Settings that all trainers share; each trainer adds its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SHARDING: Mapping[str, Any] = {
    "version": 2,
    "reshard_after_forward": True,
    "state_dict_type": "SHARDED_STATE_DICT",
    "cpu_ram_efficient_loading": True,
}
"""FSDP2, sharded by layer. The first process of a machine reads the model; each process writes its part of a
checkpoint.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    output: Path
    learning_rate: float
    epochs: float
    steps: int | None = None
    """Steps of the optimiser; overrides `epochs`."""
    warmup: int = 0
    """Steps over which the learning rate rises from 0. Adam's first steps move every weight by about the whole rate,
    however noisy its gradient is.
    """
    batch_size: int = 8
    """Rows per step on one device."""
    accumulation: int = 1
    bf16: bool = False
    gradient_checkpointing: bool = False
    save_every: int = 100
    keep: int
    """Number of newest checkpoints to keep; at least two."""
    report_to: tuple[str, ...] = ()
    seed: int = 0
    cpu: bool = False
    fsdp: bool = False
    """Shard weights, gradients and optimiser states over the processes."""

    def arguments(self, evaluate_every: int) -> dict[str, Any]:
        """Return the trainer library's arguments; `evaluate_every` 0 means no evaluation."""
        return {
            "output_dir": str(self.output),
            "learning_rate": self.learning_rate,
            "num_train_epochs": self.epochs,
            "max_steps": self.steps or -1,
            "warmup_steps": self.warmup,
            "per_device_train_batch_size": self.batch_size,
            "gradient_accumulation_steps": self.accumulation,
            "bf16": self.bf16,
            "gradient_checkpointing": self.gradient_checkpointing,
            "logging_steps": 1,
            "save_steps": self.save_every,
            "save_total_limit": max(2, self.keep),
            "eval_strategy": "steps" if evaluate_every else "no",
            "eval_steps": evaluate_every or None,
            "report_to": list(self.report_to),
            "seed": self.seed,
            "use_cpu": self.cpu,
            "disable_tqdm": True,
            "log_level": "error",
            "fsdp": self.fsdp,
            "fsdp_config": dict(SHARDING) if self.fsdp else None,
        }

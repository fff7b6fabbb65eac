"""One process of a sharded training on CPUs; `test_sharding.py` starts two.

Accelerate enables FSDP only for GPUs (`accelerate/state.py` asks for MULTI_GPU and the like), although torch can shard
on CPUs. The worker therefore patches that check; everything else runs as on GPUs.

    python -m tests.policy.train.sharding_worker MODEL ROWS FOLDER KIND begin|resume
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback

from triton_agent.policy.train.prepare.prepared import Prepared
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.policy.train.update.grpo import GRPOSettings
from triton_agent.policy.train.update.session import Adapter, TrainingResult, train_grpo
from triton_agent.policy.train.update.sft import SFTSettings, train_sft

STEPS = 3
ROWS_A_STEP = 4
CONVERSATIONS = [
    {
        "messages": [
            {"role": "user", "content": f"import triton {number}"},
            {"role": "assistant", "content": "triton.language as tl " * (number + 1)},
        ]
    }
    for number in range(8)
]


def train(
    kind: str, model: Path, rows: Path, output: Path, processes: int, callbacks: Sequence[Any], resume: bool = False
) -> TrainingResult:
    """Train by `sft` or `grpo`, with an adapter if the kind contains `-lora`, in bfloat16 if it contains `-bf16`. A
    step has four rows for any number of processes.
    """
    alone = processes == 1
    usual: dict[str, Any] = {"output": output, "cpu": True, "fsdp": not alone, "steps": STEPS, "save_every": 1}
    usual |= {"batch_size": 2, "accumulation": ROWS_A_STEP // 2 // processes, "learning_rate": 1e-3, "keep": STEPS}
    usual |= {"gradient_checkpointing": "lora" in kind, "bf16": "bf16" in kind}
    shared: dict[str, Any] = {"adapter": Adapter(rank=4) if "lora" in kind else None, "resume": resume}
    shared["callbacks"] = callbacks
    if kind.startswith("sft"):
        reads = PartialState(cpu=True).is_main_process and not resume
        return train_sft(str(model), CONVERSATIONS if reads else unread(), SFTSettings(**usual), **shared)
    prepared = None if resume else Prepared.load(rows)
    figures = {} if alone else {"evaluator": lambda trained: answers_of(trained), "best_by": "eval_tokens"}
    settings = GRPOSettings(**usual, evaluate_every=0 if alone else 1)
    return train_grpo(str(model), prepared, RECIPES["default"], settings, **shared, **figures)


def unread() -> Iterator[Mapping[str, Any]]:
    """Raise if these rows are read; only the first process may read and write them."""
    raise AssertionError("read by a process that should take the rows from the disk")
    yield {}


def answers_of(model: Any) -> dict[str, float]:
    """Sample answers whose length differs between the processes, as it does with different seeds."""
    import torch

    from triton_agent.policy.train.evaluate.sampling import sample

    length = 3 + 2 * PartialState().process_index
    with torch.random.fork_rng():
        found = sample(model, [[5, 6]], tokens_at_most=length, end_id=2, pad_id=0)
    return {"tokens": float(len(found[0].token_ids))}


class Shards(TrainerCallback):
    """Records the share of the parameters that this process holds; kills the process after a step if asked to."""

    def __init__(self, dies_after: int | None = None) -> None:
        self.dies_after = dies_after
        self.shares: set[float] = set()

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any) -> None:
        parameters = list(model.parameters())
        assert all(isinstance(one, DTensor) for one in parameters)
        held = sum(one.to_local().numel() for one in parameters)
        self.shares.add(held / sum(one.numel() for one in parameters))
        if state.global_step == self.dies_after:
            os.kill(os.getpid(), signal.SIGKILL)


def sharded_on_cpus() -> None:
    made = AcceleratorState.__init__

    def made_sharded(self: Any, *args: Any, fsdp_plugin: Any = None, **keywords: Any) -> None:
        made(self, *args, fsdp_plugin=fsdp_plugin, **keywords)
        if fsdp_plugin is not None and self.distributed_type == DistributedType.MULTI_CPU:
            self.fsdp_plugin = fsdp_plugin
            self.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = made_sharded


def main() -> None:
    model, rows, folder = map(Path, sys.argv[1:4])
    kind, resume = sys.argv[4], sys.argv[5] == "resume"
    sharded_on_cpus()
    processes = int(os.environ["WORLD_SIZE"])
    if not resume:
        seen = Shards()
        result = train(kind, model, rows, folder / "whole", processes, [seen])
        if os.environ["RANK"] == "0":
            losses = [entry["loss"] for entry in result.history if "loss" in entry]
            policy = AcceleratorState().fsdp_plugin.mixed_precision_policy
            reduced_in = str(policy.reduce_dtype) if policy else "that of the weights"
            told = {"shares": sorted(seen.shares), "losses": losses, "gradients": reduced_in}
            (folder / "seen.json").write_text(json.dumps(told))
    train(kind, model, rows, folder / "killed", processes, [Shards(None if resume else 2)], resume)
    PartialState().destroy_process_group()
    sys.stderr.flush()
    os._exit(0)  # Python's end may abort a process over a thread of the group


if __name__ == "__main__":
    main()

"""Sharded training over two processes has the losses of one process and resumes exactly after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.policy.train.logged import log_runs
from tests.policy.train.marks import NEEDS_TRAINING

from triton_agent.policy.train.prepare.prepared import prepare
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.policy.train.record.trajectories import collect
from triton_agent.tools.errors import UsageError

pytestmark = NEEDS_TRAINING

ROOT = Path(__file__).parents[3]
PROCESSES = 2
LIMIT_S = 300.0


def started(port: int, *arguments: str | Path) -> list[int]:
    """Run the processes of a training; return their exit codes. A process that waits for ever fails by its time
    limit.
    """
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(PROCESSES)}
    shared |= {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    command = [sys.executable, "-m", "tests.policy.train.sharding_worker", *map(str, arguments)]
    workers = [
        subprocess.Popen(command, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}, cwd=ROOT)
        for rank in range(PROCESSES)
    ]
    try:
        return [worker.wait(timeout=LIMIT_S) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("sft", marks=pytest.mark.ci),
        "sft-bf16",
        "sft-lora",
        "grpo",
        pytest.param("grpo-lora", marks=pytest.mark.ci),
    ],
)
def test_sharded_training_equals_one_process_and_resumes_bit_by_bit_after_a_kill(
    kind: str, tiny: Path, tmp_path: Path, free_port: int
) -> None:
    from safetensors.torch import load_file
    from tests.policy.train.sharding_worker import train

    from triton_agent.policy.train.update.session import load, load_frozen

    recipe = RECIPES["default"]
    rows = tmp_path / "rows.jsonl"
    prepare(collect(log_runs(load(str(tiny))[0].eval()), recipe).samples, recipe).save(rows)
    assert started(free_port, tiny, rows, tmp_path, kind, "begin") == [-signal.SIGKILL] * PROCESSES
    assert started(free_port, tiny, rows, tmp_path, kind, "resume") == [0] * PROCESSES
    alone = train(kind, tiny, rows, tmp_path / "alone", 1, [])

    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["shares"] == [pytest.approx(1 / PROCESSES, rel=0.05)]
    assert seen["losses"] == pytest.approx([entry["loss"] for entry in alone.history if "loss" in entry], rel=1e-3)
    name = "adapter_model.safetensors" if "lora" in kind else "model.safetensors"
    for folder in ("final", "checkpoint-3"):
        weights = (tmp_path / "whole" / folder / name).read_bytes()
        assert (tmp_path / "killed" / folder / name).read_bytes() == weights, folder
    saved, expected = (load_file(tmp_path / run / "final" / name) for run in ("whole", "alone"))
    assert expected and expected.keys() <= saved.keys()  # sharded, a tied head is written as well
    if kind.endswith("bf16"):  # gradients that are rounded differently move some weights the other way
        assert seen["gradients"] == "torch.float32"
    else:
        assert all(torch.allclose(saved[at], expected[at], atol=1e-4) for at in expected)
    shapes = [
        {at: one.shape for at, one in load_frozen(str(tmp_path / folder), cpu=True).named_parameters()}
        for folder in ("alone/checkpoint-2", "killed/checkpoint-2", "killed/best" if "grpo" in kind else "killed/final")
    ]
    assert shapes[0] == shapes[1] == shapes[2]


def test_sharding_in_one_process_and_sharded_checkpoints_without_it_are_refused(tmp_path: Path) -> None:
    from triton_agent.policy.train.update.session import require_shardable
    from triton_agent.policy.train.update.sft import SFTSettings

    settings = SFTSettings(output=tmp_path, cpu=True)
    with pytest.raises(UsageError, match="there is one"):
        require_shardable(SFTSettings(output=tmp_path, cpu=True, fsdp=True), None)
    require_shardable(settings, tmp_path)
    (tmp_path / "pytorch_model_fsdp_0").mkdir()
    with pytest.raises(UsageError, match="sharded"):
        require_shardable(settings, tmp_path)

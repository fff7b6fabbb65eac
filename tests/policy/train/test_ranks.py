"""Training in several processes saves, keeps the best weights and resumes, and no process waits for ever."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.policy.train.logged import log_runs
from tests.policy.train.marks import NEEDS_TRAINING

from triton_agent.policy.train.prepare.prepared import prepare
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.policy.train.record.trajectories import collect

pytestmark = NEEDS_TRAINING

RANKS = 2
LIMIT_S = 600.0
WORKER = """
import json, os, sys
from pathlib import Path
from torch import distributed
from triton_agent.policy.train.update.grpo import GRPOSettings, LoggedTrainer
from triton_agent.policy.train.prepare.prepared import Prepared
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.policy.train.update.session import train_grpo
model, rows, output, resume, steps, recipe, chosen = sys.argv[1:8]
rank = int(os.environ["RANK"])
save = LoggedTrainer.save_model
def save_together(*args, **keywords):
    distributed.barrier()
    save(*args, **keywords)
LoggedTrainer.save_model = save_together
settings = GRPOSettings(
    output=Path(output), cpu=True, steps=int(steps), learning_rate=1e-3, save_every=1, evaluate_every=1,
    **json.loads(chosen)
)
result = train_grpo(model, None if resume == "yes" else Prepared.load(Path(rows)), RECIPES[recipe], settings,
    resume=resume == "yes", evaluator=lambda trained: {"reward": float(rank == 0)}, best_by="eval_reward")
if rank == 0:
    (Path(output) / "history.json").write_text(json.dumps(result.history))
distributed.destroy_process_group()
os._exit(0)  # Python's end may abort a process over a thread of the group
"""


def train(arguments: Sequence[str], port: int) -> None:
    """Train in several processes; a process that waits for ever fails by its time limit."""
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS)}
    shared |= {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, *arguments], env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(RANKS)
    ]
    try:
        assert [worker.wait(timeout=LIMIT_S) for worker in workers] == [0] * RANKS
    finally:
        for worker in workers:
            worker.kill()


@pytest.mark.ci
@pytest.mark.slow
def test_several_processes_train_as_one_does_save_keep_the_best_and_resume(
    tiny: Path, tmp_path: Path, free_port: int
) -> None:
    """The processes do not shard weights here. A barrier in every save stands for the waiting that sharded weights
    need. Two steps are an epoch, so the training is resumed in the second one.
    """
    from safetensors.torch import load_file

    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import load, train_grpo

    recipe = RECIPES["default"]
    rows, output = tmp_path / "rows.jsonl", tmp_path / "out"
    prepared = prepare(collect(log_runs(load(str(tiny))[0].eval()), recipe).samples, recipe)
    prepared = dataclasses.replace(prepared, rows=prepared.rows[:6])
    prepared.save(rows)
    train([str(tiny), str(rows), str(output), "no", "2", "default", '{"batch_size": 2}'], free_port)
    (output / "checkpoint-99").mkdir()
    train([str(tiny), str(rows), str(output), "yes", "3", "default", '{"batch_size": 2}'], free_port)
    assert not (output / "checkpoint-99").exists()
    assert (output / "checkpoint-3" / "whole").exists()
    best = json.loads((output / "best" / "best.json").read_text())
    assert best == {"step": 1, "figure": "eval_reward", "value": 1.0}, "resumed, it still knows the best"
    settings = GRPOSettings(output=tmp_path / "alone", cpu=True, batch_size=2 * RANKS, steps=3, learning_rate=1e-3)
    alone = [entry for entry in train_grpo(str(tiny), prepared, recipe, settings).history if "loss" in entry]
    together = [entry for entry in json.loads((output / "history.json").read_text()) if "loss" in entry]
    for name in ("loss", "grad_norm", "reward", "reward/correct"):
        assert [entry[name] for entry in together] == pytest.approx([entry[name] for entry in alone], abs=1e-5), name
    begun, trained = (load_file(folder / "model.safetensors") for folder in (tiny, output / "final"))
    assert {name: one.shape for name, one in trained.items()} == {name: one.shape for name, one in begun.items()}
    assert (output / "best" / "model.safetensors").exists()


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "each", "alone"),
    [
        ("default", {"batch_tokens": 13}, {"batch_tokens": 13, "accumulation": RANKS}),  # with unequal numbers of rows
        ("drpo", {"batch_size": 2}, {"batch_size": 2 * RANKS}),
    ],
)
def test_several_processes_take_the_steps_of_one(
    name: str, each: dict[str, int], alone: dict[str, int], tiny: Path, tmp_path: Path, free_port: int
) -> None:
    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import load, train_grpo

    rows, output = tmp_path / "rows.jsonl", tmp_path / "out"
    samples = collect(log_runs(load(str(tiny))[0].eval()), RECIPES[name]).samples
    prepared = prepare(samples, RECIPES[name])
    prepared.save(rows)
    train([str(tiny), str(rows), str(output), "no", "3", name, json.dumps(each)], free_port)
    settings = GRPOSettings(output=tmp_path / "alone", cpu=True, steps=3, learning_rate=1e-3, **alone)
    expected = [one for one in train_grpo(str(tiny), prepared, RECIPES[name], settings).history if "loss" in one]
    found = [one for one in json.loads((output / "history.json").read_text()) if "loss" in one]
    figures = ("loss", "grad_norm", *(("importance/divergence",) if name == "drpo" else ()))
    for figure in figures:
        assert [one[figure] for one in found] == pytest.approx([one[figure] for one in expected], rel=1e-3, abs=1e-5)

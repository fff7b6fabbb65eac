"""A held-out problem is never trained on, neither at another size nor in a later training of the same weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from tests.memory import samples
from tests.policy.train.marks import needs_training

from triton_agent.policy.train.prepare import held_out
from triton_agent.tools.errors import UsageError


def test_a_problem_is_the_same_at_every_size() -> None:
    small, large = samples.problem("a", shape=(2, 3)), samples.problem("b", shape=(512, 3))
    assert held_out.identity(small) == held_out.identity(large) != held_out.identity(samples.problem("c", "aten.add"))
    verifier = dataclasses.replace(small, fingerprint="")
    assert held_out.identity(verifier) == small.digest


def test_what_is_held_out_is_refused_by_name() -> None:
    held = {f"f{i}": f"problem {i}" for i in range(9)}
    held_out.refuse(["g"], held)
    with pytest.raises(UsageError, match="problem 0, problem 1") as caught:
        held_out.refuse(["g", "f1", "f0"], held)
    assert "--runs" in caught.value.remedy
    with pytest.raises(UsageError, match="and 4 more"):
        held_out.refuse(held, held)


def test_the_list_stands_beside_the_weights(tmp_path: Path) -> None:
    held_out.write([tmp_path / "final"], {"f": "softmax"})
    assert held_out.read(str(tmp_path / "final")) == {"f": "softmax"}
    assert held_out.read("a model of the hub") == {}
    held_out.write([tmp_path / "none"], {})
    assert not (tmp_path / "none").exists()


def row(problem: int, number: int = 0) -> dict[str, Any]:
    said = [
        {"role": "user", "content": f"problem {problem} {number}"},
        {"role": "assistant", "content": f"answer {number}"},
    ]
    return {"messages": said, "fingerprint": f"f{problem}"}


@needs_training
def test_whole_problems_are_held_out_from_fine_tuning() -> None:
    from triton_agent.policy.train.update.sft import problem_of, split

    rows = [row(problem, number) for problem in range(6) for number in range(5)]
    learnt, aside = split(rows, 0.4, seed=3)
    assert len(aside) == 10 and len(learnt) == 20
    assert {problem_of(one) for one in learnt}.isdisjoint(problem_of(one) for one in aside)
    assert split(rows[::-1], 0.4, seed=3) == (learnt, aside), "whatever order they came in"
    assert split(rows, 0.0, seed=3)[1] == []
    bare = {"messages": row(1)["messages"]}
    assert problem_of(bare) == problem_of({**bare}) != problem_of({"messages": row(2)["messages"]})


@needs_training
def test_a_later_training_refuses_what_an_earlier_one_held_out(tmp_path: Path) -> None:
    from triton_agent.policy.train.update.fresh import make_policy
    from triton_agent.policy.train.update.sft import SFTSettings, train_sft

    policy = tmp_path / "tiny"
    make_policy("tiny", ["import triton\n" * 20], policy)
    rows = [row(problem) for problem in range(4)]
    settings = SFTSettings(output=tmp_path / "sft", cpu=True, steps=1, batch_size=2, held_out=0.5)
    outcome = train_sft(str(policy), rows, settings)
    held = held_out.read(str(outcome.weights))
    assert len(held) == 2 and set(held) < {f"f{i}" for i in range(4)}
    again = dataclasses.replace(settings, output=tmp_path / "again")
    with pytest.raises(UsageError, match="held out for evaluation"):
        train_sft(str(outcome.weights), rows, again)
    kept = [one for one in rows if one["fingerprint"] not in held]
    assert set(held_out.read(str(train_sft(str(outcome.weights), kept, again).weights))) >= set(held)


@needs_training
def test_the_checkpoints_of_a_killed_training_know_what_was_held_out(tmp_path: Path) -> None:
    from transformers import TrainerCallback

    from triton_agent.policy.train.update.fresh import make_policy
    from triton_agent.policy.train.update.sft import SFTSettings, train_sft

    class Killed(TrainerCallback):  # type: ignore[misc]  # the library is not read for types
        def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            if state.global_step == 1:
                raise KeyboardInterrupt

    policy = tmp_path / "tiny"
    make_policy("tiny", ["import triton\n" * 20], policy)
    rows = [row(problem) for problem in range(4)]
    settings = SFTSettings(output=tmp_path / "sft", cpu=True, steps=2, save_every=1, batch_size=2, held_out=0.5)
    with pytest.raises(KeyboardInterrupt):
        train_sft(str(policy), rows, settings, callbacks=[Killed()])
    checkpoint = tmp_path / "sft" / "checkpoint-1"
    assert len(held_out.read(str(checkpoint))) == 2
    with pytest.raises(UsageError, match="held out for evaluation"):
        train_sft(str(checkpoint), rows, SFTSettings(output=tmp_path / "again", cpu=True, steps=1, batch_size=2))


@needs_training
def test_conversations_that_are_all_too_long_are_told(tmp_path: Path) -> None:
    from triton_agent.policy.train.update.fresh import make_policy
    from triton_agent.policy.train.update.sft import SFTSettings, train_sft

    policy = tmp_path / "tiny"
    make_policy("tiny", ["import triton\n" * 20], policy)
    settings = SFTSettings(output=tmp_path / "sft", cpu=True, steps=1, tokens_at_most=2)
    with pytest.raises(UsageError, match="no conversation fits in 2 tokens"):
        train_sft(str(policy), [row(0), row(1)], settings)


@needs_training
def test_fine_tuning_keeps_the_weights_with_the_lowest_held_out_loss(tmp_path: Path) -> None:
    """The learning rate is so high that every step after the first makes the loss worse."""
    import torch
    from safetensors.torch import load_file

    from triton_agent.policy.train.update.fresh import make_policy
    from triton_agent.policy.train.update.sft import SFTSettings, train_sft

    policy = tmp_path / "tiny"
    make_policy("tiny", ["import triton\n" * 20], policy)
    settings = SFTSettings(
        output=tmp_path / "sft", cpu=True, steps=4, batch_size=2, held_out=0.5, save_every=1, learning_rate=0.5
    )
    outcome = train_sft(str(policy), [row(problem) for problem in range(4)], settings)
    losses = {entry["step"]: entry["eval_loss"] for entry in outcome.history if "eval_loss" in entry}
    best = min(losses, key=lambda step: losses[step])
    assert len(losses) == 4 and best != 4
    kept = load_file(outcome.weights / "model.safetensors")
    wanted = load_file(tmp_path / "sft" / f"checkpoint-{best}" / "model.safetensors")
    assert all(torch.equal(kept[name], wanted[name]) for name in wanted)

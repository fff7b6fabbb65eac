"""Supervised fine-tuning: rows written for all processes, packed conversations, and losses on prompts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.train.marks import NEEDS_TRAINING

pytestmark = NEEDS_TRAINING
ROWS = [
    {"messages": [{"role": "user", "content": f"import {n}"}, {"role": "assistant", "content": "triton " * (n + 1)}]}
    for n in range(4)
]


def test_packed_conversations_do_not_see_each_other(tiny: Path, tmp_path: Path) -> None:
    """The loss therefore equals that of unpacked rows."""
    from triton_agent.policy.train.update.sft import SFTSettings, train_sft

    losses = []
    for packing, batch in ((False, len(ROWS)), (True, 1)):
        settings = SFTSettings(
            output=tmp_path / str(packing), cpu=True, steps=1, batch_size=batch, packing=packing, tokens_at_most=512
        )
        losses.append(train_sft(str(tiny), ROWS, settings).history[0]["loss"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_prompts_count_where_they_are_to_be_learnt(tiny: Path, tmp_path: Path) -> None:
    """The held-out loss counts answers only, in both cases."""
    from triton_agent.policy.train.update.sft import SFTSettings, train_sft

    held_out, tokens = [], []
    for learn in (False, True):
        settings = SFTSettings(
            output=tmp_path / str(learn), cpu=True, steps=1, save_every=1, held_out=0.5, learn_prompts=learn, seed=3
        )
        first, *_ = (history := train_sft(str(tiny), ROWS, settings).history)
        tokens.append(first["loss"])
        held_out.append(next(entry["eval_loss"] for entry in history if "eval_loss" in entry))
    assert tokens[0] != pytest.approx(tokens[1], rel=1e-3)
    assert held_out[0] == pytest.approx(held_out[1], rel=0.02)


def test_a_resumed_training_has_the_rows_of_its_beginning(tiny: Path, tmp_path: Path) -> None:
    from triton_agent.policy.train.update.sft import SFTSettings, train_sft

    def settings(folder: str, steps: int) -> SFTSettings:
        return SFTSettings(output=tmp_path / folder, cpu=True, steps=steps, batch_size=2, save_every=1)

    train_sft(str(tiny), ROWS, settings("resumed", 1))
    train_sft(str(tiny), iter(()), settings("resumed", 2), resume=True)
    assert (tmp_path / "resumed" / "checkpoint-2" / "whole").exists()

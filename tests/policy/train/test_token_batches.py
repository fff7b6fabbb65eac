"""Batches of a number of tokens: each has exactly that many with a loss, and together they are the readable loss."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.policy.train.logged import log_runs
from tests.policy.train.marks import needs_training

from triton_agent.policy.train.prepare.credit import Advantage
from triton_agent.policy.train.prepare.prepared import TrainingRow, prepare
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.policy.train.prepare.token_batches import batches_of
from triton_agent.policy.train.record.spool import Numbers, packed_floats, packed_tokens
from triton_agent.policy.train.record.trajectories import collect
from triton_agent.tools.errors import UsageError

RECIPE = dataclasses.replace(RECIPES["default"], plan_parts=None, code_parts=None)
LENGTHS = (1, 9, 4, 6)


def row(key: str, roles: bytes) -> TrainingRow:
    numbers = Numbers(
        prompt_ids=packed_tokens([1]),
        token_ids=packed_tokens(range(len(roles))),
        log_probabilities=packed_floats([-1.0] * len(roles)),
    )
    advantage = Advantage(plan=1.0, code=2.0)
    return TrainingRow(
        key=key, numbers=numbers, roles=roles, advantage=advantage, reward=0.0, parts={}, hack=False, passed=False
    )


def trained(batches: Sequence[Sequence[TrainingRow]]) -> list[tuple[str, int]]:
    """Return the tokens with a loss, in order, by row and place."""
    return [(one.key, place) for batch in batches for one in batch for place, own in enumerate(one.chosen) if own]


@pytest.mark.parametrize("seed", range(30))
def test_a_batch_has_exactly_its_tokens_and_an_epoch_has_every_token(seed: int) -> None:
    draw = random.Random(seed)
    rows = [row(str(i), bytes([1, *draw.choices((0, 1, 2), k=draw.randint(0, 12))])) for i in range(draw.randint(1, 8))]
    everything = trained([rows])
    tokens = draw.randint(1, len(everything) + 5)
    batches = batches_of(rows, tokens)
    assert {sum(sum(one.chosen) for one in batch) for batch in batches} == {min(tokens, len(everything))}
    found = trained(batches)
    assert found[: len(everything)] == everything, "every token once, in the order of the rows"
    assert set(Counter(found[len(everything) :]).values()) <= {1} and len(found) - len(everything) < tokens


@pytest.fixture(scope="session")
def rows(tiny: Path) -> Sequence[TrainingRow]:
    """Return rows of which 1, 9, 4 and 6 tokens have a loss."""
    from triton_agent.policy.train.update.session import load

    model, _ = load(str(tiny))
    found = prepare(collect(log_runs(model.eval()), RECIPE).samples, RECIPE).rows
    long = [one for one in found if sum(one.chosen) >= max(LENGTHS)]
    kept = [(one, [own and n < length for n, own in enumerate(one.chosen)]) for one, length in zip(long, LENGTHS)]
    return [dataclasses.replace(one, roles=bytes(r if k else 0 for r, k in zip(one.roles, own))) for one, own in kept]


def trainer(tiny: Path, rows: Sequence[TrainingRow], output: Path, **settings: Any) -> Any:
    from triton_agent.policy.train.update.grpo import GRPOSettings, LoggedTrainer
    from triton_agent.policy.train.update.session import load

    model, tokenizer = load(str(tiny))
    chosen = GRPOSettings(output=output, cpu=True, **settings)
    return LoggedTrainer(rows, settings=chosen, recipe=RECIPE, model=model, tokenizer=tokenizer)


@needs_training
def test_the_loss_of_all_batches_is_the_readable_loss(tiny: Path, rows: Sequence[TrainingRow], tmp_path: Path) -> None:
    import torch

    from triton_agent.policy.train.grpo_minimal import clipped_loss

    full = trainer(tiny, rows, tmp_path, batch_tokens=5)
    with torch.no_grad():
        for parameter in full.model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    full.current_gradient_accumulation_steps = 1
    assert len(full.parts) == sum(LENGTHS) / 5
    losses = []
    for place in range(len(full.parts)):
        batch = full._generate_and_score_completions([{"part": place}])
        assert batch["tool_mask"].sum() == batch["num_items_in_batch"] == 5
        losses.append(float(full._compute_loss(full.model, batch).detach()))
    full.parts = [rows]
    batch = full._generate_and_score_completions([{"part": 0}])
    now, before, chosen = full.log_probabilities(batch), batch["old_per_token_logps"], batch["tool_mask"].float()
    limits = {"clip_low": RECIPE.clip_low, "clip_high": RECIPE.clip_high}
    expected = float(clipped_loss(now, before, batch["advantages"], chosen, **limits))
    assert sum(losses) / len(losses) == pytest.approx(expected, abs=1e-6)
    assert abs(expected) > 1e-3 and max(losses) > min(losses)


@needs_training
@pytest.mark.parametrize(("tokens", "slices"), [(20, 1), (10, 2), (5, 4)])
def test_a_step_is_the_same_however_its_tokens_are_divided_among_slices(
    tiny: Path, rows: Sequence[TrainingRow], tmp_path: Path, tokens: int, slices: int
) -> None:
    """Every step has all 20 tokens, so the weights after three steps are those of steps with all rows."""

    def weights(folder: str, **settings: Any) -> list[Any]:
        full = trainer(tiny, rows, tmp_path / folder, steps=3, learning_rate=1e-3, **settings)
        full.train()
        return [parameter.detach().clone() for parameter in full.model.parameters()]

    before = list(trainer(tiny, rows, tmp_path / "before").model.parameters())
    whole = weights("rows", batch_size=len(rows))
    found = weights("tokens", batch_tokens=tokens, accumulation=slices)
    apart, moved = (
        sum(float(((a - b) ** 2).sum().detach()) for a, b in zip(whole, other)) for other in (found, before)
    )
    assert moved > 0.1
    assert apart < 1e-4 * moved


@needs_training
@pytest.mark.parametrize("settings", [{"batch_size": 1}, {"batch_tokens": 1}])
def test_a_step_may_consist_of_one_row_or_one_token(
    tiny: Path, rows: Sequence[TrainingRow], tmp_path: Path, settings: dict[str, int]
) -> None:
    full = trainer(tiny, rows, tmp_path, **settings)
    full.train()
    assert full.state.global_step == (len(rows) if "batch_size" in settings else sum(LENGTHS))


@needs_training
def test_a_mean_over_answers_has_no_batches_of_tokens(tmp_path: Path) -> None:
    from triton_agent.policy.train.update.grpo import GRPOSettings

    with pytest.raises(UsageError, match="mean by sequence"):
        GRPOSettings(output=tmp_path, cpu=True, batch_tokens=8).config(RECIPES["autotriton"], 8)

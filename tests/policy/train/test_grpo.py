"""The GRPO trainer agrees with the minimal implementation on logged samples, and resumes exactly after a kill."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.policy.train.logged import even_tokens_pass, grading, log_runs
from tests.policy.train.marks import NEEDS_TRAINING
from tests.policy.train.parity import RECIPE, assert_parity, importance_ratios, jolt, trainer, whole_batch

from triton_agent.memory.observation import ProblemView
from triton_agent.memory.records import Message
from triton_agent.policy.train.prepare.credit import Advantage, TokenRole, Turn, assign
from triton_agent.policy.train.prepare.prepared import Prepared, TrainingLimits, TrainingRow, prepare
from triton_agent.policy.train.record.rewards import Reward
from triton_agent.policy.train.record.spool import Numbers, packed_floats, packed_tokens
from triton_agent.policy.train.record.trajectories import TrainingSample, collect
from triton_agent.tools.errors import UsageError

pytestmark = NEEDS_TRAINING


@pytest.fixture(scope="session")
def samples(tiny: Path) -> Sequence[TrainingSample]:
    from triton_agent.policy.train.update.session import load

    model, _ = load(str(tiny))
    return collect(log_runs(model.eval()), RECIPE).samples


@pytest.mark.parametrize("seed", range(10))
def test_the_readable_advantages_are_those_of_the_recipe(seed: int) -> None:
    from triton_agent.policy.train.grpo_minimal import LoggedTurn, advantages

    draw = random.Random(seed)
    turns, readable = [], []
    for group in "ab":
        for run in range(draw.randint(1, 4)):
            for number in range(draw.randint(1, 3)):
                name, paid = f"{group}{run}", draw.random()
                parent = f"{name}/{number - 1}.0" if number else None
                turns.append(
                    Turn(
                        key=f"{name}/{number}.0",
                        group=group,
                        number=number,
                        parent=parent,
                        reward=Reward.of("r", {"correct": paid}),
                    )
                )
                readable.append(
                    LoggedTurn(
                        group=group,
                        trajectory=name,
                        number=number,
                        prompt_ids=[1],
                        token_ids=[1],
                        log_probabilities=[0.0],
                        chosen=[True],
                        reward=paid,
                    )
                )
    expected = assign(turns, RECIPE).advantages
    for turn, found in zip(turns, advantages(readable, RECIPE.gamma)):
        assert found == pytest.approx(expected[turn.key].code if turn.key in expected else 0.0, abs=1e-12)


@pytest.mark.parametrize("proximal", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.8])
def test_the_trainers_loss_is_the_readable_loss(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path, temperature: float, proximal: bool
) -> None:
    """Rows at temperature 0.8 are of a run by a real engine, over two turns."""
    if temperature == 0.8:
        samples = collect(asked_at(tiny, temperature, turns=2), RECIPE).samples
    assert prepare(samples, RECIPE).temperature == temperature
    assert_parity(tiny, samples, tmp_path, proximal=proximal)


@pytest.mark.parametrize("right", [7, 9])
def test_a_right_token_becomes_likelier_up_to_the_clip_and_a_wrong_one_less_likely(
    tiny: Path, tmp_path: Path, right: int
) -> None:
    """Half of the logged answers are one token, the other half another token."""
    from triton_agent.policy.train.update.session import load

    before = next_token_log_probabilities(load(str(tiny))[0])
    rows = [one_token_row(token, token == right, before[token]) for token in (7, 9) * 4]
    full = trainer(tiny, rows, tmp_path, learning_rate=1e-5, steps=80)
    full.train()
    after = next_token_log_probabilities(full.model)
    rise, fall = (math.exp(after[token] - before[token]) for token in (right, 16 - right))
    assert 1.28 <= rise < 1.5, "pulled to the edge of the band, and no further than momentum carries it"
    assert 0.6 < fall <= 0.8


PROMPT = (4, 5, 6)


def next_token_log_probabilities(model: Any) -> list[float]:
    import torch

    with torch.no_grad():
        found: list[float] = model.eval()(torch.tensor([PROMPT])).logits[0, -1].float().log_softmax(-1).tolist()
    return found


def one_token_row(token: int, passed: bool, log_probability: float) -> TrainingRow:
    return TrainingRow(
        key="",
        numbers=Numbers(
            prompt_ids=packed_tokens(PROMPT),
            token_ids=packed_tokens([token]),
            log_probabilities=packed_floats([log_probability]),
        ),
        roles=bytes([TokenRole.CODE]),
        advantage=Advantage(plan=0.0, code=0.5 if passed else -0.5),
        reward=float(passed),
        parts={},
        hack=False,
        passed=passed,
    )


def test_the_ratios_leave_the_band_so_that_clipping_is_tested(samples: Sequence[TrainingSample], tiny: Path) -> None:
    from triton_agent.policy.train.update.session import load, rescorer

    model, _ = load(str(tiny))
    jolt(model)
    moved = rescorer(model)(samples, 1.0)
    changes = [
        new - old for s, row in zip(samples, moved) for new, old in zip(row, s.numbers.load().log_probabilities or ())
    ]
    assert max(changes) > 0.28 and min(changes) < -0.2


def test_stored_log_probabilities_are_what_the_trainer_computes(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path
) -> None:
    rows = prepare(samples, RECIPE).rows
    full = trainer(tiny, rows, tmp_path)
    batch = whole_batch(full)
    difference = (full.log_probabilities(batch) - batch["old_per_token_logps"]).abs()
    assert float((difference * batch["tool_mask"]).max()) < 1e-4


def asked_at(tiny: Path, temperature: float, seed: int = 0, turns: int = 1) -> list[Any]:
    """Return attempts of a real engine and author at a real prompt, with verdicts that depend on random tokens."""
    from tests.policy.llm.asking import Page, seen

    from triton_agent.policy.episode import make_attempt
    from triton_agent.policy.llm.author import LanguageAuthor
    from triton_agent.policy.llm.engine import Sampling
    from triton_agent.policy.llm.engines.transformers_engine import TransformersEngine

    sampling = Sampling(temperature=temperature, max_tokens=24)

    def page(observation: Any, **_: Any) -> Any:
        asked = f"write a kernel, the {observation.turn + 1}. time"
        return Page(messages=(Message(role="user", content=asked),), version="test/1", tokens=4)

    async def answered() -> list[Any]:
        author, found = LanguageAuthor(TransformersEngine(tiny, device="cpu"), sampling, render=page), []
        for turn in range(turns):
            observation = dataclasses.replace(seen(seed=seed), problem=ProblemView(**VIEW), turn=turn)
            for run, answer in enumerate(await author.propose(observation, 12)):
                parent = f"r{run}/{turn - 1}.0" if turn else None
                found.append(make_attempt(f"r{run}", observation, answer, index=0, parent=parent))
        await author.close()
        return found

    return [(made, (judged(made),)) for made in asyncio.run(answered())]


VIEW: dict[str, Any] = {"digest": "p", "name": "p", "spec": {}, "source": "class Model: ...", "fingerprint": "f"}


def judged(made: Any) -> Any:
    return grading(made.key, even_tokens_pass(made.completion.token_ids))


def test_ratios_before_the_first_step_are_1_at_the_temperature_of_the_draws(tiny: Path, tmp_path: Path) -> None:
    prepared = prepare(collect(asked_at(tiny, 0.8), RECIPE).samples, RECIPE)
    assert prepared.temperature == 0.8 and len(prepared.rows) >= 4
    full = trainer(tiny, prepared.rows, tmp_path, temperature=prepared.temperature)
    assert float(((importance_ratios(full) - 1).abs() < 1e-3).float().mean()) >= 0.99
    other = prepare(collect(asked_at(tiny, 0.8), RECIPE).samples, RECIPE, TrainingLimits(temperature=1.0))
    assert other.rows == () and any("sampled at temperature 0.8" in why for why in other.left_out)


def test_a_resumed_training_keeps_the_temperature_of_its_rows(tiny: Path, tmp_path: Path) -> None:
    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import train_grpo

    prepared = prepare(collect(asked_at(tiny, 0.8), RECIPE).samples, RECIPE)
    settings = GRPOSettings(output=tmp_path / "out", cpu=True, batch_size=4, steps=1)
    first = train_grpo(str(tiny), prepared, RECIPE, settings)
    assert first.history[0]["clip_ratio/region_mean"] == 0.0, "at another temperature some tokens begin clipped"
    assert Prepared.load(tmp_path / "out" / "rows.jsonl").temperature == 0.8


def test_tokens_of_another_vocabulary_are_refused(tiny: Path) -> None:
    from triton_agent.policy.llm.engines.vllm_worker import vocabulary_digest
    from triton_agent.policy.train.update.session import load_tokenizer

    samples = collect(asked_at(tiny, 1.0), RECIPE).samples
    own = vocabulary_digest(load_tokenizer(str(tiny)))
    assert prepare(samples, RECIPE, TrainingLimits(tokenizer=own)).rows
    other = prepare(samples, RECIPE, TrainingLimits(tokenizer="of another model"))
    assert other.rows == () and other.left_out["its tokens are of another vocabulary"] > 0


def test_draws_that_are_left_out_anyway_do_not_decide_the_temperature(samples: Sequence[TrainingSample]) -> None:
    foreign = [
        dataclasses.replace(
            sample,
            turn=dataclasses.replace(sample.turn, key=f"other {sample.turn.key}"),
            tokenizer="of another model",
            sampling=dataclasses.replace(sample.sampling, temperature=0.7),
        )
        for sample in samples
    ]
    prepared = prepare([*samples, *foreign], RECIPE, TrainingLimits(tokenizer="own"))
    assert prepared.temperature == 1.0 and prepared.rows


@pytest.mark.parametrize("seed", range(20))
def test_answers_are_kept_by_the_geometric_mean_of_their_ratios(seed: int) -> None:
    import torch

    from triton_agent.policy.train.update.grpo import kept_by_ratio

    draw, band = random.Random(seed), (0.999, 1.001)
    sampled = [-draw.expovariate(1) for _ in range(8)]
    trained = [value + draw.gauss(0, 0.003) for value in sampled]
    chosen = [1.0] * 6 + [0.0] * 2
    ratios = [math.exp(new) / math.exp(old) for new, old, own in zip(trained, sampled, chosen) if own]
    kept = kept_by_ratio(*(torch.tensor([row], dtype=torch.float64) for row in (trained, sampled, chosen)), band)
    assert bool(kept) == (band[0] <= statistics.geometric_mean(ratios) <= band[1])


def test_one_impossible_token_vetoes_an_answer_that_is_fine_on_average() -> None:
    import torch

    from triton_agent.policy.train.update.grpo import kept_by_ratio

    lost = math.log(0.9e-4)
    now, chosen = torch.tensor([[lost, -lost], [lost, 0.0]]), torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    kept = kept_by_ratio(now, torch.zeros(2, 2), chosen, (0.999, 1.001))
    assert kept.tolist() == [[False], [True]], "feedback has no say"


def test_rejection_by_ratio_is_asked_at_each_update_of_the_policy_as_it_is(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path
) -> None:
    banded = dataclasses.replace(RECIPE, geometric_band=(0.999, 1.001))
    rows = prepare(samples, banded).rows
    full = trainer(tiny, rows, tmp_path, banded)
    places = [{"part": place} for place in range(len(rows))]
    assert full._generate_and_score_completions(places)["advantages"].any(1).all(), "fresh data is kept"
    jolt(full.model, size=1e-3)
    batch = full._generate_and_score_completions(places)
    kept = batch["advantages"].any(1)
    assert 0.0 < float(kept.float().mean()) < 0.5, "what a moved policy finds strange is dropped"
    tokens = (batch["completion_mask"] * batch["tool_mask"]).sum(1)
    assert int(batch["num_items_in_batch"]) == int(tokens[kept].sum()), "and dilutes no mean"


def test_a_divergence_from_the_first_model_entropy_and_a_dual_clip_are_part_of_the_loss(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path
) -> None:
    import torch

    from triton_agent.policy.train.grpo_minimal import clipped_loss
    from triton_agent.policy.train.update.scoring import scores_of

    def whole(batch: Any) -> tuple[Any, Any]:
        parts = (("prompt_ids", "completion_ids"), ("prompt_mask", "completion_mask"))
        return tuple(torch.cat([batch[name] for name in names], 1) for names in parts)  # type: ignore[return-value]

    rows = prepare(samples, RECIPE).rows
    found, now = {}, {}
    for name, options in (
        ("plain", {}),
        ("kl", {"kl": 0.5}),
        ("entropy", {"entropy": 0.3}),
        ("dual", {"dual_clip": 1.3}),
    ):
        full = trainer(tiny, rows, tmp_path / name, **options)
        jolt(full.model)
        full.current_gradient_accumulation_steps = 1
        batch = whole_batch(full)
        now[name] = (full.log_probabilities(batch), batch)
        found[name] = float(full._compute_loss(full.model, batch).detach())
    likely, batch = now["kl"]
    chosen = (batch["completion_mask"] * batch["tool_mask"]).float()
    apart = batch["ref_per_token_logps"] - likely
    # the importance ratio makes this an estimate of the KL divergence of the current policy
    ratio = (likely - batch["old_per_token_logps"]).exp()
    divergence = float((ratio * (apart.exp() - apart - 1) * chosen).sum() / chosen.sum())
    assert divergence > 1e-4
    assert found["kl"] - found["plain"] == pytest.approx(0.5 * divergence, abs=1e-5)
    spread = scores_of(full.model, *whole(batch), chosen.shape[1], 1.0)[1]
    assert found["entropy"] - found["plain"] == pytest.approx(
        -0.3 * float((spread * chosen).sum() / chosen.sum()), abs=1e-4
    )
    likely, batch = now["dual"]
    limits = {"clip_low": RECIPE.clip_low, "clip_high": RECIPE.clip_high}
    capped = (likely - batch["old_per_token_logps"]).clamp(max=math.log(1.3)) + batch["old_per_token_logps"]
    expected = clipped_loss(capped, batch["old_per_token_logps"], batch["advantages"], chosen, **limits)
    assert found["dual"] == pytest.approx(float(expected), abs=1e-5) != pytest.approx(found["plain"], abs=1e-5)


def test_rows_read_back_to_the_last_bit(samples: Sequence[TrainingSample], tmp_path: Path) -> None:
    prepared = prepare(samples, RECIPE)
    prepared.save(tmp_path / "rows.jsonl")
    assert Prepared.load(tmp_path / "rows.jsonl") == prepared


def test_stale_and_long_turns_are_left_out_and_still_count_as_rivals(samples: Sequence[TrainingSample]) -> None:
    half = [dataclasses.replace(s, policy_version="old" if i % 2 else "new") for i, s in enumerate(samples)]
    everything = {row.key: row for row in prepare(half, RECIPE).rows}
    fresh = prepare(half, RECIPE, TrainingLimits(current_version="new", stale_at_most=0))
    assert fresh.left_out["too stale"] == len(everything) - len(fresh.rows) > 0
    assert all(everything[row.key] == row for row in fresh.rows)
    assert prepare(samples, RECIPE, TrainingLimits(tokens_at_most=3)).rows == ()


def test_every_row_is_visited_each_epoch_in_an_order_of_its_own() -> None:
    from triton_agent.policy.train.update.grpo import EpochOrder

    order = EpochOrder(rows=10, batch=4, slices=2, seed=1)
    first = list(order)
    assert len(first) == len(order) == 24 and set(first) == set(range(10))
    assert first[0:4] == first[4:8], "each batch is named once per slice"
    order.set_epoch(1)
    assert list(order) != first
    order.set_epoch(0)
    assert list(order) == first


@pytest.mark.parametrize("reduction", ["token", "sequence", "constant"])
def test_a_step_is_the_same_however_its_rows_are_divided_among_slices(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path, reduction: str
) -> None:
    """Rows have different numbers of tokens that count."""
    from transformers import TrainerCallback

    from triton_agent.policy.train.update.grpo import GRPOSettings, LoggedTrainer
    from triton_agent.policy.train.update.session import load

    class Gradients(TrainerCallback):  # type: ignore[misc]  # the library is not read for types
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any) -> None:
            self.found = [parameter.grad.clone() for parameter in model.parameters()]

    recipe = dataclasses.replace(RECIPE, reduction=reduction)
    rows = [shortened(row, tokens) for row, tokens in zip(prepare(samples, recipe).rows, (1, 9, 4, 6))]
    found = []
    for batch in (4, 1):
        settings = GRPOSettings(
            output=tmp_path / str(batch),
            cpu=True,
            batch_size=batch,
            accumulation=4 // batch,
            steps=1,
            gradient_norm=0.0,
        )
        model, tokenizer = load(str(tiny))
        seen = Gradients()
        LoggedTrainer(
            rows, settings=settings, recipe=recipe, model=model, tokenizer=tokenizer, callbacks=[seen]
        ).train()
        found.append(seen.found)
    size = max(float(gradient.abs().max()) for gradient in found[0])
    assert size > 1e-4
    assert max(float((a - b).abs().max()) for a, b in zip(*found)) < 1e-4 * size


def shortened(row: TrainingRow, tokens: int) -> TrainingRow:
    """Return the row with this many tokens of the answer, as if it had been cut off there."""
    numbers = row.numbers.load()
    chances = numbers.log_probabilities
    cut = Numbers(
        prompt_ids=numbers.prompt_ids,
        token_ids=numbers.token_ids[:tokens],
        log_probabilities=None if chances is None else chances[:tokens],
    )
    return dataclasses.replace(row, numbers=cut, roles=row.roles[:tokens])


@pytest.mark.parametrize("reduction", ["token", "sequence", "constant"])
def test_a_loss_is_averaged_as_its_recipe_says(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path, reduction: str
) -> None:
    """Tokens of tools count neither in the loss nor in what it is divided by, except by the constant length."""
    import torch

    recipe = dataclasses.replace(RECIPE, reduction=reduction)
    rows = [shortened(row, tokens) for row, tokens in zip(prepare(samples, recipe).rows, (1, 12, 4, 6))]
    full = trainer(tiny, rows, tmp_path, recipe)
    jolt(full.model)
    full.current_gradient_accumulation_steps = 1
    batch = full._generate_and_score_completions([{"part": place} for place in range(4)])
    ratios = (full.log_probabilities(batch) - batch["old_per_token_logps"]).exp()
    sums, counts = [], []
    for place, row in enumerate(rows):
        worth = torch.tensor(row.advantages)
        ratio = ratios[place, : len(worth)]
        objective = torch.minimum(ratio * worth, ratio.clamp(0.8, 1.28) * worth)
        own = [float(value) for value, chosen in zip(objective, row.chosen) if chosen]
        sums.append(sum(own))
        counts.append(len(own))
    assert sum(counts) < sum(len(row.roles) for row in rows)
    expected = {
        "token": sum(sums) / sum(counts),
        "sequence": statistics.fmean(total / count for total, count in zip(sums, counts)),
        "constant": sum(sums) / (4 * 12),
    }
    assert float(full._compute_loss(full.model, batch).detach()) == pytest.approx(-expected[reduction], abs=1e-6)


def test_a_training_that_is_resumed_within_a_later_epoch_has_the_weights_of_one_that_was_not(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import train_grpo

    prepared = prepare(samples, RECIPE)
    prepared = dataclasses.replace(prepared, rows=prepared.rows[:6])

    def train(folder: str, steps: int, resume: bool = False) -> Path:
        settings = GRPOSettings(
            output=tmp_path / folder, cpu=True, batch_size=2, steps=steps, save_every=4, learning_rate=1e-3
        )
        return train_grpo(str(tiny), None if resume else prepared, RECIPE, settings, resume=resume).weights

    whole = load_file(train("whole", 8) / "model.safetensors")
    train("resumed", 4)
    resumed = load_file(train("resumed", 8, resume=True) / "model.safetensors")
    assert all(bool((whole[name] == resumed[name]).all()) for name in whole), "three steps are an epoch"


def test_the_learning_rate_rises_from_0_over_the_warmup(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path
) -> None:
    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import train_grpo

    settings = GRPOSettings(output=tmp_path / "out", cpu=True, steps=4, learning_rate=1e-3, warmup=2)
    history = train_grpo(str(tiny), prepare(samples, RECIPE), RECIPE, settings).history
    rates = [one["learning_rate"] for one in history if "loss" in one]
    assert rates == pytest.approx([0.0, 0.5e-3, 1e-3, 1e-3])


def test_a_training_visits_every_row_in_each_epoch_and_in_another_order(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path
) -> None:
    rows = prepare(samples, RECIPE).rows[:6]
    full = trainer(tiny, rows, tmp_path, epochs=3.0)
    full.args.per_device_train_batch_size = full._train_batch_size = 2
    full.args.generation_batch_size = 2
    seen: list[int] = []
    score = full._generate_and_score_completions
    full._generate_and_score_completions = lambda inputs: (seen.extend(one["part"] for one in inputs), score(inputs))[1]
    full.train()
    epochs = [seen[start : start + 6] for start in (0, 6, 12)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(6))] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_an_adapter_trains_and_leaves_the_weights_alone(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path
) -> None:
    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import Adapter, train_grpo

    settings = GRPOSettings(output=tmp_path / "lora", cpu=True, batch_size=4, accumulation=2, steps=2)
    outcome = train_grpo(str(tiny), prepare(samples, RECIPE), RECIPE, settings, adapter=Adapter(rank=2))
    assert outcome.steps == 2 and not outcome.stopped
    assert (outcome.weights / "adapter_model.safetensors").exists()
    assert not (outcome.weights / "model.safetensors").exists()
    assert {"reward", "reward/correct", "entropy", "clip_ratio/high_mean"} <= set(outcome.history[0])


def test_a_trained_adapter_is_trained_further_and_diverges_from_itself(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path
) -> None:
    """It is neither put aside for a new adapter nor forgotten by a resumed training, whose reference it remains."""
    from safetensors.torch import load_file

    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import Adapter, load, load_frozen, train_grpo

    begun = GRPOSettings(output=tmp_path / "first", cpu=True, batch_size=8, steps=2, learning_rate=0.1)
    adapter = Adapter(rank=2)
    first = str(train_grpo(str(tiny), prepare(samples, RECIPE), RECIPE, begun, adapter=adapter).weights)
    model = load_frozen(first, cpu=True)
    rows = prepare(collect(log_runs(model), RECIPE).samples, RECIPE)

    def train(folder: str, steps: int, resume: bool = False) -> Any:
        settings = dataclasses.replace(begun, output=tmp_path / folder, steps=steps, save_every=1, kl=0.1)
        return train_grpo(first, None if resume else rows, RECIPE, settings, adapter=adapter, resume=resume)

    history = train("whole", 2).history
    assert history[0]["clip_ratio/region_mean"] == 0.0, "the policy that sampled is the one that is trained"
    assert history[0]["kl"] == pytest.approx(0.0, abs=1e-6) and history[1]["kl"] > 1e-4
    train("resumed", 1)
    train("resumed", 2, resume=True)
    whole, resumed, before = (
        load_file(Path(folder) / "adapter_model.safetensors")
        for folder in (tmp_path / "whole" / "final", tmp_path / "resumed" / "final", first)
    )
    assert all(bool((whole[name] == resumed[name]).all()) for name in whole) and whole.keys() == before.keys()
    moved = max(float((whole[name] - before[name]).abs().max()) for name in whole)
    assert 0.0 < moved < 0.5, "two steps from where the first training ended"
    for other in (None, Adapter(rank=4)):
        with pytest.raises(UsageError, match="its own rank") as caught:
            load(first, cpu=True, adapter=other)
        assert "--lora 2" in caught.value.remedy


def test_training_is_begun_once_and_gone_on_with_only_where_there_is_one(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path
) -> None:
    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import train_grpo

    settings = GRPOSettings(output=tmp_path / "x", cpu=True)
    with pytest.raises(UsageError, match="no training to continue"):
        train_grpo(str(tiny), None, RECIPE, settings, resume=True)
    with pytest.raises(UsageError, match="nothing to train on: 3 not measured"):
        train_grpo(
            str(tiny), Prepared(rows=(), left_out={"not measured": 3}, groups=1, flat_groups=0), RECIPE, settings
        )
    (tmp_path / "x").mkdir()
    prepare(samples, RECIPE).save(tmp_path / "x" / "rows.jsonl")
    with pytest.raises(UsageError, match="holds a training already"):
        train_grpo(str(tiny), prepare(samples, RECIPE), RECIPE, settings)


WORKER = """
import dataclasses, sys
from pathlib import Path
from triton_agent.policy.train.extra import require_training
require_training()
from triton_agent.policy.train.update.grpo import GRPOSettings
from triton_agent.policy.train.prepare.prepared import Prepared
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.policy.train.update.session import train_grpo
model, rows, output, resume = sys.argv[1:5]
settings = GRPOSettings(
    output=Path(output), cpu=True, batch_size=2, accumulation=2, steps=16, learning_rate=1e-3, save_every=3, seed=4
)
train_grpo(model, None if resume == "yes" else Prepared.load(Path(rows)), RECIPES["default"], settings,
    resume=resume == "yes")
"""


def start(tiny: Path, rows: Path, output: Path, resume: str = "no") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WORKER, str(tiny), str(rows), str(output), resume]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


@pytest.mark.ci
@pytest.mark.slow
def test_a_killed_training_goes_on_as_if_nothing_had_happened(
    tiny: Path, samples: Sequence[TrainingSample], tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    from triton_agent.policy.train.update.checkpoints import whole_checkpoints

    prepared = prepare(samples, RECIPE)
    rows = tmp_path / "rows.jsonl"
    prepared.save(rows)
    assert start(tiny, rows, tmp_path / "undisturbed").wait(timeout=300) == 0
    victim = start(tiny, rows, tmp_path / "killed")
    deadline = time.monotonic() + 200
    while not whole_checkpoints(tmp_path / "killed") and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    assert not (tmp_path / "killed" / "final").exists(), "it must have died on the way"
    half = tmp_path / "killed" / "checkpoint-99"
    half.mkdir()
    assert start(tiny, rows, tmp_path / "killed", resume="yes").wait(timeout=300) == 0
    assert not half.exists(), "half a checkpoint is never gone on from"
    ours, theirs = (load_file(tmp_path / name / "final" / "model.safetensors") for name in ("killed", "undisturbed"))
    begun = load_file(tiny / "model.safetensors")
    assert max(float((theirs[name] - begun[name]).abs().max()) for name in theirs) > 1e-3, "it must have learned"
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in theirs) < 1e-4

"""DRPO: advantages and gradient are those of the published objective, computed here by autograd."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.policy.train.evaluations import failed, timing
from tests.policy.train.logged import log_runs
from tests.policy.train.marks import needs_training
from tests.verdicts import passed

from triton_agent.policy.train.prepare.credit import Turn, assign, decoupled
from triton_agent.policy.train.prepare.prepared import prepare
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.policy.train.record.rewards import Reward
from triton_agent.policy.train.record.trajectories import TrainingSample, collect
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import Evaluation, Finding

RECIPE = RECIPES["drpo"]
LAMBDA, TAU, DELTA, BETA = 0.1, 10.0, 1e-4, 1e3


def turn(key: str, *, speedup: float | None, score: float = -1.0, group: str = "g") -> Turn:
    parts = {"correct": 0.0} if speedup is None else {"correct": 1.0, "speed": math.log(speedup)}
    return Turn(key=key, group=group, number=0, parent=None, reward=Reward.of("drpo", parts), score=score)


def speeds(tokens: Sequence[int]) -> Evaluation:
    """Return a verdict by the tokens: wrong if most are odd, otherwise with a speed-up from 0.9 to 1.2."""
    even = sum(token % 2 == 0 for token in tokens)
    if 2 * even < len(tokens):
        return failed(Finding.VALUES, launched=True)
    ratio = 0.9 + 0.1 * (sum(tokens) % 4)
    return passed(timing(ratio, ratio, ratio))


@pytest.mark.parametrize("seed", range(10))
def test_right_answers_share_by_their_speed_and_wrong_ones_by_their_score(seed: int) -> None:
    draw = random.Random(seed)
    right = [turn(f"r{i}", speedup=draw.uniform(0.7, 1.5)) for i in range(draw.randint(1, 4))]
    wrong = [turn(f"w{i}", speedup=None, score=-draw.uniform(0, 9)) for i in range(draw.randint(1, 4))]
    turns = [*right, *wrong]
    found = decoupled(turns, [one.reward.total or 0.0 for one in turns])
    fast = [math.exp((one.reward.parts["speed"] or 0.0) / LAMBDA) for one in right]
    likely = [math.exp(one.score / TAU) for one in wrong]
    expected = [x / sum(fast) for x in fast] + [-x / sum(likely) for x in likely]
    assert found == pytest.approx([len(turns) * x for x in expected])


def test_a_slow_right_answer_is_not_pushed_down() -> None:
    """With a baseline it is, as soon as the others are faster."""
    turns = [turn("slow", speedup=0.5), turn("fast", speedup=4.0), turn("wrong", speedup=None)]
    found = assign(turns, RECIPE).advantages
    assert assign([turns[2], turn("slowest", speedup=1 / math.e)], RECIPE).advantages["slowest"].code > 0.0
    assert 0.0 < found["slow"].code < found["fast"].code and found["wrong"].code < 0.0


def test_groups_with_right_answers_alone_teach_nothing_and_groups_of_any_size_weigh_the_same() -> None:
    alone = [turn("a", speedup=1.0, group="one"), turn("b", speedup=2.0, group="one")]
    small = [turn("c", speedup=1.0, group="two"), turn("d", speedup=None, group="two")]
    large = [turn(f"e{i}", speedup=1.0 if i else None, group="three") for i in range(6)]
    credit = assign([*alone, *small, *large], RECIPE)
    assert credit.left_out == {"all turns of the group were right, or all were wrong": 2}
    weight = {key: one.code for key, one in credit.advantages.items()}
    assert weight["c"] == pytest.approx(sum(weight[f"e{i}"] for i in range(1, 6))) == pytest.approx(-weight["d"])


@pytest.fixture(scope="session")
def timed(tiny: Path) -> Sequence[TrainingSample]:
    from triton_agent.policy.train.update.session import load

    records = log_runs(load(str(tiny))[0].eval(), runs=6, turns=1, verdict=speeds)
    return collect(records, RECIPE).samples


def published(model: Any, trainer: Any, batch: Any, samples: Sequence[TrainingSample]) -> Any:
    """Return the loss of the paper: for each question the right answers' weighted scores over the log-sum-exp of the
    wrong ones' scores, and the constraint on the divergence from the policy that sampled.
    """
    import torch

    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    present = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    width = batch["completion_ids"].shape[1]
    logits = model(input_ids=ids, attention_mask=present).logits[:, -width - 1 : -1].log_softmax(-1)
    now = logits.gather(-1, batch["completion_ids"].unsqueeze(-1)).squeeze(-1)
    mask = batch["completion_mask"] * batch["tool_mask"]
    scores = (now * mask).sum(1) / mask.sum(1)
    groups: dict[str, list[int]] = defaultdict(list)
    for place, sample in enumerate(samples):
        groups[sample.turn.group].append(place)
    gains = []
    for places in groups.values():
        parts = [samples[place].turn.reward.parts for place in places]
        right = [place for place, one in zip(places, parts) if one["correct"]]
        wrong = [place for place in places if place not in right]
        speed = torch.tensor([samples[place].turn.reward.parts["speed"] for place in right])
        weights = (speed / LAMBDA).softmax(0)
        gains.append((weights * (scores[right] - TAU * (scores[wrong] / TAU).logsumexp(0))).sum())
    apart = ((trainer.sampled - now) * mask).sum() / mask.sum()
    return -sum(gains) / len(gains) + (BETA * (apart - DELTA)).clamp(min=0).detach() * apart


@needs_training
@pytest.mark.parametrize("moved", [0.0, 0.001, 0.02])
def test_the_gradient_is_that_of_the_published_objective(
    tiny: Path, timed: Sequence[TrainingSample], tmp_path: Path, moved: float
) -> None:
    """Without and with the constraint, which begins to act once the policy has moved."""
    import torch

    from triton_agent.policy.train.update.grpo import GRPOSettings, LoggedTrainer
    from triton_agent.policy.train.update.session import load

    prepared = prepare(timed, RECIPE)
    by_key = {sample.turn.key: sample for sample in timed}
    samples = [by_key[row.key] for row in prepared.rows]
    assert len({sample.turn.group for sample in samples}) > 1
    model, tokenizer = load(str(tiny))
    twin, _ = load(str(tiny))
    settings = GRPOSettings(output=tmp_path, cpu=True, batch_size=len(samples))
    trainer = LoggedTrainer(prepared.rows, settings=settings, recipe=RECIPE, model=model, tokenizer=tokenizer)
    torch.manual_seed(3)
    with torch.no_grad():
        for one, other in zip(model.parameters(), twin.parameters()):
            step = torch.randn_like(one) * moved
            one.add_(step)
            other.add_(step)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    trainer.sampled = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row.numbers.load().log_probabilities) for row in prepared.rows], batch_first=True
    )
    batch = trainer._generate_and_score_completions([{"part": place} for place in range(len(samples))])
    divergence = trainer._metrics["train"]["importance/divergence"][0]
    assert (divergence > DELTA) == (moved > 0)
    trainer._compute_loss(trainer.model, batch).backward()
    published(twin.train(), trainer, batch, samples).backward()
    pairs = list(zip(model.parameters(), twin.parameters()))
    size = math.sqrt(sum(float((other.grad**2).sum()) for _, other in pairs))
    apart = math.sqrt(sum(float(((one.grad - other.grad) ** 2).sum()) for one, other in pairs))
    assert size > 1e-3
    assert apart < (1e-4 if moved == 0.0 else 2e-3) * size


@needs_training
def test_an_older_policy_cannot_be_corrected_for(tiny: Path, timed: Sequence[TrainingSample], tmp_path: Path) -> None:
    from triton_agent.policy.train.update.grpo import GRPOSettings, LoggedTrainer
    from triton_agent.policy.train.update.session import load

    model, tokenizer = load(str(tiny))
    settings = GRPOSettings(output=tmp_path, cpu=True, proximal=True)
    rows = prepare(timed, RECIPE).rows
    with pytest.raises(UsageError, match="stays close"):
        LoggedTrainer(rows, settings=settings, recipe=RECIPE, model=model, tokenizer=tokenizer)

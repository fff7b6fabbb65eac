"""The rows of a training run: samples with the advantage of every token, fixed before its first step.

They are written beside the checkpoints, so that a resumed run trains on the same numbers even if the store has grown.
The file has a line of JSON for each row; a second file has the numbers of all rows, which are read when a batch needs
them.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.policy.train.prepare import off_policy
from triton_agent.policy.train.prepare.credit import Advantage, Turn, assign
from triton_agent.policy.train.prepare.recipes import Recipe
from triton_agent.policy.train.record.spool import Numbers, Spool, Spooled
from triton_agent.policy.train.record.trajectories import TrainingSample

Rescore = Callable[[Sequence[TrainingSample], float], Sequence[Sequence[float]]]
"""Returns the log-probabilities of each sample's tokens under the policy to be trained, at a temperature."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow:
    """One turn, ready for the trainer."""

    key: str
    numbers: Numbers | Spooled
    """Tokens, and their log-probabilities under the policy that sampled them."""
    roles: bytes
    """The `TokenRole` of each token."""
    advantage: Advantage
    reward: float
    parts: Mapping[str, float | None]
    hack: bool
    passed: bool

    @property
    def chosen(self) -> list[bool]:
        """True for tokens that the policy sampled itself."""
        return list(map(bool, self.roles))

    @property
    def advantages(self) -> list[float]:
        """The advantage of each token."""
        return self.advantage.of(self.roles)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """All rows of a training run, and counts of the turns left out."""

    rows: tuple[TrainingRow, ...]
    left_out: Mapping[str, int]
    groups: int
    flat_groups: int
    """Number of groups whose turns all had equal returns."""
    temperature: float = 1.0
    """Temperature at which the tokens were sampled and are trained on."""

    def save(self, path: Path) -> None:
        """Save atomically: a crash leaves no partial file."""
        head = {name: getattr(self, name) for name in ("groups", "flat_groups", "temperature")}
        head["left_out"] = dict(self.left_out)
        partial = path.with_suffix(".partial")
        with partial.open("w") as file, path.with_suffix(NUMBERS).open("wb") as binary:
            spool = Spool(binary)
            file.write(json.dumps(head) + "\n")
            for row in self.rows:
                plain = {name: getattr(row, name) for name in ("key", "reward", "parts", "hack", "passed")}
                plain["roles"] = base64.b64encode(row.roles).decode()
                plain["advantage"] = [row.advantage.plan, row.advantage.code]
                file.write(json.dumps({**plain, "numbers": spool.add(row.numbers.load()).place}) + "\n")
            for written in (binary, file):
                written.flush()
                os.fsync(written.fileno())
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Prepared:
        spool = Spool(path.with_suffix(NUMBERS).open("rb"))
        with path.open() as file:
            head: dict[str, Any] = json.loads(next(file))
            rows = tuple(_row(json.loads(line), spool) for line in file)
        return cls(rows=rows, **head)


NUMBERS = ".numbers"
"""Suffix of the file with the rows' tokens and log-probabilities."""


def _row(data: dict[str, Any], spool: Spool) -> TrainingRow:
    plan, code = data["advantage"]
    data["advantage"] = Advantage(plan=plan, code=code)
    data["roles"] = base64.b64decode(data["roles"])
    data["numbers"] = Spooled(spool, *data["numbers"])
    return TrainingRow(**data)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLimits:
    """Conditions for training on a sample, in addition to the recipe's."""

    current_version: str = ""
    """Version of the policy to be trained."""
    stale_at_most: int | None = None
    """Most versions that an answer may be behind; None for any number."""
    tokens_at_most: int | None = None
    """Most tokens of prompt and answer. Longer samples are left out, since a truncated one would be another sample."""
    temperature: float | None = None
    """Sampling temperature to train at; None for the one at which all samples were drawn."""
    tokenizer: str = ""
    """Digest of the vocabulary of the policy to be trained; empty to accept any."""
    seed: int = 0


def prepare(
    samples: Sequence[TrainingSample],
    recipe: Recipe,
    limits: TrainingLimits | None = None,
    unsampled: Sequence[Turn] = (),
) -> Prepared:
    """Assign credit over all samples and only then reject some, so that rejected ones still count in the comparison.

    `unsampled` are the turns of a `Collection` that only count in returns.
    """
    limits = limits or TrainingLimits()
    credit = assign([*(sample.turn for sample in samples), *unsampled], recipe)
    left_out = Counter(credit.left_out)
    taught = [sample for sample in samples if sample.turn.key in credit.advantages]
    order = off_policy.versions_by_age((sample.policy_version for sample in samples), limits.current_version)
    kept = []
    for sample in taught:
        if why := _objection(sample, recipe, limits, order):
            left_out[why] += 1
        else:
            kept.append(sample)
    temperature = off_policy.training_temperature([sample.sampling for sample in kept], limits.temperature)
    rows = []
    for sample in kept:
        advantage = credit.advantages[sample.turn.key]
        if why := off_policy.mismatch(sample.sampling, sample.log_probabilities_of, temperature):
            left_out[why] += 1
        elif any(advantage.of(bytes(set(sample.roles)))):
            rows.append(_row_of(sample, advantage))
        else:
            left_out["an advantage of exactly 0"] += 1
    return Prepared(
        rows=tuple(rows),
        left_out=dict(left_out),
        groups=credit.groups,
        flat_groups=credit.flat_groups,
        temperature=temperature,
    )


def _objection(sample: TrainingSample, recipe: Recipe, limits: TrainingLimits, order: Sequence[str]) -> str:
    if not sample.scored:
        return "no log-probabilities were stored"
    if limits.tokenizer and sample.tokenizer not in ("", limits.tokenizer):
        return "its tokens are of another vocabulary"
    if limits.tokens_at_most and sample.length > limits.tokens_at_most:
        return "too long"
    if not off_policy.fresh_enough(sample.policy_version, order, limits.stale_at_most):
        return "too stale"
    if recipe.share_rejection and sample.turn.reward.passed:
        kept = off_policy.kept_by_share(sample.kernel_share, sample.turn.key, seed=limits.seed)
        return "" if kept else "its own kernels take too small a share of the device time"
    return ""


def _row_of(sample: TrainingSample, advantage: Advantage) -> TrainingRow:
    reward = sample.turn.reward
    return TrainingRow(
        key=sample.turn.key,
        numbers=sample.numbers,
        roles=sample.roles,
        advantage=advantage,
        reward=reward.total or 0.0,
        parts=reward.parts,
        hack=reward.hack,
        passed=reward.passed,
    )

"""GRPO on logged turns with TRL's trainer: its loss, optimiser, checkpoints and launchers; our data and advantages.

Nothing is generated here. The trainer gets what was stored: token ids, log-probabilities, masks, and an advantage for
every token. `grpo_minimal.py` is the same method in one readable file, and its loss is the same number.

Order and batches depend only on seed and epoch, and a step needs only the rows and the weights. A killed run therefore
resumes exactly.
"""

from __future__ import annotations

import array
import dataclasses
import functools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from torch import Tensor
from torch.utils.data import Sampler
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import use_adapter

from triton_agent.policy.train.prepare.credit import Advantage
from triton_agent.policy.train.prepare.off_policy import (
    DIVERGENCE_AT_MOST,
    DIVERGENCE_WEIGHT,
    DRIFT_AT_MOST,
    TOKEN_VETO,
    WEIGHT_CAP,
)
from triton_agent.policy.train.prepare.prepared import TrainingRow
from triton_agent.policy.train.prepare.recipes import Recipe
from triton_agent.policy.train.prepare.token_batches import batches_of
from triton_agent.policy.train.record.rewards import PARTS
from triton_agent.policy.train.record.spool import Numbers
from triton_agent.policy.train.settings import TrainingSettings
from triton_agent.policy.train.update.scoring import padded
from triton_agent.tools.errors import UsageError

LOSSES = {"token": "dapo", "sequence": "grpo", "constant": "dr_grpo"}
"""TRL's names for our ways to average a loss."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GRPOSettings(TrainingSettings):
    """Settings of GRPO. The rows hold the data; the recipe defines clipping and averaging."""

    learning_rate: float = 1e-6
    epochs: float = 1.0
    keep: int = 2
    proximal: bool = False
    """Clip against the policy before the step instead of the one that sampled, and weight by the importance ratio."""
    weight_cap: float = WEIGHT_CAP
    drift_at_most: float = DRIFT_AT_MOST
    """Nats per token by which a bad answer may become less likely than at sampling; for `proximal`."""
    kl: float = 0.0
    """Weight of the reverse KL divergence from the model at the start of the training; 0 for none."""
    entropy: float = 0.0
    """Weight of the mean entropy of the answers' tokens, which keeps a policy exploring; 0 for none."""
    dual_clip: float | None = None
    """Importance ratio above which a token with a negative advantage gets no gradient; None for no limit. Must be above
    1 plus the upper clip.
    """
    temperature: float = 1.0
    """Temperature that logits are divided by; `train_grpo` sets it to that of the rows."""
    gradient_norm: float = 1.0
    batch_tokens: int | None = None
    """Tokens with a loss per batch on one device, instead of `batch_size` rows; None for rows."""
    evaluate_every: int = 0
    """Steps between evaluations; 0 for none."""

    def config(self, recipe: Recipe, longest: int) -> GRPOConfig:
        """Return TRL's configuration. It requires groups and lengths that only matter for generation."""
        if self.batch_tokens is not None and recipe.reduction != "token":
            raise UsageError(
                f"recipe {recipe.name} has a mean by {recipe.reduction}, and batches of tokens need one by token",
                remedy="leave out --batch-tokens, or use another recipe",
            )
        processes = GRPOConfig(output_dir=str(self.output), report_to=[], use_cpu=self.cpu, bf16=False).world_size
        batch = self.batch_size if self.batch_tokens is None else 1
        arguments = self.arguments(self.evaluate_every) | {"per_device_train_batch_size": 2 * batch}
        found = GRPOConfig(
            **arguments,
            lr_scheduler_type="constant_with_warmup",
            num_generations=2 * batch * self.accumulation * processes,
            num_generations_eval=1,
            max_completion_length=longest,
            max_grad_norm=self.gradient_norm,
            temperature=self.temperature,
            epsilon=recipe.clip_low,
            epsilon_high=recipe.clip_high,
            loss_type=LOSSES[recipe.reduction],
            beta=self.kl,
            entropy_coef=self.entropy,
            delta=self.dual_clip,
        )
        # TRL refuses batches of one, in which it could not compare; ours are compared already
        found.per_device_train_batch_size, found.generation_batch_size = batch, batch * self.accumulation * processes
        return found


class EpochOrder(Sampler[int]):
    """Yields a new order every epoch, derived from seed and epoch; the last batch is filled up from the epoch's
    beginning.

    Each batch is repeated for each of its slices, since the trainer requests it once per slice.
    """

    def __init__(self, rows: int, batch: int, slices: int, seed: int) -> None:
        self.rows, self.batch, self.slices, self.seed, self.epoch = rows, batch, slices, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.rows // self.batch) * self.batch * self.slices

    def __iter__(self) -> Iterator[int]:
        source = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(self.rows, generator=source).tolist()
        for start in range(0, self.rows, self.batch):
            places = [order[(start + i) % self.rows] for i in range(self.batch)]
            for _ in range(self.slices):
                yield from places


class LoggedTrainer(GRPOTrainer):
    """Trains on rows. `evaluator` takes the model and returns figures, which are logged as `eval_...`."""

    def __init__(
        self,
        rows: Sequence[TrainingRow],
        *,
        settings: GRPOSettings,
        recipe: Recipe,
        model: Any,
        tokenizer: Any,
        evaluator: Callable[[Any], Mapping[str, float]] | None = None,
        callbacks: Sequence[TrainerCallback] = (),
        peft_config: Any = None,
    ) -> None:
        if not rows:
            raise ValueError("there is nothing to train on")
        self.parts = _parts(rows, settings)
        self.settings = settings
        self.band = recipe.geometric_band
        self.decoupled = not recipe.has_clip
        if self.decoupled and settings.proximal:
            raise UsageError(
                f"recipe {recipe.name} stays close to the policy that sampled", remedy="leave out --proximal"
            )
        self.evaluator = evaluator
        places = Dataset.from_dict({"prompt": [""] * len(self.parts), "part": list(range(len(self.parts)))})
        super().__init__(
            model=model,
            reward_funcs=_no_reward_function,
            args=settings.config(recipe, max(len(row.roles) for row in rows)),
            train_dataset=places,
            eval_dataset=places.select([0]) if settings.evaluate_every else None,
            processing_class=tokenizer,
            callbacks=list(callbacks),
            peft_config=peft_config,
        )

    def _get_train_sampler(self, dataset: Any = None) -> EpochOrder:
        return EpochOrder(
            len(self.parts), self.args.generation_batch_size, self.args.steps_per_generation, self.args.seed
        )

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
        """Return stored samples and rewards where TRL would sample and judge."""
        rows = [row for item in inputs for row in self.parts[item["part"]]]
        rows += [NOTHING] * self._missing(len(rows))
        batch = tensors_of(rows, self.pad_token_id_of_model, self.accelerator.device)
        chosen = counted = batch["completion_mask"] * batch["tool_mask"]
        sampled = batch["old_per_token_logps"] = batch["sampled"]
        needs_now = self.settings.proximal or self.band or self.decoupled
        now = self.log_probabilities(batch) if needs_now else sampled
        if self.settings.kl:
            batch["ref_per_token_logps"] = self.reference_log_probabilities(batch)
        if self.band:
            inside = kept_by_ratio(now, sampled, chosen, self.band)
            batch["advantages"], counted = batch["advantages"] * inside, chosen * inside
            self._note("importance/rejected", 1.0 - inside.float().mean())
        batch["num_items_in_batch"] = self.accelerator.gather(counted.sum()).sum()
        if self.decoupled:
            self._hold_close(batch, now, sampled, chosen)
        if self.settings.proximal:
            weights = (now - sampled).exp().clamp(max=self.settings.weight_cap)
            drift = ((sampled - now) * chosen).sum(1, keepdim=True) / chosen.sum(1, keepdim=True).clamp(min=1)
            kept = (batch["advantages"] >= 0) | (drift <= self.settings.drift_at_most)
            batch["old_per_token_logps"] = now
            batch["advantages"] = batch["advantages"] * weights * kept
            self._note("importance/unlearned", (~kept * chosen).sum() / chosen.sum())
            self._note("importance/mean", (weights * chosen).sum() / chosen.sum())
            self._note("importance/capped", ((weights >= self.settings.weight_cap) * chosen).sum() / chosen.sum())
        self._note_rewards([row for row in rows if row is not NOTHING])
        return batch

    def _missing(self, rows: int) -> int:
        """Return the number of rows to add, since TRL's slices have equal numbers of rows in all processes."""
        if self.settings.batch_tokens is None:
            return 0
        most = int(self.accelerator.gather(torch.tensor([rows], device=self.accelerator.device)).max())
        slices: int = self.args.steps_per_generation
        return -(-most // slices) * slices - rows

    def _hold_close(self, batch: dict[str, Tensor], now: Tensor, sampled: Tensor, chosen: Tensor) -> None:
        """Replace the clip by DRPO's constraint: the gradient is that of `-sum(advantage * log-probability)`, plus
        `beta * max(KL - delta, 0)` times that of the KL divergence from the policy that sampled.

        KL is the mean of `sampled - now` over all tokens of the step, so its gradient is an equal advantage for all
        tokens. The loss is a mean over answers of means over tokens, which is undone for it.
        """
        own = chosen.sum(1, keepdim=True)
        sums = torch.stack([((sampled - now) * chosen).sum(), own.sum().float(), torch.ones_like(own).sum().float()])
        apart, tokens, answers = self.accelerator.reduce(sums, reduction="sum")
        excess = (apart / tokens - DIVERGENCE_AT_MOST).clamp(min=0.0)
        batch["advantages"] = batch["advantages"] + DIVERGENCE_WEIGHT * excess * own * answers / tokens
        batch["old_per_token_logps"] = now
        self._note("importance/divergence", apart / tokens)

    @property
    def pad_token_id_of_model(self) -> int:
        """Token id for padding. Padding is masked, so any token will do if the tokenizer has none for it."""
        return int(self._tokenizer.pad_token_id or 0)

    @torch.no_grad()
    def log_probabilities(self, batch: Mapping[str, Tensor], model: Any = None) -> Tensor:
        """Return the log-probabilities of the completion's tokens under the current weights, or another model."""
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        present = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
        width = batch["completion_ids"].shape[1]
        found: Tensor = self._get_per_token_logps_and_entropies(
            self.model if model is None else model,
            ids,
            present,
            width,
            batch_size=-(-len(ids) // self.args.steps_per_generation),
        )[0]
        return found

    def reference_log_probabilities(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the log-probabilities of the completion's tokens under the model at the start of the training.

        For an adapter that is trained further, TRL keeps a copy of it under the name `ref`.
        """
        if self.ref_model is None:
            adapted = self.accelerator.unwrap_model(self.model)
            with use_adapter(adapted, "ref" if "ref" in adapted.peft_config else None):
                return self.log_probabilities(batch)
        return self.log_probabilities(batch, self.ref_model)

    def _note(self, name: str, value: Tensor) -> None:
        self._metrics["train"][name].append(float(self.accelerator.gather(value.float()).mean()))

    def _note_rewards(self, rows: Sequence[TrainingRow]) -> None:
        """Log the rewards of this step, part by part."""
        device = self.accelerator.device
        self._note("reward", torch.tensor([row.reward for row in rows], device=device).mean())
        for name in PARTS:
            paid = [value for row in rows if (value := row.parts.get(name)) is not None]
            paid_here = torch.tensor([sum(paid), len(paid)], dtype=torch.float32, device=device)
            total, count = self.accelerator.reduce(paid_here).tolist()
            if count:
                self._metrics["train"][f"reward/{name}"].append(total / count)

    def evaluate(self, *args: Any, **keywords: Any) -> dict[str, float]:
        """Return the figures of our own evaluator; a held-out loss would mean nothing here."""
        if self.evaluator is None:
            return {}
        self.model.eval()
        figures: dict[str, float] = {f"eval_{name}": value for name, value in self.evaluator(self.model).items()}
        # verdicts may differ between processes, but all must agree on what to save
        [figures] = broadcast_object_list([figures])
        self.model.train()
        self.log(dict(figures))
        self.callback_handler.on_evaluate(self.args, self.state, self.control, figures)
        return figures


def _parts(rows: Sequence[TrainingRow], settings: GRPOSettings) -> Sequence[Sequence[TrainingRow]]:
    """Return what a batch consists of: single rows, or rows that have the tokens of a batch together."""
    if settings.batch_tokens is None:
        return [[row] for row in rows]
    return batches_of(random.Random(settings.seed).sample(rows, len(rows)), settings.batch_tokens)


NOTHING = TrainingRow(
    key="",
    numbers=Numbers(
        prompt_ids=array.array("I", [0]), token_ids=array.array("I", [0]), log_probabilities=array.array("f", [0.0])
    ),
    roles=b"\0",
    advantage=Advantage(plan=0.0, code=0.0),
    reward=0.0,
    parts={},
    hack=False,
    passed=False,
)
"""A row without tokens that have a loss."""


def kept_by_ratio(now: Tensor, sampled: Tensor, chosen: Tensor, band: tuple[float, float]) -> Tensor:
    """Return a column that is true for answers whose likelihood has hardly changed since sampling.

    The geometric mean of their tokens' ratios must be within the band, and no token may be vetoed. Computed at every
    update, since the policy changes.
    """
    change = (now - sampled) * chosen
    mean = change.sum(1, keepdim=True) / chosen.sum(1, keepdim=True)
    low, high = map(math.log, band)
    return (mean >= low) & (mean <= high) & (change.amin(1, keepdim=True) >= math.log(TOKEN_VETO))


def _no_reward_function(**columns: Any) -> list[float]:
    """Raise: TRL requires a reward function, but logged turns already have rewards."""
    raise RuntimeError("a logged turn has its reward already")


def tensors_of(rows: Sequence[TrainingRow], padding: int, device: Any) -> dict[str, Tensor]:
    """Pad prompts on the left and completions on the right, under the trainer's names."""

    pad = functools.partial(padded, device=device)
    numbers = [row.numbers.load() for row in rows]
    prompts, answers = [one.prompt_ids for one in numbers], [one.token_ids for one in numbers]
    return {
        "prompt_ids": pad(prompts, padding, torch.long, left=True),
        "prompt_mask": pad([[1] * len(prompt) for prompt in prompts], 0, torch.long, left=True),
        "completion_ids": pad(answers, padding, torch.long),
        "completion_mask": pad([[1] * len(answer) for answer in answers], 0, torch.long),
        "tool_mask": pad([row.chosen for row in rows], 0, torch.long),
        "sampled": pad([one.log_probabilities or () for one in numbers], 0.0, torch.float32),
        "advantages": pad([row.advantages for row in rows], 0.0, torch.float32),
    }

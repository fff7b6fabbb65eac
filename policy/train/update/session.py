"""One GRPO training from start to end: write the rows, load the model, run the trainer, save the weights; or resume.

output/rows.jsonl      the rows, fixed at the start
output/checkpoint-N    to resume from; the file `whole` in it marks it as complete
output/best            the weights with the best held-out figure, if one is named
output/final           the weights at the end
"""

from __future__ import annotations

import array
import dataclasses
import datetime
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from accelerate import PartialState
from accelerate.utils import patch_environment
from peft import LoraConfig, PeftModel
from peft.utils import CONFIG_NAME
from torch.distributed.fsdp import MixedPrecisionPolicy
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback

from triton_agent.policy.train.prepare import held_out
from triton_agent.policy.train.prepare.credit import Advantage
from triton_agent.policy.train.prepare.prepared import Prepared, Rescore, TrainingRow
from triton_agent.policy.train.prepare.recipes import Recipe
from triton_agent.policy.train.record.trajectories import TrainingSample
from triton_agent.policy.train.settings import TrainingSettings
from triton_agent.policy.train.update.checkpoints import (
    KeepBest,
    MarkWhole,
    StopOnCollapse,
    last_whole_checkpoint,
    save_weights,
)
from triton_agent.policy.train.update.grpo import GRPOSettings, LoggedTrainer, tensors_of
from triton_agent.policy.train.update.scoring import scores_of
from triton_agent.policy.train.update.signals import Alarms
from triton_agent.tools.errors import UsageError

ROWS = "rows.jsonl"
PREPARING_AT_MOST = datetime.timedelta(hours=4)
"""Time limit for preparing rows. Scoring the plans of 100,000 turns on one GPU takes less."""
FINAL = "final"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """Train LoRA matrices beside the weights instead of the weights."""

    rank: int = 16
    alpha: int = 32
    targets: str | tuple[str, ...] = "all-linear"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """The result of a training."""

    steps: int
    stopped: str
    """Why it was stopped early; empty otherwise."""
    weights: Path
    history: tuple[Mapping[str, Any], ...]


def load_tokenizer(model: str) -> Any:
    """Load a tokenizer by folder or hub name."""
    transformers.logging.set_verbosity_error()
    try:
        return AutoTokenizer.from_pretrained(model, padding_side="left")
    except (OSError, ValueError) as error:
        raise _not_loaded(model, error) from None


def _not_loaded(model: str, error: Exception) -> UsageError:
    return UsageError(
        f"no model could be loaded: {str(error).strip().splitlines()[0]}",
        where=model,
        remedy="name a folder with a model in the Hugging Face format, or make one with `policy init`",
    )


def load(
    model: str, *, bf16: bool = False, cpu: bool = False, fsdp: bool = False, adapter: Adapter | None = None
) -> tuple[Any, Any]:
    """Load model and tokenizer for training, in float32 by default because small steps vanish in fewer bits.

    If the model is an adapter, that adapter is trained further; it must have the rank of `adapter`. The trainer moves
    the model to its GPU. With `fsdp` only the first process of a machine reads the weights, and the others get their
    parts from it.
    """
    tokenizer = load_tokenizer(model)
    own = LoraConfig.from_pretrained(model) if (Path(model) / CONFIG_NAME).is_file() else None
    if own is not None and (adapter is None or adapter.rank != own.r):
        raise UsageError(
            "an adapter is trained as an adapter of its own rank", where=model, remedy=f"add --lora {own.r}"
        )
    reading = {"ACCELERATE_USE_FSDP": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "true"} if fsdp else {}
    with patch_environment(**reading):
        loaded = _weights(own.base_model_name_or_path if own else model, torch.bfloat16 if bf16 else torch.float32)
    if own is not None:
        loaded = PeftModel.from_pretrained(loaded, model, is_trainable=True)
    return (loaded.to("cpu") if cpu else loaded), tokenizer


def load_frozen(model: str, *, bf16: bool = False, cpu: bool = False) -> Any:
    """Load a model that is not trained: on this process's GPU if there is one, in the precision of its files."""
    place = "cpu" if cpu else PartialState().device
    return _weights(model, torch.bfloat16 if bf16 else "auto", place).eval()


def _weights(model: str, kind: Any, place: Any = None) -> Any:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    try:
        return AutoModelForCausalLM.from_pretrained(model, dtype=kind, device_map={"": place} if place else None)
    except (OSError, ValueError) as error:
        raise _not_loaded(model, error) from None


def train_grpo(
    model: str,
    prepared: Prepared | None,
    recipe: Recipe,
    settings: GRPOSettings,
    *,
    adapter: Adapter | None = None,
    resume: bool = False,
    alarms: Alarms | None = None,
    evaluator: Callable[[Any], Mapping[str, float]] | None = None,
    best_by: str = "",
    kept_back: Mapping[str, str] | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> TrainingResult:
    """Train, or resume; `prepared` may be None only when resuming.

    `kept_back` are problems held out from this training, in addition to those held out from the model.
    """
    fixed = _fixed(prepared, settings, resume)
    settings = dataclasses.replace(settings, temperature=fixed.temperature)
    checkpoint = last_whole_checkpoint(settings.output) if resume else None
    require_shardable(settings, checkpoint)
    loaded, tokenizer = load(model, bf16=settings.bf16 and adapter is not None, fsdp=settings.fsdp, adapter=adapter)
    stop = StopOnCollapse(alarms or Alarms())
    trainer = LoggedTrainer(
        fixed.rows,
        settings=settings,
        recipe=recipe,
        model=loaded,
        tokenizer=tokenizer,
        evaluator=evaluator,
        callbacks=[stop, *callbacks],
        peft_config=peft_config(adapter, loaded),
    )
    kept_back = held_out.read(model) | dict(kept_back or {})
    if best_by:
        trainer.add_callback(KeepBest(best_by, functools.partial(save_weights, trainer, kept_back=kept_back)))
    weights = run_trainer(trainer, settings, checkpoint, kept_back)
    return TrainingResult(
        steps=trainer.state.global_step,
        stopped=stop.reason,
        weights=weights,
        history=tuple(trainer.state.log_history),
    )


def require_shardable(settings: TrainingSettings, checkpoint: Path | None) -> None:
    """Refuse `--fsdp` in one process, and a checkpoint of the other kind."""
    if settings.fsdp and PartialState(cpu=settings.cpu).num_processes == 1:
        raise UsageError(
            "--fsdp shards a model over several processes, and there is one",
            remedy="torchrun --nproc-per-node GPUS -m triton_agent train ... --fsdp",
        )
    if checkpoint is not None and any(checkpoint.glob("pytorch_model_fsdp*")) != settings.fsdp:
        kind, remedy = ("not sharded", "leave out --fsdp") if settings.fsdp else ("sharded", "add --fsdp")
        raise UsageError(f"this checkpoint is {kind}", where=str(checkpoint), remedy=remedy)


def run_trainer(
    trainer: Any, settings: TrainingSettings, checkpoint: Path | None, kept_back: Mapping[str, str]
) -> Path:
    """Train, from the checkpoint if there is one; return the folder with the final weights."""
    if settings.fsdp and not trainer.is_fsdp_enabled:
        raise UsageError("accelerate shards on GPUs only", remedy="leave out --cpu or --fsdp")
    if settings.fsdp and settings.bf16:  # accelerate would round losses and sums of gradients to bfloat16
        rounded = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        trainer.accelerator.state.fsdp_plugin.mixed_precision_policy = rounded
    trainer.add_callback(MarkWhole(trainer, kept_back))
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    weights = settings.output / FINAL
    save_weights(trainer, weights, kept_back)
    return weights


def waiting_for_the_first(cpu: bool) -> PartialState:
    """Return the state of the training's processes, with a timeout that lets the others wait while the first
    prepares.
    """
    return PartialState(cpu=cpu, timeout=PREPARING_AT_MOST)


def _fixed(prepared: Prepared | None, settings: GRPOSettings, resume: bool) -> Prepared:
    """Write the rows in the first process and read them in all, so that all train on the same rows."""
    processes = waiting_for_the_first(settings.cpu)
    path = settings.output / ROWS
    if processes.is_main_process:
        if resume:
            _require_begun(path)
        else:
            _begin(prepared, path)
    processes.wait_for_everyone()
    return Prepared.load(path)


def _require_begun(path: Path) -> None:
    if not path.exists():
        raise UsageError(f"{path.parent} holds no training to continue", remedy="leave out --resume to begin one")


def _begin(prepared: Prepared | None, path: Path) -> None:
    if path.exists():
        raise UsageError(
            f"{path.parent} holds a training already", remedy="add --resume to continue, or name another folder"
        )
    if prepared is None or not prepared.rows:
        reasons = ", ".join(f"{count} {why}" for why, count in (prepared.left_out if prepared else {}).items())
        raise UsageError(
            "there is nothing to train on" + (f": {reasons}" if reasons else ""),
            remedy="answers to one problem are compared, so some of them must be better than others: log more of "
            "them (`bench suite --policy MODEL --attempts 8`), choose more runs with --runs, or begin with `train sft`",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    prepared.save(path)


def peft_config(adapter: Adapter | None, loaded: Any) -> Any:
    """Return the configuration of a new adapter; None if none is asked for, or if the model already has one."""
    if adapter is None or isinstance(loaded, PeftModel):
        return None
    targets = adapter.targets if isinstance(adapter.targets, str) else list(adapter.targets)
    return LoraConfig(r=adapter.rank, lora_alpha=adapter.alpha, target_modules=targets, task_type="CAUSAL_LM")


def rescorer(model: Any, *, batch_size: int = 8) -> Rescore:
    """Return a function that computes log-probabilities of stored tokens under the current model."""

    def rescore(samples: Sequence[TrainingSample], temperature: float) -> list[list[float]]:
        found: list[list[float]] = []
        for start in range(0, len(samples), batch_size):
            part = samples[start : start + batch_size]
            batch = tensors_of([_bare_row(sample) for sample in part], 0, model.device)
            ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
            present = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
            likely, _ = scores_of(model, ids, present, batch["completion_ids"].shape[1], temperature)
            found += [row[: len(sample.roles)] for sample, row in zip(part, likely.tolist())]
        return found

    return rescore


def _bare_row(sample: TrainingSample) -> TrainingRow:
    """Make a row with zero advantages, for scoring."""
    numbers = sample.numbers.load()
    if numbers.log_probabilities is None:
        nothing = array.array("f", bytes(4 * len(numbers.token_ids)))
        numbers = dataclasses.replace(numbers, log_probabilities=nothing)
    return TrainingRow(
        key=sample.turn.key,
        numbers=numbers,
        roles=sample.roles,
        advantage=Advantage(plan=0.0, code=0.0),
        reward=0.0,
        parts={},
        hack=False,
        passed=False,
    )

"""Supervised fine-tuning with TRL's trainer, on conversations that end in a kernel that passed.

The loss covers the last answer only, since earlier messages are no examples to imitate. With `learn_prompts` it covers
prompts, too: a policy with random weights learns from them what code looks like. Rows are those of `runs export`, with
`messages` or with `prompt` and `completion`, from files or directly from records.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from accelerate import PartialState
from datasets import Dataset, disable_progress_bars, load_from_disk
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer

from triton_agent.policy.train.prepare import held_out
from triton_agent.policy.train.settings import TrainingSettings
from triton_agent.policy.train.update.checkpoints import last_whole_checkpoint
from triton_agent.policy.train.update.session import (
    Adapter,
    TrainingResult,
    load,
    peft_config,
    require_shardable,
    run_trainer,
    waiting_for_the_first,
)
from triton_agent.tools.errors import UsageError

ROWS, LEARNT, ASIDE = "rows", "learnt", "held_out"
Row = dict[str, list[dict[str, str]]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SFTSettings(TrainingSettings):
    learning_rate: float = 1e-5
    epochs: float = 3.0
    keep: int = 5
    tokens_at_most: int = 8192
    packing: bool = False
    """Put several examples in one row to reduce padding."""
    learn_prompts: bool = False
    """Include prompts in the loss. The held-out loss remains that of answers."""
    held_out: float = 0.0
    """Share of examples that are held out. Their loss is measured at every save, and the weights with the lowest loss
    are the result.
    """

    def config(self, held_out: bool) -> SFTConfig:
        return SFTConfig(
            **self.arguments(evaluate_every=self.save_every if held_out else 0),
            load_best_model_at_end=held_out,
            metric_for_best_model="eval_loss" if held_out else None,
            lr_scheduler_type="cosine",
            per_device_eval_batch_size=self.batch_size,
            max_length=self.tokens_at_most,
            packing=self.packing,
            completion_only_loss=True,
        )


def train_sft(
    model: str,
    rows: Iterable[Mapping[str, Any]],
    settings: SFTSettings,
    *,
    adapter: Adapter | None = None,
    resume: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
) -> TrainingResult:
    """Train on the rows; with `resume`, continue from the last complete checkpoint with the rows of the first start.

    Only the first process iterates over `rows`. Problems that were held out from the model are refused, and problems
    held out here are recorded for later trainings from its weights.
    """
    processes = waiting_for_the_first(settings.cpu)
    checkpoint = _checkpoint(settings.output, resume, processes)
    folder = settings.output / ROWS
    if processes.is_main_process and not folder.exists():
        _write(rows, folder, held_out.read(model), settings)
    processes.wait_for_everyone()
    learnt = load_from_disk(str(folder / LEARNT))
    aside = load_from_disk(str(folder / ASIDE)) if (folder / ASIDE).exists() else None
    require_shardable(settings, checkpoint)
    loaded, tokenizer = load(model, bf16=settings.bf16 and adapter is not None, fsdp=settings.fsdp, adapter=adapter)
    trainer = SFTTrainer(
        model=loaded,
        args=settings.config(held_out=aside is not None),
        train_dataset=learnt,
        eval_dataset=aside,
        processing_class=tokenizer,
        callbacks=list(callbacks),
        peft_config=peft_config(adapter, loaded),
    )
    if settings.learn_prompts:
        # without labels every token is trained on
        trainer.train_dataset = trainer.train_dataset.remove_columns("labels")
    if not len(trainer.train_dataset):
        raise UsageError(
            f"there is nothing to train on: no conversation fits in {settings.tokens_at_most} tokens",
            remedy="raise --max-tokens, or make conversations with shorter prompts (`data make --prompt-tokens`)",
        )
    weights = run_trainer(trainer, settings, checkpoint, held_out.read(str(folder)))
    return TrainingResult(
        steps=trainer.state.global_step, stopped="", weights=weights, history=tuple(trainer.state.log_history)
    )


def _write(rows: Iterable[Mapping[str, Any]], folder: Path, earlier: Mapping[str, str], settings: SFTSettings) -> None:
    """Write the rows as datasets, which all processes map into memory, and the held-out problems, atomically."""
    rows = list(rows)
    if not rows:
        raise UsageError(
            "there is nothing to train on: no conversation led to a kernel that passed",
            remedy="log runs with kernels that pass (`optimize`, `bench suite`), or name others with --runs or --data",
        )
    held_out.refuse((problem_of(row) for row in rows), earlier)
    learnt, aside = split(rows, settings.held_out, settings.seed)
    disable_progress_bars()
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    for name, some in ((LEARNT, learnt), (ASIDE, aside)):
        if some:
            Dataset.from_list([conversation(row) for row in some]).save_to_disk(str(partial / name))
    held_out.write([partial], dict(earlier) | {problem_of(row): problem_of(row)[:12] for row in aside})
    partial.rename(folder)


def split(
    rows: Sequence[Mapping[str, Any]], share: float, seed: int
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Shuffle the rows and hold out whole problems, about this share of the rows; rows of one problem stay together."""
    problems: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: json.dumps(conversation(row), sort_keys=True)):
        problems[problem_of(row)].append(row)
    chance = random.Random(seed)
    learnt: list[Mapping[str, Any]] = []
    aside: list[Mapping[str, Any]] = []
    for problem in chance.sample(sorted(problems), len(problems)):
        fits = len(aside) + len(problems[problem]) <= share * len(rows)
        (aside if fits else learnt).extend(problems[problem])
    chance.shuffle(learnt)
    return learnt, aside


def problem_of(row: Mapping[str, Any]) -> str:
    """Return the identity of a row's problem; if the row names none, a hash of its prompt."""
    named = row.get("fingerprint") or row.get("problem")
    return str(named or hashlib.sha256(json.dumps(conversation(row)["prompt"], sort_keys=True).encode()).hexdigest())


def _checkpoint(output: Path, resume: bool, processes: PartialState) -> Path | None:
    begun = output.exists() and any(output.iterdir())
    if begun and not resume:
        raise UsageError(f"{output} is not empty", remedy="add --resume to continue, or name another folder")
    if resume and not begun:
        raise UsageError(f"{output} holds no training to continue", remedy="leave out --resume to begin one")
    processes.wait_for_everyone()  # wait until all processes have looked before one writes
    return last_whole_checkpoint(output) if resume else None


def conversation(row: Mapping[str, Any]) -> Row:
    """Split a row into the conversation before the last answer, and that answer."""
    messages = row.get("messages")
    if messages is not None:
        messages = list(messages)
        prompt, completion = messages[:-1], messages[-1:]
    else:
        prompt, completion = list(row.get("prompt") or ()), list(row.get("completion") or ())
    plain = [[{"role": m["role"], "content": m["content"]} for m in part] for part in (prompt, completion)]
    if not plain[0] or [message["role"] for message in plain[1]] != ["assistant"]:
        raise UsageError(
            "a row must be a conversation that ends with one answer",
            remedy='give each row "messages" that end with the answer, or "prompt" and "completion"',
        )
    return {"prompt": plain[0], "completion": plain[1]}


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read the rows of a JSON-lines or Parquet file."""
    if path.suffix == ".parquet":
        yield from Dataset.from_parquet(str(path))
        return
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield _row(line, f"{path}:{number}")


def _row(line: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
        conversation(data)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(
            "not a row to train on", where=where, remedy="write rows with `runs export --format sft`"
        ) from None
    except UsageError as error:
        raise UsageError(error.what, where=where, remedy=error.remedy) from None
    row: dict[str, Any] = data
    return row

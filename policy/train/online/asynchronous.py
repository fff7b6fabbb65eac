"""Online training across machines: TRL's asynchronous GRPO with the rollouts, verdicts and credit of this project.

TRL has the trainer, the queue of rows with bounded staleness, packing, and the transfer of weights to a running server
of vLLM: whole weights over NCCL, or the adapter alone if the server was started with `--enable-lora`. `worker.py` has
the rollouts.

    output/online.json    identity and settings of the training, as in `session.py`
    output/groups.jsonl   the groups of episodes; see `worker.py`
    output/updates.jsonl  a line for each step: figures and times of the trainer
    output/published      version of the weights that were published last
    output/checkpoint-N   to resume from; the file `whole` in it marks it as complete
    output/final          the weights at the end

A resumed training returns to its last checkpoint. Groups that this checkpoint has not seen are taken from the store,
and their missing answers are asked for. Rows are trained on in the order in which they arrive, so the weights differ
from those of an undisturbed training.

Not covered: recipes whose loss TRL's trainer does not have, plan gains (they need the trainer's weights while it
trains), and several trainer processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import torch
from datasets import Dataset
from peft.utils import CONFIG_NAME
from torch import Tensor
from transformers import AttentionInterface, PrinterCallback, TrainerCallback
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer, async_grpo_trainer
from trl.experimental.async_grpo.packing import TREE_ATTENTION

from triton_agent.memory.records import GradingMachine
from triton_agent.memory.store import Store
from triton_agent.policy.episode import Graded
from triton_agent.policy.llm.engine import Engine
from triton_agent.policy.llm.servers.keys import Key
from triton_agent.policy.llm.servers.openai import KEY_NAME, Server, parse_base_url
from triton_agent.policy.protocol import Policy
from triton_agent.policy.train.online.files import replace_text
from triton_agent.policy.train.online.rollouts import UPDATES, EpisodeStore, ProblemSource
from triton_agent.policy.train.online.session import IDENTITY, Identity, Line, Lines, OnlineSettings
from triton_agent.policy.train.online.worker import Ages, Groups, RolloutWorker, ServedWeights
from triton_agent.policy.train.prepare import held_out
from triton_agent.policy.train.prepare.prepared import Prepared, TrainingLimits, prepare
from triton_agent.policy.train.prepare.recipes import Recipe
from triton_agent.policy.train.record.trajectories import Knowledge, collect
from triton_agent.policy.train.update.checkpoints import MarkWhole, last_whole_checkpoint, save_weights
from triton_agent.policy.train.update.grpo import GRPOSettings
from triton_agent.policy.train.update.session import FINAL, Adapter, TrainingResult, load_tokenizer, peft_config
from triton_agent.tools.errors import UsageError

PUBLISHED = "published"
LOOK_S = 30.0
LOGGED = {
    "reward": "reward",
    "loss": "loss",
    "entropy": "entropy",
    "ratio": "ratio",
    "clipped": "clip_ratio/region_mean",
    "staleness": "sample/staleness_mean",
    "stale_dropped": "sample/dropped_stale_total",
    "rows_waiting": "sample/rollout_queue_size",
}
"""Figures of a step and the trainer's names for them."""
SECONDS = {
    "all": "perf/step_s",
    "waiting": "perf/rollout_wait_s",
    "update": "perf/fwd_bwd_s",
    "optimizer": "perf/optimizer_s",
    "publish": "perf/weight_sync_s",
}


def train_asynchronously(
    model: str,
    problems: ProblemSource,
    server: str,
    author: Callable[[Engine], Policy],
    store: Store,
    recipe: Recipe,
    grpo: GRPOSettings,
    settings: OnlineSettings,
    *,
    staleness: int = 4,
    adapter: Adapter | None = None,
    resume: bool = False,
    machine: GradingMachine | None = None,
    show: Callable[[Line], None] = lambda line: None,
) -> TrainingResult:
    """Train, or resume, for `settings.updates` steps on answers of a server of vLLM.

    `author` makes a policy that asks an engine. Rows of weights more than `staleness` versions old are discarded.
    """
    recipe = _trainable(recipe, grpo)
    if (Path(model) / CONFIG_NAME).is_file():
        raise UsageError("asynchronous training begins with whole weights", where=model, remedy="merge the adapter")
    kept_back = held_out.read(model)
    fixed: dict[str, Any] = {"model": model, "recipe": recipe.name, "problems": list(problems.names), "server": True}
    fixed |= {name: getattr(grpo, name) for name in ("learning_rate", "accumulation", "temperature", "seed")}
    if grpo.warmup:
        fixed["warmup"] = grpo.warmup
    fixed |= {f"online_{name}": getattr(settings, name) for name in ("answers", "turns")}
    base_url = parse_base_url(server)
    served, context_tokens = _served(base_url)
    identity = Identity.at(grpo.output, fixed, resume=resume)
    checkpoint = last_whole_checkpoint(grpo.output) if resume else None
    seen: dict[str, Any] = {"updates": 0, "groups": [], "version": 1}
    if checkpoint:
        seen = json.loads((checkpoint / IDENTITY).read_text())
    tokenizer = load_tokenizer(model)
    weights = ServedWeights(
        served,
        Server(base_url=base_url, key=Key.from_environment(KEY_NAME), context_tokens=context_tokens),
        identity.training,
    )
    policy = author(weights)
    publishing = Publishing(grpo.output, weights)
    # a version is published once: the server may still know an adapter by the name of the one that the kill interrupted
    before = publishing.last + 1 if resume else 0
    worker = RolloutWorker(
        problems=problems,
        policy=policy,
        episodes=EpisodeStore(
            store, identity.training, policy.name, problems.names, turns=settings.turns, seed=grpo.seed
        ),
        groups=Groups(grpo.output, seen["groups"]),
        prepared=Preparing(
            recipe,
            tokenizer,
            TrainingLimits(temperature=grpo.temperature, tokens_at_most=settings.row_tokens_at_most, seed=grpo.seed),
        ),
        published=publishing.told,
        settings=settings,
        seed=grpo.seed,
        kept_back=kept_back,
        ages=Ages(first=before + 1, checkpoint=seen["version"]),
        machine=machine,
    )
    with _without_a_gpu() if grpo.cpu else contextlib.nullcontext():
        trainer = AsyncGRPOTrainer(
            model=model,
            args=_config(base_url, recipe, grpo, settings, staleness),
            train_dataset=Dataset.from_dict({"prompt": list(problems.names)}),  # required, and only counted
            processing_class=tokenizer,
            rollout_worker=worker,
            peft_config=peft_config(adapter, None),
        )
    if trainer.accelerator.num_processes > 1:
        raise UsageError("online training runs in one process", remedy="start it without a launcher")
    publishing.adapter = trainer._lora_name if trainer._lora_sync else ""
    trainer.model_version = before
    steps = Steps(trainer, Lines(grpo.output / UPDATES, seen["updates"]), show)
    for callback in (steps, MarkWhole(kept_back=kept_back)):  # the mark must be written last
        trainer.add_callback(callback)
    trainer.remove_callback(PrinterCallback)
    trainer._trained_groups.update(seen["groups"])
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    final = grpo.output / FINAL
    save_weights(trainer, final, kept_back)
    return TrainingResult(steps=trainer.state.global_step, stopped="", weights=final, history=tuple(steps.lines.all))


def _trainable(recipe: Recipe, grpo: GRPOSettings) -> Recipe:
    """Return the recipe without plan gains; raise UsageError if TRL's trainer does not have its loss."""
    lacking = [name for name in ("kl", "entropy", "dual_clip", "proximal", "batch_tokens") if getattr(grpo, name)]
    lacking += ["a geometric band"] if recipe.geometric_band else []
    lacking += [f"a mean by {recipe.reduction}"] if recipe.reduction != "token" else []
    if lacking:
        raise UsageError(
            f"asynchronous training has no {', '.join(lacking)}", remedy="choose another recipe, or leave out --server"
        )
    return dataclasses.replace(recipe, reasoning=0.0)


def _served(base_url: str) -> tuple[str, int]:
    """Return the name and the context of the model that a server of vLLM serves."""
    try:
        response = httpx.get(f"{base_url}/models", timeout=LOOK_S, headers=Key.from_environment(KEY_NAME).headers())
        card = response.raise_for_status().json()["data"][0]
        return str(card["id"]), int(card["max_model_len"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        raise UsageError(
            f"no server of vLLM answers at {base_url}: {str(error) or type(error).__name__}",
            remedy="start it with VLLM_SERVER_DEV_MODE=1 vllm serve MODEL; docs/training.md has the whole command",
        ) from None


def _config(
    base_url: str, recipe: Recipe, grpo: GRPOSettings, settings: OnlineSettings, staleness: int
) -> AsyncGRPOConfig:
    plain = grpo.arguments(0) | {"max_steps": settings.updates, "save_steps": settings.save_every}
    return AsyncGRPOConfig(
        **plain,
        lr_scheduler_type="constant_with_warmup",
        max_grad_norm=grpo.gradient_norm,
        num_generations=settings.answers,
        max_completion_length=settings.tokens_at_most,
        temperature=grpo.temperature,
        epsilon=recipe.clip_low,
        epsilon_high=recipe.clip_high,
        max_staleness=staleness,
        token_budget=0,  # the rows of a step are counted, as in other trainings
        vllm_server_base_url=base_url.removesuffix("/v1"),
    )


class Preparing:
    """Computes rewards and advantages of the answers of a group."""

    def __init__(self, recipe: Recipe, tokenizer: Any, limits: TrainingLimits) -> None:
        self._recipe, self._tokenizer, self._limits = recipe, tokenizer, limits

    def __call__(self, graded: Sequence[Graded]) -> Prepared:
        found = [(item.attempt, (item.grading,)) for item in graded]
        collected = collect(found, self._recipe, Knowledge(decode=self._tokenizer.decode))
        return prepare(collected.samples, self._recipe, self._limits, collected.unsampled)


class Publishing:
    """Notes each version that the trainer publishes, before an answer of it is asked for."""

    def __init__(self, output: Path, weights: ServedWeights) -> None:
        self._path, self._weights = output / PUBLISHED, weights
        self.adapter = ""
        """Prefix of the adapters' names on the server; empty if whole weights are published."""
        self.last = int(self._path.read_text()) if self._path.exists() else 0

    def told(self, version: int) -> None:
        replace_text(self._path, str(version))
        self._weights.publish(version, f"{self.adapter}-v{version}" if self.adapter else "")


class Steps(TrainerCallback):
    """Writes a line for each step, and the groups that it has seen beside each checkpoint."""

    def __init__(self, trainer: AsyncGRPOTrainer, lines: Lines, show: Callable[[Line], None]) -> None:
        self._trainer, self.lines, self._show = trainer, lines, show
        self._began_s = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **rest: Any) -> None:
        logs = logs or {}
        if "loss" not in logs:
            return
        line: dict[str, Any] = {"update": len(self.lines.all), "version": self._trainer.model_version}
        line |= {name: logs.get(logged) for name, logged in LOGGED.items()}
        line["seconds"] = {name: logs.get(logged) for name, logged in SECONDS.items()}
        line["seconds"]["all"] = line["seconds"]["all"] or time.monotonic() - self._began_s  # TRL times no first step
        self.lines.add(line)
        self._show(line)

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        seen = {"updates": len(self.lines.all), "groups": sorted(self._trainer._trained_groups)}
        seen["version"] = self._trainer.model_version
        (folder / IDENTITY).write_text(json.dumps(seen))


@contextlib.contextmanager
def _without_a_gpu() -> Iterator[None]:
    """Let TRL's trainer be made on a CPU: it asks for the GPU's peak, and its attention is a kernel for GPUs."""
    asked = async_grpo_trainer.get_peak_flops_per_device
    async_grpo_trainer.get_peak_flops_per_device = lambda accelerator, dtype: None
    try:
        yield
    finally:
        async_grpo_trainer.get_peak_flops_per_device = asked
    AttentionInterface.register(TREE_ATTENTION, attention_without_a_gpu)


def attention_without_a_gpu(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    *,
    tree_kv_index: Tensor,
    tree_cu_seqlens_q: Tensor,
    tree_cu_seqlens_k: Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **rest: Any,
) -> tuple[Tensor, None]:
    """Attend as the kernel for GPUs does that TRL uses: each segment of a packed row to the path that leads to it."""
    found = []
    own, path = tree_cu_seqlens_q.tolist(), tree_cu_seqlens_k.tolist()
    for place in range(len(own) - 1):
        queries = query[:, :, own[place] : own[place + 1]]
        seen = tree_kv_index[path[place] : path[place + 1]]
        ahead = len(seen) - queries.shape[2]
        visible = torch.ones(queries.shape[2], len(seen), dtype=torch.bool).tril(ahead)
        if sliding_window:
            visible = visible.triu(ahead - sliding_window + 1)
        found.append(
            torch.nn.functional.scaled_dot_product_attention(
                queries,
                key[:, :, seen],
                value[:, :, seen],
                attn_mask=visible,
                scale=scaling,
                enable_gqa=True,
            )
        )
    return torch.cat(found, 2).transpose(1, 2), None

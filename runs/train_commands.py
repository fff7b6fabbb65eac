"""Commands that make and train policies: `policy init`, `train sft`, `train grpo`, `train eval`.

Only their words and options stand here; each imports what it does when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from triton_agent.runs.shared_options import sharing

MODEL = Annotated[str, typer.Option("--model", metavar="M", help="A folder with a model, or its name on the hub.")]
RUNS = Annotated[
    str | None,
    typer.Option("--runs", metavar="FILTER", help="Of the store: all; ids; problem=..., policy=..., since=7d; commas."),
]
OUT = Annotated[str, typer.Option("--out", metavar="DIR", help="Where checkpoints and weights go.")]
STORE = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="WHERE", help="A file, or postgresql://...; else TRITON_AGENT_STORE, else your own store."
    ),
]
JSON = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else there.")]
RATE = Annotated[float | None, typer.Option("--learning-rate", "--lr", help="Else what suits most models.")]
EPOCHS = Annotated[float, typer.Option("--epochs", help="Times over all data.")]
STEPS = Annotated[int | None, typer.Option("--steps", help="Steps of the optimiser, in place of epochs.")]
BATCH = Annotated[int, typer.Option("--batch", help="Examples at once on one device.")]
ACCUMULATE = Annotated[int, typer.Option("--accumulate", help="Batches that make one step.")]
LORA = Annotated[int | None, typer.Option("--lora", metavar="RANK", help="Train low-rank matrices, not all weights.")]
BF16 = Annotated[bool, typer.Option("--bf16", help="Compute in bfloat16.")]
CHECKPOINTING = Annotated[bool, typer.Option("--recompute", help="Less memory, more time: recompute activations.")]
SAVE = Annotated[int, typer.Option("--save-every", metavar="N", help="Steps between checkpoints.")]
RESUME = Annotated[bool, typer.Option("--resume", help="Go on from the last whole checkpoint in --out.")]
REPORT = Annotated[
    list[str] | None, typer.Option("--report-to", metavar="R", help="tensorboard, wandb, ...; repeat for more.")
]
SEED = Annotated[int, typer.Option("--seed")]
CPU = Annotated[bool, typer.Option("--cpu", help="Leave the GPU alone.")]
LENGTH = Annotated[int, typer.Option("--max-tokens", help="Longer examples are left out or cut.")]
TRAINING: dict[str, tuple[Any, Any]] = {
    "learning_rate": (RATE, None),
    "steps": (STEPS, None),
    "batch": (BATCH, 8),
    "accumulate": (ACCUMULATE, 1),
    "lora": (LORA, None),
    "bf16": (BF16, False),
    "recompute": (CHECKPOINTING, False),
    "save_every": (SAVE, 100),
    "resume": (RESUME, False),
    "report_to": (REPORT, None),
    "seed": (SEED, 0),
    "cpu": (CPU, False),
    "store": (STORE, None),
    "json": (JSON, False),
}
"""Of every command that trains: annotation and default by name."""

HELP = {"no_args_is_help": True, "context_settings": {"help_option_names": ["-h", "--help"]}}
train_app = typer.Typer(name="train", help="Train a policy on what the store holds.", **HELP)  # type: ignore[arg-type]
policy_app = typer.Typer(name="policy", help="Policies: make a fresh one.", **HELP)  # type: ignore[arg-type]


def attach(app: typer.Typer) -> None:
    """Give the main command these commands."""
    app.add_typer(train_app)
    app.add_typer(policy_app)


@policy_app.command("init")
def init(
    out: OUT,
    data: Annotated[list[str], typer.Option("--data", metavar="PATH", help="Texts for the tokenizer; repeat.")],
    size: Annotated[str, typer.Option("--size", help="tiny or small.")] = "tiny",
    seed: SEED = 0,
    json: JSON = False,
) -> None:
    """A fresh small policy, for those without weights: it knows nothing yet."""
    from triton_agent.runs.train import init

    raise typer.Exit(init(out, data, size=size, seed=seed, json=json))


@train_app.command("sft")
@sharing(TRAINING)
def sft(
    said: dict[str, Any],
    model: MODEL,
    out: OUT,
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="FILE", help="Rows as `runs export` writes them; repeat.")
    ] = None,
    runs: RUNS = None,
    epochs: EPOCHS = 3.0,
    max_tokens: LENGTH = 8192,
    packing: Annotated[bool, typer.Option("--packing", help="Several examples in a row.")] = False,
    held_out: Annotated[float, typer.Option("--held-out", help="Share of examples kept aside.")] = 0.0,
) -> None:
    """Fine-tune on conversations that ended in a kernel that passed."""
    from triton_agent.runs.train import sft

    settings = {
        **_settings(said),
        "epochs": epochs,
        "tokens_at_most": max_tokens,
        "packing": packing,
        "held_out": held_out,
    }
    raise typer.Exit(sft(model, out, tuple(data or ()), runs, settings, **_handling(said)))


@train_app.command("grpo")
@sharing(TRAINING)
def grpo(
    said: dict[str, Any],
    model: MODEL,
    out: OUT,
    runs: RUNS = None,
    recipe: Annotated[
        str, typer.Option("--recipe", help="autotriton, tritonrl, kevin, drkernel, milestones, default.")
    ] = "default",
    epochs: EPOCHS = 1.0,
    max_tokens: LENGTH = 16384,
    temperature: Annotated[float, typer.Option("--temperature", help="At which the runs were sampled.")] = 1.0,
    proximal: Annotated[
        bool,
        typer.Option("--proximal", help="For runs of an older policy: weight by importance, clip about the current."),
    ] = False,
    version: Annotated[str, typer.Option("--version-name", help="The policy version that --model is.")] = "",
    stale: Annotated[
        int | None, typer.Option("--stale", metavar="N", help="Leave out what is N+1 versions old.")
    ] = None,
    start_by: Annotated[
        str | None,
        typer.Option(
            "--start-by", help="entropy: of the checkpoints in --model, start from the most undecided good one."
        ),
    ] = None,
    evaluate_every: Annotated[
        int, typer.Option("--evaluate-every", metavar="N", help="Steps between held-out evaluations; 0: none.")
    ] = 0,
    held_out: Annotated[
        str | None, typer.Option("--held-out", metavar="FILTER", help="Runs whose problems are evaluated on.")
    ] = None,
    answers: Annotated[int, typer.Option("--answers", help="To each held-out problem.")] = 4,
) -> None:
    """Multi-turn GRPO on logged runs: nothing new is sampled but for held-out figures."""
    from triton_agent.runs.train import GRPORequest, grpo

    settings = {
        **_settings(said),
        "epochs": epochs,
        "proximal": proximal,
        "temperature": temperature,
        "evaluate_every": evaluate_every,
    }
    request = GRPORequest(
        model=model,
        out=out,
        runs=runs,
        recipe=recipe,
        settings=settings,
        max_tokens=max_tokens,
        version=version,
        stale=stale,
        start_by=start_by,
        held_out=held_out,
        answers=answers,
        **_handling(said),
    )
    raise typer.Exit(grpo(request))


def _settings(said: Mapping[str, Any]) -> dict[str, Any]:
    """In the words of `TrainingSettings`."""
    return {
        "learning_rate": said["learning_rate"],
        "steps": said["steps"],
        "batch_size": said["batch"],
        "accumulation": said["accumulate"],
        "bf16": said["bf16"],
        "gradient_checkpointing": said["recompute"],
        "save_every": said["save_every"],
        "report_to": tuple(said["report_to"] or ()),
        "seed": said["seed"],
        "cpu": said["cpu"],
    }


def _handling(said: Mapping[str, Any]) -> dict[str, Any]:
    """What is no setting of a trainer."""
    return {name: said[name] for name in ("lora", "resume", "store", "json")}


@train_app.command("eval")
def evaluate(
    model: Annotated[list[str], typer.Option("--model", metavar="M", help="One, or several to compare; repeat.")],
    runs: RUNS = None,
    recipe: Annotated[str, typer.Option("--recipe", help="By which rewards are told.")] = "default",
    answers: Annotated[int, typer.Option("--answers", help="To each problem.")] = 8,
    k: Annotated[list[int] | None, typer.Option("--k", help="For pass@k; repeat for more.")] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Of one answer.")] = 4096,
    temperature: Annotated[float, typer.Option("--temperature")] = 1.0,
    bf16: BF16 = False,
    seed: SEED = 0,
    cpu: CPU = False,
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Ask models for kernels to the problems of runs: pass@k, valid, compiled, correct, fast, hacks, with intervals."""
    from triton_agent.runs.train_eval import EvalRequest, run

    request = EvalRequest(
        models=tuple(model),
        runs=runs,
        recipe=recipe,
        answers=answers,
        ks=tuple(k or (1,)),
        max_tokens=max_tokens,
        temperature=temperature,
        bf16=bf16,
        seed=seed,
        cpu=cpu,
        store=store,
        json=json,
    )
    raise typer.Exit(run(request))

"""Command-line options of `policy init`, `train sft`, `train grpo` and `train eval`.

Only options are here; each command imports its implementation when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from triton_agent.runs.cli.shared_options import sharing

MODEL = Annotated[str, typer.Option("--model", metavar="M", help="Model folder, or OWNER/NAME on the hub.")]
RUNS = Annotated[
    str | None,
    typer.Option(
        "--runs", metavar="FILTER", help="Runs to use: all, ids, problem=..., policy=..., since=7d; comma-separated."
    ),
]
OUT = Annotated[str, typer.Option("--out", metavar="DIR", help="Folder for checkpoints and weights.")]
STORE = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="WHERE",
        help="Store file or postgresql:// URL; default: $TRITON_AGENT_STORE, else a file in your data folder.",
    ),
]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")]
RATE = Annotated[
    float | None, typer.Option("--learning-rate", "--lr", help="Learning rate; the default suits most models.")
]
WARMUP = Annotated[int, typer.Option("--warmup", metavar="N", help="Steps over which the learning rate rises from 0.")]
EPOCHS = Annotated[float, typer.Option("--epochs", help="Passes over the data.")]
STEPS = Annotated[int | None, typer.Option("--steps", help="Optimizer steps, instead of --epochs.")]
BATCH = Annotated[int, typer.Option("--batch", help="Examples per device and step.")]
ACCUMULATE = Annotated[int, typer.Option("--accumulate", help="Batches accumulated into one step.")]
LORA = Annotated[
    int | None, typer.Option("--lora", metavar="RANK", help="Train a LoRA adapter of this rank instead of all weights.")
]
BF16 = Annotated[bool, typer.Option("--bf16", help="Compute in bfloat16.")]
CHECKPOINTING = Annotated[bool, typer.Option("--recompute", help="Recompute activations: less memory, more time.")]
SAVE = Annotated[
    int | None,
    typer.Option("--save-every", metavar="N", help="Steps between checkpoints (default: 100); online: updates (10)."),
]
RESUME = Annotated[bool, typer.Option("--resume", help="Continue from the last complete checkpoint in --out.")]
REPORT = Annotated[
    list[str] | None, typer.Option("--report-to", metavar="R", help="Report to tensorboard, wandb, ...; repeatable.")
]
SEED = Annotated[int, typer.Option("--seed", help="Seed of the random numbers.")]
CPU = Annotated[bool, typer.Option("--cpu", help="Train on the CPU.")]
FSDP = Annotated[
    bool,
    typer.Option("--fsdp", help="Shard the model over the processes of torchrun or accelerate launch, one GPU each."),
]
LENGTH = Annotated[int, typer.Option("--max-tokens", help="Drop or cut longer examples.")]
TRAINING: dict[str, tuple[Any, Any]] = {
    "learning_rate": (RATE, None),
    "warmup": (WARMUP, 0),
    "steps": (STEPS, None),
    "batch": (BATCH, 8),
    "accumulate": (ACCUMULATE, 1),
    "lora": (LORA, None),
    "bf16": (BF16, False),
    "recompute": (CHECKPOINTING, False),
    "save_every": (SAVE, None),
    "resume": (RESUME, False),
    "report_to": (REPORT, None),
    "seed": (SEED, 0),
    "cpu": (CPU, False),
    "fsdp": (FSDP, False),
    "store": (STORE, None),
    "json": (JSON, False),
}
"""Options of every training command: annotation and default by name."""
ONLINE: dict[str, tuple[Any, Any]] = {
    "problems": (
        Annotated[
            list[str] | None,
            typer.Option("--problems", metavar="PATH", help="Problem file, or a folder of them; repeatable."),
        ],
        None,
    ),
    "updates": (Annotated[int | None, typer.Option("--updates", help="Updates to make; default: 100.")], None),
    "per_update": (
        Annotated[int | None, typer.Option("--per-update", help="Problems in an update; default: 8.")],
        None,
    ),
    "turns": (Annotated[int | None, typer.Option("--turns", help="Turns of a rollout; default: 2.")], None),
    "passes": (
        Annotated[int | None, typer.Option("--passes", help="Passes over the rows of an update; default: 1.")],
        None,
    ),
    "engine": (
        Annotated[
            str | None,
            typer.Option("--engine", help="Engine that generates answers: hf (in this process) or vllm; default: hf."),
        ],
        None,
    ),
    "device": (
        Annotated[
            str | None,
            typer.Option("--device", help="Device of the verdicts: auto, cpu, cuda:N or cuda:N,M; default: auto."),
        ],
        None,
    ),
    "max_answer_tokens": (
        Annotated[int | None, typer.Option("--max-answer-tokens", help="Maximum length of an answer; default: 4096.")],
        None,
    ),
    "prompt_tokens": (
        Annotated[
            int | None,
            typer.Option(
                "--prompt-tokens",
                metavar="N",
                help="Token limit of a prompt, counted as by `data make`, for models that were fine-tuned on its data.",
            ),
        ],
        None,
    ),
    "server": (
        Annotated[
            str | None,
            typer.Option(
                "--server",
                metavar="URL",
                help="Train asynchronously on answers of this running server of vLLM, to which new weights are sent.",
            ),
        ],
        None,
    ),
    "vllm_python": (
        Annotated[str | None, typer.Option("--vllm-python", metavar="PATH", help="Python with vLLM installed.")],
        None,
    ),
    "gpu_memory": (
        Annotated[float | None, typer.Option("--gpu-memory", metavar="SHARE", help="vllm: share of the GPU's memory.")],
        None,
    ),
}
"""Options of `train grpo --online`; each is None if it was not given."""

OWN_ENGINE = ("engine", "vllm_python", "gpu_memory", "passes")
"""Options of online training that do not apply if a server answers."""

FILES = ("problems", "turns", "engine", "device", "prompt_tokens", "vllm_python", "gpu_memory")
"""Options of online training that `train eval` has, too."""

HELP = {"no_args_is_help": True, "context_settings": {"help_option_names": ["-h", "--help"]}}
train_app = typer.Typer(name="train", help="Train a policy on logged runs.", **HELP)  # type: ignore[arg-type]
policy_app = typer.Typer(name="policy", help="Create a policy.", **HELP)  # type: ignore[arg-type]


def attach(app: typer.Typer) -> None:
    """Add these commands to the main one."""
    app.add_typer(train_app)
    app.add_typer(policy_app)


@policy_app.command("init")
def init(
    out: OUT,
    data: Annotated[
        list[str], typer.Option("--data", metavar="PATH", help="Texts to train the tokenizer on; repeatable.")
    ],
    size: Annotated[str, typer.Option("--size", help="Size of the model: tiny, mini or small.")] = "tiny",
    vocabulary: Annotated[
        int | None, typer.Option("--vocabulary", metavar="N", help="Maximum number of tokens; default: by --size.")
    ] = None,
    whole_lines: Annotated[
        bool,
        typer.Option(
            "--whole-lines", help="Make a token of every line that occurs in many texts, for shorter prompts."
        ),
    ] = False,
    seed: SEED = 0,
    json: JSON = False,
) -> None:
    """Create a small untrained policy, to try training without pretrained weights."""
    from triton_agent.runs.train.training import init

    raise typer.Exit(init(out, data, size=size, vocabulary=vocabulary, whole_lines=whole_lines, seed=seed, json=json))


@train_app.command("sft")
@sharing(TRAINING)
def sft(
    said: dict[str, Any],
    model: MODEL,
    out: OUT,
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="FILE", help="Rows written by `runs export`; repeatable.")
    ] = None,
    runs: RUNS = None,
    epochs: EPOCHS = 3.0,
    max_tokens: LENGTH = 8192,
    packing: Annotated[bool, typer.Option("--packing", help="Pack several examples into one sequence.")] = False,
    learn_prompts: Annotated[
        bool, typer.Option("--learn-prompts", help="Include prompts in the loss, for a policy from `policy init`.")
    ] = False,
    held_out: Annotated[
        float,
        typer.Option(
            "--held-out",
            help="Share of the examples held out: their loss is measured at every save, and the best weights are kept.",
        ),
    ] = 0.0,
) -> None:
    """Fine-tune a model on conversations that led to a passing kernel."""
    from triton_agent.runs.train.training import sft

    settings = {
        **_settings(said),
        "epochs": epochs,
        "tokens_at_most": max_tokens,
        "packing": packing,
        "learn_prompts": learn_prompts,
        "held_out": held_out,
    }
    raise typer.Exit(sft(model, out, tuple(data or ()), runs, settings, **_handling(said)))


@train_app.command("grpo")
@sharing(TRAINING | ONLINE)
def grpo(
    said: dict[str, Any],
    model: MODEL,
    out: OUT,
    online: Annotated[bool, typer.Option("--online", help="Train on new answers of the model to --problems.")] = False,
    runs: RUNS = None,
    recipe: Annotated[
        str,
        typer.Option(
            "--recipe",
            help="Rewards and credit: autotriton, tritonrl, kevin, drkernel, milestones, drpo, default; settings may"
            " follow for an ablation: default,baseline=grpo,without=rule.",
        ),
    ] = "default",
    epochs: EPOCHS = 1.0,
    max_tokens: LENGTH = 16384,
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature",
            help="Train only on answers sampled at this temperature (default: as recorded); online: temperature (1).",
        ),
    ] = None,
    proximal: Annotated[
        bool | None,
        typer.Option(
            "--proximal/--no-proximal",
            help="Clip around the policy before the step, with importance weights, and not around the one that "
            "sampled; default: yes, except with drpo or --server.",
        ),
    ] = None,
    kl: Annotated[
        float, typer.Option("--kl", help="Weight of the divergence from the model in --model; 0: none.")
    ] = 0.0,
    entropy: Annotated[
        float, typer.Option("--entropy-bonus", help="Weight of the entropy of answers, which is added; 0: none.")
    ] = 0.0,
    dual_clip: Annotated[
        float | None,
        typer.Option("--dual-clip", metavar="R", help="Largest likelihood ratio of a token with a negative advantage."),
    ] = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            "--batch-tokens",
            metavar="N",
            min=1,
            help="Tokens of answers per device and batch, instead of --batch rows.",
        ),
    ] = None,
    version: Annotated[str, typer.Option("--version-name", help="Version of the policy in --model.")] = "",
    stale: Annotated[
        int | None, typer.Option("--stale", metavar="N", help="Skip attempts more than N policy versions old.")
    ] = None,
    start_by: Annotated[
        str | None,
        typer.Option("--start-by", help="entropy: start from the good checkpoint in --model with the highest entropy."),
    ] = None,
    evaluate_every: Annotated[
        int, typer.Option("--evaluate-every", metavar="N", help="Steps between evaluations on --held-out; 0: never.")
    ] = 0,
    held_out: Annotated[
        str | None, typer.Option("--held-out", metavar="FILTER", help="Runs whose problems are used for evaluation.")
    ] = None,
    answers: Annotated[
        int | None,
        typer.Option(
            "--answers", help="Answers per held-out problem (default: 4); online: rollouts of each problem (8)."
        ),
    ] = None,
    problem_reports: Annotated[
        list[str] | None,
        typer.Option(
            "--problem-reports",
            metavar="FILE",
            help="Output of `check-problem --json`: flagged problems get no reward; repeatable.",
        ),
    ] = None,
) -> None:
    """Train a model by multi-turn GRPO, on logged runs or, with --online, on its own new answers."""
    offline = {
        "runs": runs,
        "stale": None if said["server"] else stale,
        "start_by": start_by,
        "held_out": held_out,
        "problem_reports": problem_reports,
        "version": version,
        "evaluate_every": evaluate_every,
        "steps": said["steps"],
        "fsdp": said["fsdp"],
        "epochs": epochs != 1.0,
    }
    _require_one_kind(online, said, offline)
    if online:
        settings = _settings(said) | {"proximal": proximal, "kl": kl, "entropy": entropy, "dual_clip": dual_clip}
        settings |= {"batch_tokens": batch_tokens}
        raise typer.Exit(_online(said, model, out, recipe, temperature, answers, max_tokens, stale, settings))
    from triton_agent.runs.train.training import GRPORequest, grpo

    settings = {
        **_settings(said),
        "epochs": epochs,
        "proximal": proximal,
        "kl": kl,
        "entropy": entropy,
        "dual_clip": dual_clip,
        "batch_tokens": batch_tokens,
        "evaluate_every": evaluate_every,
    }
    request = GRPORequest(
        model=model,
        out=out,
        runs=runs,
        recipe=recipe,
        temperature=temperature,
        settings=settings,
        max_tokens=max_tokens,
        version=version,
        stale=stale,
        start_by=start_by,
        held_out=held_out,
        answers=4 if answers is None else answers,
        problem_reports=tuple(problem_reports or ()),
        **_handling(said),
    )
    raise typer.Exit(grpo(request))


def _require_one_kind(online: bool, said: Mapping[str, Any], offline: Mapping[str, Any]) -> None:
    """Refuse options of the other kind of training."""
    from triton_agent.tools.errors import UsageError

    foreign = offline if online else {name: said[name] for name in ONLINE}
    given = [f"--{OPTION_NAMES.get(name, name).replace('_', '-')}" for name, value in foreign.items() if value]
    if given and online:
        raise UsageError(f"{', '.join(given)} is for training on logged runs", remedy="leave it out, or --online")
    if given:
        raise UsageError(f"{', '.join(given)} is for online training", remedy="add --online, or leave it out")
    if online and not said["problems"]:
        raise UsageError("no problems are given", remedy="add --problems FOLDER")
    own = [f"--{name.replace('_', '-')}" for name in OWN_ENGINE if said["server"] and said[name]]
    if own:
        raise UsageError(f"{', '.join(own)} is for an engine of this command's own", remedy="leave it out, or --server")


OPTION_NAMES = {"version": "version_name"}
"""Options whose names differ from their parameters."""


def _online(
    said: Mapping[str, Any],
    model: str,
    out: str,
    recipe: str,
    temperature: float | None,
    answers: int | None,
    max_tokens: int,
    stale: int | None,
    settings: Mapping[str, Any],
) -> int:
    from triton_agent.runs.train.online import OnlineRequest, train

    rollouts = {"updates": said["updates"], "problems": said["per_update"], "answers": answers, "turns": said["turns"]}
    rollouts |= {"passes": said["passes"], "save_every": said["save_every"]}
    rollouts |= {"row_tokens_at_most": max_tokens}
    request = OnlineRequest(
        model=model,
        out=out,
        problems=tuple(said["problems"]),
        recipe=recipe,
        engine=said["engine"] or "hf",
        server=said["server"],
        staleness=stale,
        device=said["device"] or "auto",
        rollouts={name: value for name, value in rollouts.items() if value is not None},
        temperature=temperature,
        max_answer_tokens=said["max_answer_tokens"] or 4096,
        prompt_tokens=said["prompt_tokens"],
        vllm_python=said["vllm_python"],
        gpu_memory=said["gpu_memory"],
        settings=settings,
        **_handling(said),
    )
    return train(request)


def _settings(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as arguments of `TrainingSettings`."""
    return {
        "learning_rate": said["learning_rate"],
        "warmup": said["warmup"],
        "steps": said["steps"],
        "batch_size": said["batch"],
        "accumulation": said["accumulate"],
        "bf16": said["bf16"],
        "gradient_checkpointing": said["recompute"],
        "save_every": said["save_every"],
        "report_to": tuple(said["report_to"] or ()),
        "seed": said["seed"],
        "cpu": said["cpu"],
        "fsdp": said["fsdp"],
    }


def _handling(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not settings of a trainer."""
    return {name: said[name] for name in ("lora", "resume", "store", "json")}


@train_app.command("eval")
@sharing({name: ONLINE[name] for name in FILES})
def evaluate(
    said: dict[str, Any],
    model: Annotated[
        list[str], typer.Option("--model", metavar="M", help="Model to evaluate; repeat to compare several.")
    ],
    runs: RUNS = None,
    recipe: Annotated[str, typer.Option("--recipe", help="Recipe that computes the rewards.")] = "default",
    answers: Annotated[int, typer.Option("--answers", help="Answers per problem.")] = 8,
    k: Annotated[list[int] | None, typer.Option("--k", help="k of pass@k; repeatable.")] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Maximum length of one answer.")] = 4096,
    temperature: Annotated[float, typer.Option("--temperature", help="Sampling temperature.")] = 1.0,
    bf16: BF16 = False,
    timed_on: Annotated[
        str,
        typer.Option(
            "--timed-on",
            metavar="D",
            help="With --problems: judge right answers once more, on this GPU (cuda, cuda:1), where they are timed.",
        ),
    ] = "",
    seed: SEED = 0,
    cpu: CPU = False,
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Evaluate models on files over several turns, or on the problems of logged runs.

    Prints valid, compiled, correct, fast and hacks with intervals. Episodes on files are stored: an interrupted
    evaluation continues, and a repeated one is read from the store.
    """
    from triton_agent.runs.train.evaluation import EvalRequest, run

    request = EvalRequest(
        models=tuple(model),
        runs=runs,
        problems=tuple(said["problems"] or ()),
        turns=said["turns"] or 2,
        engine=said["engine"] or "hf",
        device=said["device"] or "auto",
        timed_on=timed_on,
        prompt_tokens=said["prompt_tokens"],
        vllm_python=said["vllm_python"],
        gpu_memory=said["gpu_memory"],
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

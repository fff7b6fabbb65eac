"""Command-line options of `runs ...`, `replay`, `bundle`, `verify-bundle` and `clean`.

Only options are here; each command imports its implementation when it runs.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from triton_agent.tools.errors import UsageError

STORE = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="WHERE",
        help="Store file or postgresql:// URL; default: $TRITON_AGENT_STORE, else a file in your data folder.",
    ),
]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")]
YES = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DRY_RUN = Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; change nothing.")]
RUN = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, its first characters, or `last`.")]
OUTPUT = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="File to write.")]
DEVICE = Annotated[str, typer.Option("--device", help="cpu: Triton's interpreter; cuda: the first visible GPU; auto.")]
JOBS = Annotated[int, typer.Option("--jobs", "-j", help="Kernels evaluated at once; 0: one per core.")]
PROBLEM = Annotated[
    str | None, typer.Option("--problem", metavar="P", help="Only runs of this problem: its name or digest.")
]
POLICY = Annotated[str | None, typer.Option("--policy", metavar="NAME", help="Only runs of this policy.")]
STATE = Annotated[
    str | None, typer.Option("--status", metavar="S", help="Only runs in this state: open, ended, or a stop reason.")
]
SINCE = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="T", help="Only runs started since a date or within an age: 2026-01-31, 90m, 12h, 7d."
    ),
]

runs_app = typer.Typer(
    name="runs",
    help="Show, compare, export and remove earlier runs.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def attach(app: typer.Typer) -> None:
    """Add these commands to the main one."""
    app.add_typer(runs_app)
    app.command()(replay)
    app.command()(bundle)
    app.command("verify-bundle")(verify_bundle)
    app.command()(clean)


# -- show --------------------------------------------------------------------------------------------------------------


@runs_app.command("list")
def list_runs(
    problem: PROBLEM = None,
    policy: POLICY = None,
    status: STATE = None,
    since: SINCE = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Runs to show, newest first; 0: all.")] = 20,
    store: STORE = None,
    json: JSON = False,
) -> None:
    """List runs, newest first."""
    from triton_agent.runs.cli.selection import RunSelection
    from triton_agent.runs.history.screens import list_runs

    chosen = RunSelection(problem=problem, policy=policy, status=status, since=since, limit=limit or None)
    raise typer.Exit(list_runs(chosen, store=store, json=json))


@runs_app.command()
def show(
    run: Annotated[
        str,
        typer.Argument(
            metavar="[RUN[/ATTEMPT]]", help="Id of a run, its first characters, or `last`; last/2.1 is an attempt."
        ),
    ] = "last",
    attempt: Annotated[
        str | None, typer.Option("--attempt", "-a", metavar="A", help="Show one attempt in full: 2.1, or best.")
    ] = None,
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Show a run: its problem, attempts and best attempt; or one attempt in full."""
    from triton_agent.runs.history.screens import show

    raise typer.Exit(show(run, attempt, store=store, json=json))


@runs_app.command()
def tree(run: RUN, store: STORE = None, json: JSON = False) -> None:
    """Show the attempts of a run as a tree."""
    from triton_agent.runs.history.screens import tree

    raise typer.Exit(tree(run, store=store, json=json))


@runs_app.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="An attempt: RUN/2.1, or RUN/best.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another attempt, of any run.")],
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Compare the code and the results of two attempts."""
    from triton_agent.runs.history.diff import diff

    raise typer.Exit(diff(before, after, store=store, json=json))


# -- export and import -------------------------------------------------------------------------------------------------


@runs_app.command("export")
def export_runs(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Runs to export; default: all.")] = None,
    output: OUTPUT = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", "-f", help="jsonl or parquet (lossless), trl-sft, trl-grpo; default: by the file name."
        ),
    ] = None,
    problem: PROBLEM = None,
    policy: POLICY = None,
    status: STATE = None,
    since: SINCE = None,
    which: Annotated[
        str,
        typer.Option("--which", help="For trl-sft: passed, wins (faster with confidence), or best (of each problem)."),
    ] = "passed",
    shape: Annotated[str, typer.Option("--shape", help="For trl-sft: messages or prompt-completion.")] = "messages",
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Export runs to a file, for keeping, analysis or training. Names ending in .gz are compressed."""
    from triton_agent.runs.cli.selection import RunSelection
    from triton_agent.runs.history.exchange import ExportRequest, export_runs

    chosen = RunSelection(ids=tuple(runs or ()), problem=problem, policy=policy, status=status, since=since)
    request = ExportRequest(selection=chosen, output=output, form=form, which=which, shape=shape)
    raise typer.Exit(export_runs(request, store=store, json=json))


@runs_app.command("import")
def import_runs(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="File written by `runs export`: JSON or Parquet.")
    ],
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Import runs from a file into the store; runs that are already there are skipped."""
    from triton_agent.runs.history.exchange import import_runs

    raise typer.Exit(import_runs(files, store=store, json=json))


# -- remove, copy, repair ----------------------------------------------------------------------------------------------


@runs_app.command()
def prune(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Runs to remove; or use --older-than.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Runs started longer ago: 12h, 90d.")
    ] = None,
    keep_best: Annotated[
        bool, typer.Option("--keep-best", help="Keep the run with the best attempt of each problem.")
    ] = False,
    problem: PROBLEM = None,
    policy: POLICY = None,
    status: STATE = None,
    store: STORE = None,
    yes: YES = False,
    dry_run: DRY_RUN = False,
    json: JSON = False,
) -> None:
    """Remove runs for good, after showing them and their sizes."""
    from triton_agent.runs.cli.selection import RunSelection
    from triton_agent.runs.history.prune import PruneRequest, prune

    chosen = RunSelection(ids=tuple(runs or ()), problem=problem, policy=policy, status=status, before=older_than)
    request = PruneRequest(selection=chosen, keep_best=keep_best, yes=yes, dry_run=dry_run)
    raise typer.Exit(prune(request, store=store, json=json))


@runs_app.command()
def backup(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File for the copy; must not exist.")],
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Copy the whole store, even while runs write to it."""
    from triton_agent.runs.history.store_care import backup

    raise typer.Exit(backup(file, store=store, json=json))


@runs_app.command()
def repair(store: STORE = None, yes: YES = False, json: JSON = False) -> None:
    """Check the store for damage and save what can be read."""
    from triton_agent.runs.history.store_care import repair

    raise typer.Exit(repair(store=store, yes=yes, json=json))


# -- commands at the top level -----------------------------------------------------------------------------------------


def replay(
    run: RUN,
    attempt: Annotated[
        str | None, typer.Option("--attempt", "-a", metavar="A", help="Only the path to this attempt: 2.1, or best.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print the run instead; the default without a terminal.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Evaluate the stored candidates again on this machine and compare the verdicts."),
    ] = False,
    regrade: Annotated[
        bool, typer.Option("--regrade", help="Like --verify, and keep the new verdicts beside the old ones.")
    ] = False,
    fork: Annotated[
        str | None, typer.Option("--fork", metavar="A", help="Start a new run from this attempt: 2.1, or best.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", help="With --fork: who writes the kernels; this and the following options default to the run's."
        ),
    ] = None,
    turns: Annotated[int | None, typer.Option("--turns", help="With --fork: further turns.")] = None,
    parallel: Annotated[int | None, typer.Option("--parallel", help="With --fork: proposals per turn.")] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="TIME", help="With --fork: time limit, 90s or 10m.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", help="With --fork: token limit.")] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", help="With --fork: cost limit, in the policy's currency.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="With --fork: seed of the search.")] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="DIR", help="With --fork: folder for the shipped file and the report; default: ./RUN."
        ),
    ] = None,
    device: DEVICE = "auto",
    jobs: JOBS = 0,
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Play a run step by step (keys n, p, q, arrows), evaluate it again, or start a new run from an attempt."""
    from triton_agent.runs.history.replay import ReplayRequest, run_replay

    changes: dict[str, Any] = {
        "policy": policy,
        "turns": turns,
        "parallel": parallel,
        "budget": budget,
        "max_tokens": max_tokens,
        "max_cost": max_cost,
        "seed": seed,
    }
    if fork is not None:
        from triton_agent.runs.optimize.fork import Overrides, run_fork

        if attempt is not None or plain or verify or regrade:
            raise UsageError("--fork starts a new run; it cannot play or verify one at the same time")
        overrides = Overrides(**changes, device=None if device == "auto" else device)
        raise typer.Exit(run_fork(run, fork, overrides, out=out, store=store, json=json))
    idle = [f"--{name.replace('_', '-')}" for name, value in (changes | {"out": out}).items() if value is not None]
    if idle:
        raise UsageError(f"{', '.join(idle)}: only with --fork", remedy="--fork A names the attempt to continue from")
    request = ReplayRequest(
        run=run,
        attempt=attempt,
        plain=plain,
        verify=verify or regrade,
        regrade=regrade,
        device=device,
        jobs=jobs,
        json=json,
    )
    raise typer.Exit(run_replay(request, store=store))


def bundle(
    run: RUN,
    output: OUTPUT = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Remove folders and the names of users and machines.")
    ] = False,
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Write the evidence of a run into one file that anyone can check."""
    from triton_agent.runs.bundle.commands import bundle

    raise typer.Exit(bundle(run, output, redact=redact, store=store, json=json))


def verify_bundle(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File written by `triton-agent bundle`.")],
    every: Annotated[bool, typer.Option("--all", help="Evaluate every attempt again, not only the best.")] = False,
    hashes_only: Annotated[
        bool, typer.Option("--hashes-only", help="Check the hashes only; evaluate nothing.")
    ] = False,
    device: DEVICE = "auto",
    jobs: JOBS = 0,
    json: JSON = False,
) -> None:
    """Check the hashes of an evidence bundle, then evaluate its kernels again on this machine, in the sandbox."""
    from triton_agent.runs.bundle.commands import verify

    raise typer.Exit(verify(file, every=every, hashes_only=hashes_only, device=device, jobs=jobs, json=json))


def clean(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WHAT]...", help="cache, scratch, data, store; default: all but the store."),
    ] = None,
    store: STORE = None,
    yes: YES = False,
    dry_run: DRY_RUN = False,
    json: JSON = False,
) -> None:
    """Remove caches and data, after showing their sizes; the store only if named."""
    from triton_agent.runs.history.clean import run

    raise typer.Exit(run(what or (), store=store, yes=yes, dry_run=dry_run, json=json))

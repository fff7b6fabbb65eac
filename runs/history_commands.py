"""Commands for what the store holds: `runs ...`, `replay`, `bundle`, `verify-bundle`, `clean`.

Only their words and options stand here; each imports what it does when it runs.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from triton_agent.tools.errors import UsageError

STORE = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="WHERE", help="A file, or postgresql://...; else TRITON_AGENT_STORE, else your own store."
    ),
]
JSON = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else there.")]
YES = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DRY_RUN = Annotated[bool, typer.Option("--dry-run", help="Show what would go; change nothing.")]
RUN = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, the beginning of one, or `last`.")]
OUTPUT = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write.")]
DEVICE = Annotated[
    str, typer.Option("--device", help="cpu: interpreter; cuda: run and time on the first visible GPU; auto.")
]
JOBS = Annotated[int, typer.Option("--jobs", "-j", help="Kernels judged at once; 0: as many as cores.")]
PROBLEM = Annotated[str | None, typer.Option("--problem", metavar="P", help="Of this problem: its name or digest.")]
POLICY = Annotated[str | None, typer.Option("--policy", metavar="NAME", help="By this policy.")]
STATE = Annotated[str | None, typer.Option("--status", metavar="S", help="open, ended, or a stop reason.")]
SINCE = Annotated[
    str | None, typer.Option("--since", metavar="T", help="Started since: 2026-01-31, or an age: 90m, 12h, 7d.")
]

runs_app = typer.Typer(
    name="runs",
    help="What earlier runs left: look, compare, hand on, put away.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def attach(app: typer.Typer) -> None:
    """Give the main command these commands."""
    app.add_typer(runs_app)
    app.command()(replay)
    app.command()(bundle)
    app.command("verify-bundle")(verify_bundle)
    app.command()(clean)


# -- looking -----------------------------------------------------------------------------------------------------------


@runs_app.command("list")
def list_runs(
    problem: PROBLEM = None,
    policy: POLICY = None,
    status: STATE = None,
    since: SINCE = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many, the newest first; 0: all.")] = 20,
    store: STORE = None,
    json: JSON = False,
) -> None:
    """The runs there are, the newest first."""
    from triton_agent.runs.runs_screens import list_runs
    from triton_agent.runs.selection import Selection

    chosen = Selection(problem=problem, policy=policy, status=status, since=since, limit=limit or None)
    raise typer.Exit(list_runs(chosen, store=store, json=json))


@runs_app.command()
def show(
    run: RUN,
    attempt: Annotated[
        str | None, typer.Option("--attempt", "-a", metavar="A", help="Everything of one: 2.1, or best.")
    ] = None,
    store: STORE = None,
    json: JSON = False,
) -> None:
    """A run: its problem, its attempts, its best; or one attempt with all that is known of it."""
    from triton_agent.runs.runs_screens import show

    raise typer.Exit(show(run, attempt, store=store, json=json))


@runs_app.command()
def tree(run: RUN, store: STORE = None, json: JSON = False) -> None:
    """A run's attempts as they grew from each other."""
    from triton_agent.runs.runs_screens import tree

    raise typer.Exit(tree(run, store=store, json=json))


@runs_app.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="An attempt: RUN/2.1, or RUN/best.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another, of any run.")],
    store: STORE = None,
    json: JSON = False,
) -> None:
    """What differs between two attempts: their code, and what came of it."""
    from triton_agent.runs.runs_diff import diff

    raise typer.Exit(diff(before, after, store=store, json=json))


# -- handing on --------------------------------------------------------------------------------------------------------


@runs_app.command("export")
def export_runs(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Which; without any, all.")] = None,
    output: OUTPUT = None,
    form: Annotated[
        str | None,
        typer.Option("--format", "-f", help="jsonl or parquet (lossless), trl-sft, trl-grpo; else by the file's name."),
    ] = None,
    problem: PROBLEM = None,
    policy: POLICY = None,
    status: STATE = None,
    since: SINCE = None,
    which: Annotated[
        str, typer.Option("--which", help="For trl-sft: passed, wins (surely faster), or best of each problem.")
    ] = "passed",
    shape: Annotated[str, typer.Option("--shape", help="For trl-sft: messages, or prompt-completion.")] = "messages",
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Write runs to a file: to keep, to analyse, to train on. Names ending in .gz are compressed."""
    from triton_agent.runs.exchange import ExportRequest, export_runs
    from triton_agent.runs.selection import Selection

    chosen = Selection(ids=tuple(runs or ()), problem=problem, policy=policy, status=status, since=since)
    request = ExportRequest(selection=chosen, output=output, form=form, which=which, shape=shape)
    raise typer.Exit(export_runs(request, store=store, json=json))


@runs_app.command("import")
def import_runs(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="What `runs export` wrote: JSON or Parquet.")],
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Take runs from a file into the store; what is there already is not taken twice."""
    from triton_agent.runs.exchange import import_runs

    raise typer.Exit(import_runs(files, store=store, json=json))


# -- keeping in order --------------------------------------------------------------------------------------------------


@runs_app.command()
def prune(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="These; else by --older-than.")] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Runs begun longer ago: 12h, 90d.")
    ] = None,
    keep_best: Annotated[
        bool, typer.Option("--keep-best", help="Keep the run that holds the best attempt of its problem.")
    ] = False,
    problem: PROBLEM = None,
    policy: POLICY = None,
    status: STATE = None,
    store: STORE = None,
    yes: YES = False,
    dry_run: DRY_RUN = False,
    json: JSON = False,
) -> None:
    """Forget runs for good, after showing which and how large."""
    from triton_agent.runs.prune import PruneRequest, prune
    from triton_agent.runs.selection import Selection

    chosen = Selection(ids=tuple(runs or ()), problem=problem, policy=policy, status=status, before=older_than)
    request = PruneRequest(selection=chosen, keep_best=keep_best, yes=yes, dry_run=dry_run)
    raise typer.Exit(prune(request, store=store, json=json))


@runs_app.command()
def backup(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where the copy goes; must not be there yet.")],
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Copy the whole store, also while runs write to it."""
    from triton_agent.runs.store_care import backup

    raise typer.Exit(backup(file, store=store, json=json))


@runs_app.command()
def repair(store: STORE = None, yes: YES = False, json: JSON = False) -> None:
    """Look for damage in the store, and save what can be read."""
    from triton_agent.runs.store_care import repair

    raise typer.Exit(repair(store=store, yes=yes, json=json))


# -- at the top level --------------------------------------------------------------------------------------------------


def replay(
    run: RUN,
    attempt: Annotated[
        str | None, typer.Option("--attempt", "-a", metavar="A", help="Only the way to this one: 2.1, or best.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print it; so it is done where there is no terminal.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Judge the stored candidates again, here, and compare the verdicts.")
    ] = False,
    regrade: Annotated[
        bool, typer.Option("--regrade", help="Like --verify, and keep the new verdicts beside the old.")
    ] = False,
    fork: Annotated[
        str | None, typer.Option("--fork", metavar="A", help="Go on from this one as a new run: 2.1, or best.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="With --fork: who writes; like what follows, else as it was.")
    ] = None,
    turns: Annotated[int | None, typer.Option("--turns", help="With --fork: how many more.")] = None,
    parallel: Annotated[int | None, typer.Option("--parallel", help="With --fork: proposals in a round.")] = None,
    budget: Annotated[str | None, typer.Option("--budget", metavar="TIME", help="With --fork: as in 90s, 10m.")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", help="With --fork: in all.")] = None,
    max_cost: Annotated[float | None, typer.Option("--max-cost", help="With --fork: in the policy's currency.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="With --fork: another search.")] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="With --fork: where file and report go; default: ./RUN.")
    ] = None,
    device: DEVICE = "auto",
    jobs: JOBS = 0,
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Play a run back step by step (n, p, q, arrows; no GPU, policy or network), or go on from one of its steps."""
    from triton_agent.runs.replay import ReplayRequest, run_replay

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
        from triton_agent.runs.fork import Overrides, run_fork

        if attempt is not None or plain or verify or regrade:
            raise UsageError("--fork goes on from an attempt; it neither plays nor judges the run again")
        overrides = Overrides(**changes, device=None if device == "auto" else device)
        raise typer.Exit(run_fork(run, fork, overrides, out=out, store=store, json=json))
    idle = [f"--{name.replace('_', '-')}" for name, value in (changes | {"out": out}).items() if value is not None]
    if idle:
        raise UsageError(f"{', '.join(idle)}: only with --fork", remedy="--fork A names the attempt to go on from")
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
    redact: Annotated[bool, typer.Option("--redact", help="Without folders, and names of users and machines.")] = False,
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Write the evidence of a run into one file that anyone can check."""
    from triton_agent.runs.bundle_commands import bundle

    raise typer.Exit(bundle(run, output, redact=redact, store=store, json=json))


def verify_bundle(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `triton-agent bundle` wrote.")],
    every: Annotated[bool, typer.Option("--all", help="Judge every attempt again, not the best only.")] = False,
    hashes_only: Annotated[bool, typer.Option("--hashes-only", help="Check the bytes; judge nothing.")] = False,
    device: DEVICE = "auto",
    jobs: JOBS = 0,
    json: JSON = False,
) -> None:
    """Check every byte of an evidence bundle, then judge its kernels again on this machine, confined."""
    from triton_agent.runs.bundle_commands import verify

    raise typer.Exit(verify(file, every=every, hashes_only=hashes_only, device=device, jobs=jobs, json=json))


def clean(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WHAT]...", help="cache, scratch, data, store; without any, all but the store."),
    ] = None,
    store: STORE = None,
    yes: YES = False,
    dry_run: DRY_RUN = False,
    json: JSON = False,
) -> None:
    """Empty caches and data, after showing their sizes; the store only where it is named."""
    from triton_agent.runs.clean import run

    raise typer.Exit(run(what or (), store=store, yes=yes, dry_run=dry_run, json=json))

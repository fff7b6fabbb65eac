"""Command-line options of `data make`. Only options are here; the command imports its implementation when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

HELP = {"no_args_is_help": True, "context_settings": {"help_option_names": ["-h", "--help"]}}
data_app = typer.Typer(name="data", help="Make data to train on.", **HELP)  # type: ignore[arg-type]


def attach(app: typer.Typer) -> None:
    """Add this command to the main one."""
    app.add_typer(data_app)


@data_app.callback()
def _data() -> None:
    """Make data to train on."""


@data_app.command("make")
def make(
    out: Annotated[str, typer.Argument(metavar="OUT", help="Folder for the dataset.")],
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", help="Number of problems, including held-out ones; default: 1000."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the problems; default: 0.")] = None,
    difficulty: Annotated[
        list[str] | None,
        typer.Option(
            "--difficulty",
            metavar="D",
            help="tiny, easy, medium or hard; repeat for a mixture; default: easy, medium and hard.",
        ),
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            "--held-out", metavar="SHARE", help="Share of problems whose compositions are held out; default: 0.1."
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="FOLDER",
            help="Leave out problems similar to those in this folder; its files are read, not run; repeatable.",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="Processes that compose, and problems solved at once; 0: one per core.")
    ] = 0,
    audit: Annotated[
        bool, typer.Option("--audit", help="Audit every problem as `check-problem` does, which takes seconds for each.")
    ] = False,
    solve: Annotated[
        bool, typer.Option("--solve", help="Let the built-in author solve the problems, and write conversations.")
    ] = False,
    turns: Annotated[int, typer.Option("--turns", help="Answers of the built-in author per problem.")] = 1,
    faults: Annotated[
        int, typer.Option("--faults", metavar="K", help="Faults put into each kernel that passed, to be repaired.")
    ] = 1,
    judged: Annotated[
        float,
        typer.Option(
            "--judged",
            metavar="SHARE",
            help="Share of the problems whose answers are judged. The author's first answers to the others are taken "
            "as they are, several times as fast; default: 1.",
        ),
    ] = 1.0,
    prompt_tokens: Annotated[
        int, typer.Option("--prompt-tokens", metavar="N", help="Token limit of a conversation's prompt.")
    ] = 16_384,
    device: Annotated[
        str,
        typer.Option("--device", help="cpu: Triton's interpreter; cuda: the first visible GPU; cuda:1; auto."),
    ] = "auto",
    target: Annotated[
        str, typer.Option("--target", metavar="T", help="GPU to compile for: cuda:80, cuda:90, ...; none: skip.")
    ] = "cuda:90",
    resume: Annotated[bool, typer.Option("--resume", help="Continue with the dataset in OUT.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")] = False,
) -> None:
    """Compose training and held-out problems; with --solve also conversations with verified kernels."""
    from triton_agent.runs.data.command import MakeRequest, run

    request = MakeRequest(
        out=out,
        count=count,
        seed=seed,
        difficulties=tuple(difficulty or ()),
        held_out=held_out,
        against=tuple(against or ()),
        jobs=jobs,
        audit=audit,
        solve=solve,
        turns=turns,
        faults=faults,
        judged=judged,
        prompt_tokens=prompt_tokens,
        device=device,
        target=target,
        resume=resume,
        json=json,
    )
    raise typer.Exit(run(request))

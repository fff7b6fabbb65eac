"""Command-line options of `bench suite`, `kernelbench`, `tritonbench`, `baselines`, `table`, `compare` and `report`.

Only options are here; each command imports its implementation when it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from triton_agent.runs.cli import model_options
from triton_agent.runs.cli.shared_options import sharing

if TYPE_CHECKING:
    from triton_agent.runs.bench.command import BenchRequest

CLONE = Annotated[
    str | None,
    typer.Argument(metavar="FOLDER", help="Clone of the benchmark, or a folder in it. Not needed with --resume."),
]
NAMES = Annotated[
    list[str] | None,
    typer.Option("--problem", metavar="NAME", help="Only this problem: name, number, label or family; repeatable."),
]
POLICY = Annotated[
    str | None, typer.Option("--policy", help="Who writes the kernels, as in `optimize`; default: builtin.")
]
KERNELS = Annotated[
    str | None,
    typer.Option(
        "--kernels",
        metavar="DIR",
        help="Grade these files instead of a policy: NAME.py, NAME_0.py, NAME_1.py or NAME/*.py.",
    ),
]
ATTEMPTS = Annotated[
    int | None,
    typer.Option("--attempts", metavar="K", help="Independent attempts at each problem, for pass@k; default: 1."),
]
TURNS = Annotated[int | None, typer.Option("--turns", help="Maximum rounds of proposals per attempt; default: 12.")]
PARALLEL = Annotated[
    int | None, typer.Option("--parallel", help="Proposals per turn, and evaluations in parallel; default: 4.")
]
AT_ONCE = Annotated[
    int | None,
    typer.Option(
        "--at-once",
        metavar="N",
        help="Problems at a time on each GPU; each has the GPU alone while it is timed; default: 1 for the suite's "
        "part core, else up to 3, one for every 4 cores.",
    ),
]
BUDGET = Annotated[
    str | None, typer.Option("--budget", metavar="TIME", help="Time limit for one attempt at one problem: 90s, 10m.")
]
LIBRARY = Annotated[
    bool | None,
    typer.Option(
        "--allow-library/--own-kernels",
        help="Allow torch, cuBLAS and cuDNN to do heavy work beside an own kernel; default: own kernels.",
    ),
]
PRECISION = Annotated[
    str | None,
    typer.Option(
        "--precision",
        help="tf32: allow TF32 in kernels, reference and torch.compile; default: same.",
    ),
]
DEVICE = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="cpu: check only; cuda, cuda:1; cuda:all: spread the problems over all GPUs; auto.",
    ),
]
TARGET = Annotated[
    str | None, typer.Option("--target", metavar="T", help="GPU to compile for on a machine without one.")
]
SEED = Annotated[int | None, typer.Option("--seed", help="Seed of the search.")]
TIMEOUT = Annotated[
    float | None, typer.Option("--timeout", metavar="S", help="Time limit for one kernel, in seconds; default: 120.")
]
COMPILE_LIMIT = Annotated[
    float | None,
    typer.Option(
        "--compile-limit",
        metavar="S",
        help="Time limit for torch.compile on one problem, in seconds; default: 60. Beyond it the baseline is missing.",
    ),
]
BASELINES_AGAIN = Annotated[
    bool, typer.Option("--baselines-again", help="Measure baselines again that the record or the cache has.")
]
TRUST = Annotated[
    bool | None, typer.Option("--trust/--no-trust", help="--no-trust: run the problems' code in the sandbox as well.")
]
OUT = Annotated[
    str | None,
    typer.Option(
        "--out", metavar="DIR", help="Folder of the record; an existing one is continued. Default: ./bench-NAME."
    ),
]
RESUME = Annotated[
    str | None,
    typer.Option("--resume", metavar="DIR", help="Continue a record with the options it was started with."),
]
SHARD = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Only every N-th problem, starting at the I-th; join the folders with `bench table`.",
    ),
]
STORE = Annotated[
    str | None,
    typer.Option("--store", metavar="WHERE", help="Store for the attempts; default: runs.db in the record's folder."),
]
JSON = Annotated[
    bool, typer.Option("--json", help="Print rows and a summary as JSON lines on stdout, and nothing else there.")
]
ANYWAY = Annotated[bool, typer.Option("--anyway", help="Compare even if problems, GPUs or modes differ.")]
QUICK = Annotated[bool, typer.Option("--quick", help="Only a third of the suite, with every kind of problem in it.")]
PART = Annotated[
    str | None,
    typer.Option(
        "--part",
        metavar="PART",
        help="core: 120 problems of 0.02 to 20 ms; large: 58 with tensors of gigabytes; default: core.",
    ),
]

SHARED: dict[str, tuple[Any, Any]] = {
    "policy": (POLICY, None),
    "kernels": (KERNELS, None),
    "attempts": (ATTEMPTS, None),
    "turns": (TURNS, None),
    "parallel": (PARALLEL, None),
    "at_once": (AT_ONCE, None),
    "budget": (BUDGET, None),
    "allow_library": (LIBRARY, None),
    "precision": (PRECISION, None),
    "device": (DEVICE, None),
    "target": (TARGET, None),
    "seed": (SEED, None),
    "timeout": (TIMEOUT, None),
    "compile_limit": (COMPILE_LIMIT, None),
    "baselines_again": (BASELINES_AGAIN, False),
    "trust": (TRUST, None),
    "out": (OUT, None),
    "resume": (RESUME, None),
    "shard": (SHARD, None),
    "store": (STORE, None),
    "json": (JSON, False),
    **model_options.OPTIONS,
}
"""Options of every command that runs a benchmark: annotation and default by name."""

bench_app = typer.Typer(
    name="bench",
    help="Measure policies and kernels on many problems.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def attach(app: typer.Typer) -> None:
    """Add these commands to the main one."""
    app.add_typer(bench_app)


@bench_app.command("suite")
@sharing(SHARED)
def suite(said: dict[str, Any], part: PART = None, quick: QUICK = False, problem: NAMES = None) -> None:
    """Run the project's own frozen problems."""
    from triton_agent.runs.cli.pace import waiting

    with waiting("loading torch"):
        from triton_agent.runs.bench.command import run
    from triton_agent.runs.bench.problems import of_suite, part_before

    part = part or part_before(said["resume"])
    selection = of_suite(quick=quick, names=_names(problem, said["resume"]), part=part)
    raise typer.Exit(run(selection, _request(said)))


@bench_app.command("kernelbench")
@sharing(SHARED)
def kernelbench(
    said: dict[str, Any],
    folder: CLONE = None,
    level: Annotated[str | None, typer.Option("--level", metavar="L", help="1, or 1,2,3; default: all.")] = None,
    problem: NAMES = None,
    protocol: Annotated[
        str | None,
        typer.Option("--protocol", help="original: add KernelBench's own, weaker check; default: verified."),
    ] = None,
) -> None:
    """Run problems in KernelBench's layout, judged by this project's rules."""
    groups = [f"level{number}" for number in _listed(level)]
    raise typer.Exit(_clone(folder, "kernelbench", groups, problem, {**said, "protocol": protocol}))


@bench_app.command("tritonbench")
@sharing(SHARED)
def tritonbench(
    said: dict[str, Any],
    folder: CLONE = None,
    channel: Annotated[str | None, typer.Option("--channel", metavar="C", help="g, t, or g,t; default: all.")] = None,
    problem: NAMES = None,
) -> None:
    """Run problems in TritonBench's layout, judged by this project's rules. Channel G needs a GPU."""
    groups = [name.upper() for name in _listed(channel)]
    raise typer.Exit(_clone(folder, "tritonbench", groups, problem, said))


@bench_app.command("baselines")
def baselines(
    part: PART = None,
    quick: QUICK = False,
    problem: NAMES = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE.csv", help="CSV file with a row per problem.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure again what this machine measured before.")] = False,
    compile_limit: Annotated[
        float, typer.Option("--compile-limit", metavar="S", help="Time limit for torch.compile on one problem.")
    ] = 60.0,
    device: Annotated[
        str, typer.Option("--device", help="auto: the first visible GPU; cuda:1, cuda:0,2, cuda:all: GPUs to use.")
    ] = "auto",
    json: JSON = False,
) -> None:
    """Time the suite's references on this machine's GPU: as written, in TF32, under torch.compile."""
    from triton_agent.runs.bench.baselines.table import run
    from triton_agent.runs.bench.problems import of_suite
    from triton_agent.runs.bench.suite import CORE

    selection = of_suite(quick=quick, names=tuple(problem or ()), part=part or CORE)
    raise typer.Exit(run(selection, device=device, out=out, again=again, compile_limit_s=compile_limit, json=json))


@bench_app.command("table")
def table(
    folder: Annotated[list[str], typer.Argument(metavar="DIR...", help="A record, or its shards.")],
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", help="Folder for the joined record.")] = None,
    json: JSON = False,
) -> None:
    """Show the tables of a record, or of its shards joined."""
    from triton_agent.runs.bench.joining import run

    raise typer.Exit(run(folder, out=out, json=json))


@bench_app.command("compare")
def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A record.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Another record of the same problems.")],
    baseline: Annotated[
        str, typer.Option("--baseline", metavar="B", help="Baseline of the speed-ups: eager, eager-tf32, compile.")
    ] = "eager",
    time: Annotated[str, typer.Option("--time", metavar="KIND", help="Time to compare: device or latency.")] = "device",
    anyway: ANYWAY = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")
    ] = False,
) -> None:
    """Compare two records problem by problem, and say whether a difference could be noise."""
    from triton_agent.runs.bench.compare.command import run

    raise typer.Exit(run(before, after, against=baseline, kind=time, anyway=anyway, json=json))


@bench_app.command("report")
def report(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A record.")],
    other: Annotated[str | None, typer.Argument(metavar="OTHER", help="A second record to compare with.")] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="File to write; default: report.html in the record; -: stdout."
        ),
    ] = None,
    anyway: ANYWAY = False,
) -> None:
    """Write a record, or the comparison of two, as one self-contained HTML page."""
    from triton_agent.runs.bench.page.command import run

    raise typer.Exit(run(folder, other, output=output, anyway=anyway))


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _clone(folder: str | None, name: str, groups: list[str], problem: list[str] | None, said: dict[str, Any]) -> int:
    from pathlib import Path

    from triton_agent.runs.cli.pace import waiting

    with waiting("loading torch"):
        from triton_agent.runs.bench.command import run
    from triton_agent.runs.bench.problems import of_clone
    from triton_agent.runs.bench.public.layouts import Benchmark
    from triton_agent.runs.bench.rows import read_record
    from triton_agent.tools.errors import UsageError

    resume = said["resume"]
    folder = folder or (str(read_record(Path(resume)).head.settings.get("clone", "")) if resume else "")
    if not folder:
        raise UsageError("no folder of problems", remedy=f"name a clone of the benchmark: bench {name} FOLDER")
    selection = of_clone(Path(folder), Benchmark(name), groups, names=_names(problem, resume))
    return run(selection, _request({**said, "clone": str(Path(folder).resolve())}))


def _names(problem: list[str] | None, resume: str | None) -> tuple[str, ...]:
    """Return the problems as given or, for a record that is continued, as recorded."""
    from pathlib import Path

    from triton_agent.runs.bench.rows import read_record

    return tuple(problem or (read_record(Path(resume)).head.labels if resume else ()))


def _request(said: dict[str, Any]) -> BenchRequest:
    """Separate the options for language models from the others."""
    from triton_agent.runs.bench.command import BenchRequest

    model = {name: said[name] for name in model_options.OPTIONS if said[name] not in (None, False)}
    others = {name: value for name, value in said.items() if name not in model_options.OPTIONS}
    return BenchRequest(**others, model=model)

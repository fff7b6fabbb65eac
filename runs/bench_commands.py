"""Commands that benchmark: `bench suite`, `kernelbench`, `tritonbench`, `baselines`, `table`, `compare`, `report`.

Only their words and options stand here; each imports what it does when it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from triton_agent.runs import model_options
from triton_agent.runs.shared_options import sharing

if TYPE_CHECKING:
    from triton_agent.runs.bench.command import BenchRequest

CLONE = Annotated[
    str | None,
    typer.Argument(metavar="FOLDER", help="A clone of the benchmark, or a part of one. --resume knows its folder."),
]
NAMES = Annotated[
    list[str] | None,
    typer.Option("--problem", metavar="NAME", help="Only this one: name, number, label or family; repeat for more."),
]
POLICY = Annotated[str | None, typer.Option("--policy", help="Who writes, as in `optimize`; default: builtin.")]
KERNELS = Annotated[
    str | None,
    typer.Option(
        "--kernels", metavar="DIR", help="Grade these files instead: NAME.py, NAME_0.py, NAME_1.py or NAME/*.py."
    ),
]
ATTEMPTS = Annotated[
    int | None,
    typer.Option("--attempts", metavar="K", help="Independent goes at each problem, for pass@k; default: 1."),
]
TURNS = Annotated[int | None, typer.Option("--turns", help="Rounds of proposals at most in one go; default: 12.")]
PARALLEL = Annotated[
    int | None, typer.Option("--parallel", help="Proposals in a round, and evaluations at once; default: 4.")
]
AT_ONCE = Annotated[
    int | None,
    typer.Option(
        "--at-once",
        metavar="N",
        help="Problems side by side on each GPU; each is timed with it to itself; default: 1.",
    ),
]
BUDGET = Annotated[str | None, typer.Option("--budget", metavar="TIME", help="Of one go at one problem: 90s, 10m.")]
LIBRARY = Annotated[
    bool | None,
    typer.Option(
        "--allow-library/--own-kernels",
        help="Whether torch, cuBLAS and cuDNN may do heavy work beside an own kernel; default: own kernels.",
    ),
]
PRECISION = Annotated[
    str | None,
    typer.Option(
        "--precision",
        help="tf32: float32 products may run in TF32, the original's and torch.compile's as well; default: same.",
    ),
]
DEVICE = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="cpu: right or wrong, no speed; cuda, cuda:1; cuda:all: the problems shared out among all; auto.",
    ),
]
TARGET = Annotated[str | None, typer.Option("--target", metavar="T", help="What kernels compile for without a GPU.")]
SEED = Annotated[int | None, typer.Option("--seed", help="Equal seeds search alike.")]
TIMEOUT = Annotated[
    float | None, typer.Option("--timeout", metavar="S", help="Seconds a kernel may take; default: 120.")
]
TRUST = Annotated[
    bool | None, typer.Option("--trust/--no-trust", help="--no-trust: confine the problems' own code as well.")
]
OUT = Annotated[
    str | None, typer.Option("--out", metavar="DIR", help="The record; the same folder goes on. Default: ./bench-NAME.")
]
RESUME = Annotated[
    str | None,
    typer.Option("--resume", metavar="DIR", help="Go on with a record, under the options it was begun with."),
]
SHARD = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/N", help="Every N-th problem from the I-th; folders are joined later."),
]
STORE = Annotated[
    str | None,
    typer.Option("--store", metavar="WHERE", help="For the attempts; default: runs.db in the record's folder."),
]
JSON = Annotated[bool, typer.Option("--json", help="Rows and a summary as JSON lines on stdout, nothing else there.")]
ANYWAY = Annotated[
    bool, typer.Option("--anyway", help="Compare also where other problems, GPUs or modes make other figures.")
]
QUICK = Annotated[bool, typer.Option("--quick", help="A third of the suite, of every kind something.")]

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
    "trust": (TRUST, None),
    "out": (OUT, None),
    "resume": (RESUME, None),
    "shard": (SHARD, None),
    "store": (STORE, None),
    "json": (JSON, False),
    **model_options.OPTIONS,
}
"""Of every command that runs a benchmark: annotation and default by name."""

bench_app = typer.Typer(
    name="bench",
    help="Measure policies and kernels on many problems at once.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def attach(app: typer.Typer) -> None:
    """Give the main command these commands."""
    app.add_typer(bench_app)


@bench_app.command("suite")
@sharing(SHARED)
def suite(said: dict[str, Any], quick: QUICK = False, problem: NAMES = None) -> None:
    """This project's own 120 problems, frozen."""
    from triton_agent.runs.bench.command import run
    from triton_agent.runs.bench.problems import of_suite

    selection = of_suite(quick=quick, names=_names(problem, said["resume"]))
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
        typer.Option(
            "--protocol", help="original: tell KernelBench's own, weaker check beside ours; default: verified."
        ),
    ] = None,
) -> None:
    """Problems in KernelBench's layout, judged by this project's rules."""
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
    """Problems in TritonBench's layout, judged by this project's rules. Channel G needs a GPU."""
    groups = [name.upper() for name in _listed(channel)]
    raise typer.Exit(_clone(folder, "tritonbench", groups, problem, said))


@bench_app.command("baselines")
def baselines(
    quick: QUICK = False,
    problem: NAMES = None,
    out: Annotated[str | None, typer.Option("--out", metavar="FILE.csv", help="A line for each problem.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure anew what this machine measured before.")] = False,
    device: Annotated[
        str, typer.Option("--device", help="auto: the first visible GPU; cuda:1, cuda:0,2, cuda:all: these share it.")
    ] = "auto",
    json: JSON = False,
) -> None:
    """The suite's originals alone on this machine's GPU: as written, in TF32, by torch.compile."""
    from triton_agent.runs.bench.baseline_table import run
    from triton_agent.runs.bench.problems import of_suite

    selection = of_suite(quick=quick, names=tuple(problem or ()))
    raise typer.Exit(run(selection, device=device, out=out, again=again, json=json))


@bench_app.command("table")
def table(
    folder: Annotated[list[str], typer.Argument(metavar="DIR...", help="Records: one, or the shards of one.")],
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", help="Where the joined record goes.")] = None,
    json: JSON = False,
) -> None:
    """The tables of a record, or of its shards put together."""
    from triton_agent.runs.bench.joining import run

    raise typer.Exit(run(folder, out=out, json=json))


@bench_app.command("compare")
def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A record.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Another one of the same problems.")],
    baseline: Annotated[
        str, typer.Option("--baseline", metavar="B", help="Speed over: eager, eager-tf32, compile.")
    ] = "eager",
    time: Annotated[str, typer.Option("--time", metavar="KIND", help="device or latency.")] = "device",
    anyway: ANYWAY = False,
    json: Annotated[bool, typer.Option("--json", help="One object on stdout and nothing else there.")] = False,
) -> None:
    """What changed between two records, problem by problem, and whether it could be noise."""
    from triton_agent.runs.bench.compare_command import run

    raise typer.Exit(run(before, after, against=baseline, kind=time, anyway=anyway, json=json))


@bench_app.command("report")
def report(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A record.")],
    other: Annotated[str | None, typer.Argument(metavar="OTHER", help="Compared with it, where given.")] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Default: report.html in the record; - for stdout."),
    ] = None,
    anyway: ANYWAY = False,
) -> None:
    """A record, or the comparison of two, as one HTML page that needs nothing beside it."""
    from triton_agent.runs.bench.page_command import run

    raise typer.Exit(run(folder, other, output=output, anyway=anyway))


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _clone(folder: str | None, name: str, groups: list[str], problem: list[str] | None, said: dict[str, Any]) -> int:
    from pathlib import Path

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
    """As said; else, of a record that goes on, the problems that it is of."""
    from pathlib import Path

    from triton_agent.runs.bench.rows import read_record

    return tuple(problem or (read_record(Path(resume)).head.labels if resume else ()))


def _request(said: dict[str, Any]) -> BenchRequest:
    """Options of language models apart from the others."""
    from triton_agent.runs.bench.command import BenchRequest

    model = {name: said[name] for name in model_options.OPTIONS if said[name] not in (None, False)}
    others = {name: value for name, value in said.items() if name not in model_options.OPTIONS}
    return BenchRequest(**others, model=model)

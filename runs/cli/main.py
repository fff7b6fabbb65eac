"""The command `triton-agent`: lists the commands and turns every outcome into an exit code.

Nothing heavy is imported here; each command imports what it needs when it runs.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from triton_agent import __version__
from triton_agent.memory.errors import StoreError
from triton_agent.runs.bench import commands as bench_commands
from triton_agent.runs.cli import config_file, exit_codes, model_options
from triton_agent.runs.cli.shared_options import sharing
from triton_agent.runs.data import commands as data_commands
from triton_agent.runs.history import commands as history_commands
from triton_agent.runs.train import commands as train_commands
from triton_agent.tools.errors import InstrumentError, TritonAgentError, UsageError

app = typer.Typer(
    name="triton-agent",
    help="Turn PyTorch modules into verified, faster Triton kernels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"triton-agent {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of `triton-agent` itself, before a command."""


PROBLEM = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM", help="file.py with Model, get_inputs, get_init_inputs; or file.py:ClassName with --input."
    ),
]
INIT = Annotated[
    str | None,
    typer.Option("--init", metavar="ARGS", help='Constructor arguments: "512, bias=False", "Config(width=256), 8".'),
]
INPUT = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="SPEC",
        help='One input: "f16[8,128,1024]", "i64[8]<1000", a plain value such as 5 or None, or "pos=5" by keyword; '
        "repeat in order.",
    ),
]
INPUTS = Annotated[str | None, typer.Option("--inputs", metavar="FILE.pt", help="Inputs saved with torch.save.")]
CAPTURED = Annotated[
    list[str] | None,
    typer.Option("--inputs", metavar="FILE.pt", help="Inputs saved with torch.save; each repetition is another set."),
]
SETS = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[NAME=]SPECS[@WEIGHT]",
        help='One of several sets of inputs: "f32[1,1024]" or "long=f32[64,1024]; i64[64]<50 @3"; repeatable. '
        "A kernel has to be right for all of them; speed-ups are averaged by weight.",
    ),
]
TRUST = Annotated[
    bool, typer.Option("--trust/--no-trust", help="--no-trust: run the problem file in the sandbox as well.")
]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")]


@app.command()
def evaluate(
    problem: PROBLEM,
    kernels: Annotated[list[str], typer.Argument(metavar="KERNEL...", help="Kernel files with a class ModelNew.")],
    init: INIT = None,
    inputs: INPUT = None,
    inputs_files: CAPTURED = None,
    sets: SETS = None,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            help="cpu: Triton's interpreter; cuda: the first visible GPU; cuda:1: the second; auto: a GPU if found.",
        ),
    ] = "auto",
    target: Annotated[
        str,
        typer.Option("--target", metavar="T", help="GPU to compile for: cuda:80, cuda:90, gfx942, ...; none: skip."),
    ] = "cuda:90",
    allow_library: Annotated[
        bool,
        typer.Option("--allow-library", help="Allow torch, cuBLAS and cuDNN to do heavy work beside an own kernel."),
    ] = False,
    mode: Annotated[str, typer.Option("--mode", help="Module mode: eval, train, or both where they differ.")] = "both",
    shapes: Annotated[
        str, typer.Option("--shapes", help="family: check at other sizes as well; given: only at the sizes given.")
    ] = "family",
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", help="Time limit for one kernel, in seconds.")
    ] = 120.0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Kernels evaluated at once; 0: one per core.")] = 0,
    require_sandbox: Annotated[
        bool, typer.Option("--require-sandbox", help="Fail if a layer of the sandbox is missing.")
    ] = False,
    screen: Annotated[
        bool,
        typer.Option("--screen/--no-screen", help="Refuse obviously wrong files by their text, before anything runs."),
    ] = True,
    precision: Annotated[
        str,
        typer.Option(
            "--precision",
            help="same: torch's defaults; tf32: allow TF32 in the reference, the baselines and the kernels.",
        ),
    ] = "same",
    autocast: Annotated[
        str | None,
        typer.Option("--autocast", metavar="DTYPE", help="Call forward under autocast: float16 or bfloat16."),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            metavar="NAME",
            help="Additional baseline: tf32-eager, compile, compile-reduce-overhead, compile-max-autotune; repeatable.",
        ),
    ] = None,
    max_memory_ratio: Annotated[
        float | None,
        typer.Option(
            "--max-memory-ratio", metavar="R", help="Refuse kernels that use more than R times the reference's memory."
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="On a GPU, show where the device time of passing kernels goes.")
    ] = False,
    trust: TRUST = True,
    json: JSON = False,
) -> None:
    """Evaluate kernels: correctness, compilation and, on a GPU, speed. One verdict each."""
    from triton_agent.runs.cli.given_calls import calls_from
    from triton_agent.runs.evaluate.command import EvaluateRequest, run

    calls = calls_from(inputs, inputs_files, sets)
    request = EvaluateRequest(
        problem=problem,
        kernels=tuple(kernels),
        init=init,
        inputs=calls.inputs,
        inputs_file=calls.inputs_file,
        sets=calls.sets,
        device=device,
        target=target,
        allow_library=allow_library,
        mode=mode,
        shapes=shapes,
        timeout_s=timeout,
        jobs=jobs,
        require_sandbox=require_sandbox,
        screen=screen,
        precision=precision,
        autocast=autocast,
        baselines=tuple(dict.fromkeys(baseline or ())),
        max_memory_ratio=max_memory_ratio,
        profile=profile,
        trust=trust,
        json=json,
    )
    raise typer.Exit(run(request))


STORE = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="WHERE",
        help="Store file or postgresql:// URL; default: $TRITON_AGENT_STORE, else a file in your data folder.",
    ),
]
OUT = Annotated[
    str | None, typer.Option("--out", metavar="DIR", help="Folder for the shipped file and the report; default: ./RUN.")
]
CUDA_GRAPH = Annotated[
    bool,
    typer.Option(
        "--cuda-graph", help="The file replays its calls as CUDA graphs: less work for the host, memory for each call."
    ),
]


@app.command()
@sharing(model_options.OPTIONS)
def optimize(
    said: dict[str, Any],
    problem: Annotated[
        str | None,
        typer.Argument(metavar="PROBLEM", help="file.py with Model, get_inputs; or file.py:ClassName with --input."),
    ] = None,
    init: INIT = None,
    inputs: INPUT = None,
    inputs_files: CAPTURED = None,
    sets: SETS = None,
    dynamic: Annotated[
        list[str] | None,
        typer.Option(
            "--dynamic",
            metavar="RANGE",
            help='Range of a size that changes from call to call: "batch=1..256" for the leading dimension, '
            '"x.1=128..4096" for dimension 1 of argument x; "batch" alone: from 1 to the size given; repeatable.',
        ),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            help="Who writes the kernels: builtin, scripted:DIR, openai:MODEL, vllm:MODEL, hf:DIR, "
            "chat:PROVIDER:MODEL, "
            "own:FILE.py:CLASS; comma-separated for several.",
        ),
    ] = "builtin",
    device: Annotated[
        str,
        typer.Option(
            "--device",
            help="cpu: interpreter, the result is a draft; cuda, cuda:0,1, cuda:all: GPUs to use; auto.",
        ),
    ] = "auto",
    target: Annotated[str, typer.Option("--target", metavar="T", help="GPU that drafts are compiled for.")] = "cuda:90",
    own_kernels: Annotated[
        bool,
        typer.Option("--own-kernels", help="Forbid library calls beside own kernels, as in training and benchmarks."),
    ] = False,
    cuda_graph: CUDA_GRAPH = False,
    parts: Annotated[
        bool, typer.Option("--parts", help="Optimize the most expensive submodules one by one, then put them together.")
    ] = False,
    turns: Annotated[int, typer.Option("--turns", help="Maximum number of rounds of proposals.")] = 12,
    parallel: Annotated[int, typer.Option("--parallel", help="Proposals per turn, and evaluations in parallel.")] = 4,
    budget: Annotated[str | None, typer.Option("--budget", metavar="TIME", help="Time limit: 90s, 10m, 1h.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", help="Token limit for the language model over the whole run.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", help="Cost limit, in the currency of --price.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the search.")] = 0,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", help="Time limit for one kernel, in seconds.")
    ] = 120.0,
    trust: TRUST = True,
    out: OUT = None,
    resume: Annotated[str | None, typer.Option("--resume", metavar="RUN", help="Continue an interrupted run.")] = None,
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Turn a module into a drop-in file with Triton kernels: verified and, on a GPU, measured faster."""
    from triton_agent.runs.cli.devices import early_nursery
    from triton_agent.runs.cli.given_calls import calls_from
    from triton_agent.runs.cli.pace import waiting
    from triton_agent.runs.optimize.request import requested

    calls = calls_from(inputs, inputs_files, sets)
    given = {
        "problem": problem,
        "init": init,
        "inputs": calls.inputs,
        "inputs_file": calls.inputs_file,
        "sets": calls.sets,
        "dynamic": tuple(dynamic or ()),
        "policy": policy,
        "device": device,
        "target": target,
        "own_kernels": own_kernels,
        "cuda_graph": cuda_graph,
        "parts": parts,
        "turns": turns,
        "parallel": parallel,
        "budget": budget,
        "max_tokens": max_tokens,
        "max_cost": max_cost,
        "seed": seed,
        "timeout_s": timeout,
        "trust": trust,
        **said,
    }
    if not resume:
        requested(given)  # what is wrong with it is said before the seconds that imports take
    with early_nursery(device) as nursery:
        with waiting("loading torch"):
            from triton_agent.runs.optimize.command import run  # takes seconds, and so does what has begun

        code = run(given, out=out, resume=resume, store=store, json=json, nursery=nursery)
    raise typer.Exit(code)


RUN = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, its first characters, or `last`.")]


@app.command()
def promote(run: RUN, cuda_graph: CUDA_GRAPH = False, out: OUT = None, store: STORE = None, json: JSON = False) -> None:
    """Measure the drafts of a run on this machine's GPU and ship the best if it is faster than the reference."""
    from triton_agent.runs.optimize.command import run_promote

    raise typer.Exit(run_promote(run, cuda_graph=cuda_graph, out=out, store=store, json=json))


@app.command()
def verify(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that optimize wrote.")],
    problem: Annotated[
        str | None,
        typer.Argument(metavar="PROBLEM", help="The problem, written as for optimize; default: that of FILE's run."),
    ] = None,
    init: INIT = None,
    inputs: INPUT = None,
    inputs_file: INPUTS = None,
    device: Annotated[
        str, typer.Option("--device", help="cpu: correctness only; cuda: the first visible GPU; cuda:1; auto.")
    ] = "auto",
    trust: TRUST = True,
    store: STORE = None,
    json: JSON = False,
) -> None:
    """Judge a shipped file again, measure it on this machine's GPU, and write the result into it."""
    from triton_agent.runs.ship.command import VerifyRequest, run

    given = (problem, init, tuple(inputs or ()), inputs_file)
    raise typer.Exit(run(VerifyRequest(file=file, problem=given, device=device, trust=trust, store=store, json=json)))


@app.command()
def report(
    run: RUN,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="File to write; default: RUN.html; -: stdout.")
    ] = None,
    store: STORE = None,
) -> None:
    """Write a run as one self-contained HTML page."""
    from triton_agent.runs.report.command import run as write

    raise typer.Exit(write(run, output=output, store=store))


@app.command()
def view(
    port: Annotated[int, typer.Option("--port", help="Port on 127.0.0.1; 0: a free one.")] = 7391,
    folder: Annotated[
        list[str] | None,
        typer.Option(
            "--folder",
            metavar="DIR",
            help="Folder with benchmark records and training runs; repeatable; default: here.",
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Let the page start commands: fork, judge again, promote.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="With --write: folder for shipped files; default: view."),
    ] = None,
    store: STORE = None,
) -> None:
    """Show runs, attempts, benchmarks and trainings in the browser, live, on this machine only."""
    from triton_agent.runs.serve.command import run as serve

    raise typer.Exit(serve(store=store, port=port, folders=folder or (), write=write, out=out))


@app.command("check-problem")
def check_problem(
    problem: PROBLEM,
    init: INIT = None,
    inputs: INPUT = None,
    inputs_file: INPUTS = None,
    trust: TRUST = True,
    json: JSON = False,
) -> None:
    """Check whether a problem refuses wrong answers, and name those it accepts."""
    from triton_agent.runs.evaluate.check_problem import run

    given = tuple(inputs or ())
    raise typer.Exit(run(problem, init=init, inputs=given, inputs_file=inputs_file, json=json, trust=trust))


@app.command()
@sharing(model_options.OPTIONS)
def mcp(
    said: dict[str, Any],
    root: Annotated[
        list[str] | None,
        typer.Option("--root", metavar="DIR", help="Folder whose files clients may name; repeatable; default: here."),
    ] = None,
    http: Annotated[
        int | None,
        typer.Option("--http", metavar="PORT", help="Serve HTTP on 127.0.0.1 instead of stdio; 0: a free port."),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Folder for shipped files; default: the first --root.")
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            help="cpu: Triton's interpreter; cuda: the first visible GPU; cuda:1: the second; auto: a GPU if found.",
        ),
    ] = "auto",
    target: Annotated[str, typer.Option("--target", metavar="T", help="GPU that drafts are compiled for.")] = "cuda:90",
    policy: Annotated[
        str, typer.Option("--policy", help="Who writes the kernels of an optimization, as for `optimize`.")
    ] = "builtin",
    trust: Annotated[
        bool,
        typer.Option("--trust/--no-trust", help="--trust: run problem files with your rights, outside the sandbox."),
    ] = False,
    store: STORE = None,
) -> None:
    """Serve verdicts, audits and optimizations to coding agents, as tools of the Model Context Protocol."""
    from triton_agent.runs.mcp.command import run

    code = run(
        roots=root or (),
        http=http,
        out=out,
        device=device,
        target=target,
        policy=policy,
        store=store,
        trust=trust,
        model_options=said,
    )
    raise typer.Exit(code)


@app.command()
def examples(
    folder: Annotated[str, typer.Argument(metavar="[DIR]", help="Folder to write to.")] = "examples",
) -> None:
    """Write the example problems and kernels into a folder."""
    from triton_agent.runs.cli.examples import run

    raise typer.Exit(run(folder))


@app.command()
def config(ctx: typer.Context, json: JSON = False) -> None:
    """Show the settings in force in this folder, and where each comes from: environment, file or default."""
    from triton_agent.runs.cli.config_page import run

    raise typer.Exit(run(ctx.find_root().command, json=json))


@app.command()
def doctor(json: JSON = False) -> None:
    """Show what this machine can do, and what to install for more."""
    from triton_agent.runs.doctor.command import run

    raise typer.Exit(run(json=json))


history_commands.attach(app)
train_commands.attach(app)
data_commands.attach(app)
bench_commands.attach(app)


WRONG_USAGE: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""Base class of the parser's errors: click's or, in newer versions, typer's own copy of it."""


def main() -> None:
    """Run the command line; every outcome becomes an exit code, never a bare traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file's name need not be text in the terminal's encoding
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # a signal that nohup ignores stays ignored
            signal.signal(number, signal.default_int_handler)  # exit as after Ctrl-C, which ends child processes
    code = _guarded()
    if os.environ.get("WORLD_SIZE", "1") != "1" and "torch.distributed" in sys.modules:
        # Python's end may abort one of several processes over a thread of their group, although its work is done.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _guarded() -> int:
    try:
        tree = typer.main.get_command(app)
        config_file.listen_to_environment(tree)
        result = tree(standalone_mode=False, default_map=_defaults_from_file(tree, sys.argv[1:]))
        if result == exit_codes.INTERRUPTED:  # newer versions of typer return this for a KeyboardInterrupt
            raise KeyboardInterrupt
        return result if isinstance(result, int) else exit_codes.GOOD
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted")
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # typer turns a BrokenPipeError into SystemExit
            return _reader_gone()
        return leaving.code if isinstance(leaving.code, int) else exit_codes.GOOD
    except WRONG_USAGE as error:
        error.show(sys.stderr)
        return exit_codes.USAGE
    except UsageError as error:
        _say(f"error: {error}")
        return exit_codes.USAGE
    except InstrumentError as error:
        _say(f"could not measure: {error}")
        return exit_codes.NOT_MEASURED
    except StoreError as error:
        _say(f"the store: {error}")
        return exit_codes.NOT_MEASURED
    except OSError as error:
        return _machine_trouble(error)
    except Exception as error:
        return _bug(error)


def _defaults_from_file(tree: Any, arguments: list[str]) -> dict[str, Any]:
    """Return the defaults that the nearest configuration file sets, and name on stderr those that this command uses."""
    if not config_file.is_read_for(arguments):
        return {}
    file, warnings = config_file.find(Path.cwd())
    for warning in warnings:
        _say(f"warning: {warning}")
    if file is None:
        return {}
    found = config_file.defaults(file, tree)
    used: Any = found
    for word in arguments:
        used = used.get(word, used) if isinstance(used, dict) and isinstance(used.get(word), dict) else used
    if names := [name.replace("_", "-") for name, value in used.items() if not isinstance(value, dict)]:
        _say(f"defaults from {file.path}: {', '.join(names)}")
    return found


def _reader_gone() -> int:
    """Silence the flush at exit after the reader has closed the pipe (`| head`)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return exit_codes.GOOD


def _machine_trouble(error: OSError) -> int:
    """Report a full disk or missing rights as the machine's failure; anything else is a bug."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EMFILE, errno.ENOMEM):
        scratch = os.environ.get("TMPDIR", "/tmp")
        remedy = "see `ulimit -n` and `free -h`"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = f"free some space on the disk that is written to; temporary files go to TMPDIR, now {scratch}"
        elif error.errno in (errno.EACCES, errno.EROFS):
            remedy = f"name a folder that you may write to: --out, --store, or TMPDIR, now {scratch}"
        _say(f"could not continue: {error.strerror}: {error.filename or 'while writing'}\n  {remedy}")
        return exit_codes.NOT_MEASURED
    return _bug(error)


def _bug(error: Exception) -> int:
    """Print one line and write the traceback to a file."""
    kind = "" if not isinstance(error, TritonAgentError) else f"{type(error).__name__}: "
    story = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="triton-agent-bug-", suffix=".txt", delete=False) as file:
            file.write(story)
        where = f"\n  the traceback is in {file.name}; please report it"
    except OSError:
        where = f"\n{story}"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    _say(f"a bug in triton-agent: {kind}{type(error).__name__}: {lines[-1]}{where}")
    return exit_codes.BUG


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    main()

"""`triton-agent evaluate`: prints verdicts on kernels, as a table or, with `--json`, one object per line."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.devices import choose_one
from triton_agent.runs.evaluate import speed_page
from triton_agent.runs.report.words import traffic_said
from triton_agent.runs.ship.artefact import forced, is_shipped
from triton_agent.tools.compile.targets import parse_target
from triton_agent.tools.errors import InstrumentError, TritonAgentError, UsageError
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, evaluator_for
from triton_agent.tools.problem.facts import ProblemFacts
from triton_agent.tools.problem.input_spec import InputSet
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.processes.torch_switches import AUTOCASTS, PRECISIONS
from triton_agent.tools.race.baseline_names import BASELINE_NAMES
from triton_agent.tools.results import Evaluation, Status, to_json
from triton_agent.tools.settings import EvaluatorSettings, Profiling
from triton_agent.tools.versions import require_supported

MODES = {"eval": ("eval",), "train": ("train",), "both": ("eval", "train")}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateRequest:
    problem: str
    kernels: tuple[str, ...]
    init: str | None
    inputs: tuple[str, ...]
    inputs_file: str | None
    device: str
    target: str
    allow_library: bool
    mode: str
    shapes: str
    timeout_s: float
    jobs: int
    require_sandbox: bool
    screen: bool
    json: bool
    precision: str = "same"
    autocast: str | None = None
    baselines: tuple[str, ...] = ()
    max_memory_ratio: float | None = None
    profile: bool = False
    trust: bool = True
    sets: tuple[InputSet, ...] = ()

    def spec(self) -> ProblemSpec:
        """Parse the problem."""
        return parse_problem(
            self.problem, init=self.init, inputs=self.inputs, inputs_file=self.inputs_file, sets=self.sets
        )


Verdict = Evaluation | InstrumentError


def run(request: EvaluateRequest) -> int:
    """Evaluate every kernel; the exit code is that of the worst."""
    for warning in require_supported():
        console.progress().print(f"warning: {warning}")
    settings = settings_from(request)
    sources = [(path, read_kernel(path)) for path in request.kernels]
    spec = request.spec()
    began = time.perf_counter()
    with _Screen(len(sources)) as screen, evaluator_for(spec, settings, say=screen.say) as evaluator:
        verdicts: list[tuple[str, Verdict]] = []
        for path, verdict in _evaluate_all(evaluator, sources, request.jobs or os.cpu_count() or 1, screen):
            verdicts.append((path, verdict))
            if request.json:
                print(json.dumps(as_json(path, verdict, evaluator.facts), allow_nan=False), flush=True)
        facts = evaluator.facts
    if not request.json:
        _show(verdicts, facts, request, time.perf_counter() - began)
    return _exit_code([verdict for _, verdict in verdicts])


def settings_from(request: EvaluateRequest) -> EvaluatorSettings:
    if request.mode not in MODES:
        raise UsageError(f"--mode {request.mode}", remedy=f"one of {', '.join(MODES)}")
    if request.shapes not in ("family", "given"):
        raise UsageError(f"--shapes {request.shapes}", remedy="family or given")
    if request.jobs < 0:
        raise UsageError(f"--jobs {request.jobs}", remedy="a number of kernels; 0: as many as cores")
    if not 0 < request.timeout_s < math.inf:
        raise UsageError(f"--timeout {request.timeout_s:g}", remedy="a positive number of seconds")
    _require_known(request)
    if request.target != "none":
        parse_target(request.target)
    chosen = choose_one(request.device, "kernels are compared on one card")
    return EvaluatorSettings(
        device=chosen.device,
        card=chosen.uuids[0],
        target=None if request.target == "none" else request.target,
        allow_library=request.allow_library,
        modes=MODES[request.mode],
        shapes=request.shapes,
        require_sandbox=request.require_sandbox,
        screen=request.screen,
        precision=request.precision,
        autocast=request.autocast or "",
        baselines=request.baselines,
        max_memory_ratio=request.max_memory_ratio,
        profile=Profiling.ALL if request.profile else Profiling.NONE,
        trust=request.trust,
    ).within(request.timeout_s)


def _require_known(request: EvaluateRequest) -> None:
    if request.precision not in PRECISIONS:
        raise UsageError(f"--precision {request.precision}", remedy=" or ".join(PRECISIONS))
    if request.autocast is not None and request.autocast not in AUTOCASTS:
        raise UsageError(f"--autocast {request.autocast}", remedy=" or ".join(AUTOCASTS))
    for name in request.baselines:
        if name not in BASELINE_NAMES:
            remedy = f"{', '.join(BASELINE_NAMES)}; the reference as it is is always among them"
            raise UsageError(f"--baseline {name}", remedy=remedy)
    if request.max_memory_ratio is not None and not 0 < request.max_memory_ratio < math.inf:
        remedy = "how many times the reference's device memory a call may take, such as 1.5"
        raise UsageError(f"--max-memory-ratio {request.max_memory_ratio:g}", remedy=remedy)


def read_kernel(path: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if path == "-" and sys.stdin is not None else Path(path).read_bytes()
        return raw.decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"no such kernel file: {path}") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder", remedy=f"name the files in it: {path}/*.py") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file in UTF-8") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UsageError(f"{path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _evaluate_all(evaluator: AnyEvaluator, sources: Sequence[tuple[str, str]], jobs: int, screen: _Screen) -> Any:
    """Yield verdicts in the order of the command line, each as soon as possible."""
    screen.ready(evaluator.facts)
    with concurrent.futures.ThreadPoolExecutor(min(jobs, max(1, len(sources)))) as pool:
        futures = [pool.submit(_one, evaluator, source, screen.stage_of(path)) for path, source in sources]
        try:
            for (path, _), future in zip(sources, futures):
                verdict = future.result()
                screen.done(path, verdict)
                yield path, verdict
        except BaseException:
            for future in futures:
                future.cancel()
            evaluator.close()  # evaluations under way must not delay the exit after Ctrl-C
            raise


def _one(evaluator: AnyEvaluator, source: str, on_stage: Callable[[str], None]) -> Verdict:
    try:  # a shipped file has to run its kernels, which serve the given sizes only
        return evaluator.evaluate(forced(source), on_stage, as_given=is_shipped(source))
    except InstrumentError as error:
        return error


def _exit_code(verdicts: Sequence[Verdict]) -> int:
    if any(isinstance(verdict, TritonAgentError) for verdict in verdicts):
        return exit_codes.NOT_MEASURED
    passed = all(isinstance(verdict, Evaluation) and verdict.status is Status.PASSED for verdict in verdicts)
    return exit_codes.GOOD if passed else exit_codes.NOT_PASSED


def as_json(path: str, verdict: Verdict, facts: ProblemFacts) -> dict[str, Any]:
    """Return one kernel's line; the keys do not depend on the verdict."""
    problem = {"name": facts.name, "digest": facts.digest, "variants": list(facts.variants), "scaled": facts.scaled}
    if isinstance(verdict, InstrumentError):
        reason = {"kind": type(verdict).__name__, "what": verdict.what, "remedy": verdict.remedy}
        return {"kernel": path, "problem": problem, "status": None, "not_measured": reason}
    floor = {"bytes": facts.floor_bytes_main, "flops": facts.floor_flops_main}
    return {
        "kernel": path,
        "problem": problem,
        "status": verdict.status.value,
        "finding": to_json(verdict.finding),
        "message": verdict.message,
        "candidate": verdict.candidate,
        "correctness": {
            "passed": bool(verdict.accuracy) and all(case.ok for case in verdict.accuracy),
            "cases": to_json(verdict.accuracy),
        },
        "resources": to_json(verdict.resources),
        "timing": _timing(verdict, floor),
        "diagnosis": to_json(verdict.diagnosis),
        "determinism": verdict.determinism.value,
        "evidence": to_json(verdict.evidence),
        "stages_ms": {stage.stage: round(stage.wall_ms, 3) for stage in verdict.stages},
        "environment": to_json(verdict.environment),
        "notes": list(verdict.notes),
    }


def _timing(verdict: Evaluation, floor: dict[str, int]) -> dict[str, Any]:
    if verdict.timings:
        return {"measured": True, "floor": floor, "against": to_json(verdict.timings)}
    reason = "only what passed is timed" if verdict.environment.mode == "gpu" else "no GPU was used"
    return {"measured": False, "reason": reason, "floor": floor}


# -- for people --------------------------------------------------------------------------------------------------------

HEADINGS = (
    *("kernel", "status", "error / allowed", "registers", "spills", "shared", "traffic", "speed-up", "seconds"),
)
COLOURS = {Status.PASSED: "green", Status.CHEATED: "red", Status.NOT_TRITON: "yellow"}


def _show(
    verdicts: Sequence[tuple[str, Verdict]], facts: ProblemFacts, request: EvaluateRequest, wall_s: float
) -> None:
    out = console.results()
    cases = f"{len(facts.variants)} shapes, {facts.cases} cases"
    floor = f"fewest bytes {facts.floor_bytes_main:,}, flops {facts.floor_flops_main:,}"
    out.print(f"[bold]{escape(facts.name)}[/]  {cases}; {floor}")
    if request.precision != "same" or request.autocast:
        allowed = ["TF32 products are allowed"] if request.precision == "tf32" else []
        called = [f"forward is called under autocast, {request.autocast}"] if request.autocast else []
        out.print(f"  {'; '.join(allowed + called)}, for the reference and for the kernels", markup=False)
    if facts.scaled:
        out.print(f"  {facts.scaled}", markup=False)
    for note in facts.notes:
        out.print(f"  note: {note}", markup=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in ("kernel", "status") else "right", overflow="fold")
    for path, verdict in verdicts:
        table.add_row(*_row(path, verdict))
    out.print(table)
    for path, verdict in verdicts:
        _explain(out, path, verdict)
    _say_what_was_left_out(out, facts, request)
    passed = sum(isinstance(verdict, Evaluation) and verdict.status is Status.PASSED for _, verdict in verdicts)
    speed = "device time against the reference, cold L2" if facts.device != "cpu" else "not measured (no GPU)"
    out.print(f"{passed} of {len(verdicts)} passed in {wall_s:.1f} s. Speed: {speed}.")


def _say_what_was_left_out(out: Any, facts: ProblemFacts, request: EvaluateRequest) -> None:
    """Name the options that have no effect without a GPU."""
    asked = {
        "--baseline": bool(request.baselines),
        "--profile": request.profile,
        "--max-memory-ratio": request.max_memory_ratio is not None,
    }
    idle = [option for option, given in asked.items() if given]
    if idle and facts.device == "cpu":
        out.print(f"\n{', '.join(idle)} has no effect without a GPU", markup=False)


def _row(path: str, verdict: Verdict) -> list[str]:
    if isinstance(verdict, InstrumentError):
        return [escape(path), "[magenta]not measured[/]", *[""] * 7]
    colour = COLOURS.get(verdict.status, "red")
    worst = max(verdict.accuracy, key=lambda case: case.error / case.limit if case.limit else case.error, default=None)
    resources = verdict.resources
    registers = [kernel.registers for kernel in resources if kernel.registers is not None]
    spills = [kernel.spill_bytes for kernel in resources if kernel.spill_bytes is not None]
    return [
        escape(path),
        f"[{colour}]{verdict.status}[/]",
        f"{worst.error:.2g} / {worst.limit:.2g}" if worst else "",
        str(max(registers)) if registers else "",
        str(max(spills)) if spills else "",
        f"{max(kernel.shared_bytes for kernel in resources):,}" if resources else "",
        traffic_said(verdict.diagnosis),
        _speedup(verdict),
        f"{sum(stage.wall_ms for stage in verdict.stages) / 1e3:.2f}",
    ]


def _speedup(verdict: Evaluation) -> str:
    """Format the device-time speed-up over the reference with its interval."""
    device = next((timing for timing in verdict.timings if timing.kind == "device"), None)
    if device is None:
        return ""
    ratio = device.speedup
    return f"{ratio.median:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]".replace("[", "\\[")


def _explain(out: Any, path: str, verdict: Verdict) -> None:
    if isinstance(verdict, InstrumentError):
        out.print(f"\n[bold]{escape(path)}[/]: could not be measured")
        out.print(f"  {verdict}", markup=False, soft_wrap=True)
    elif verdict.status is not Status.PASSED:
        out.print(f"\n[bold]{escape(path)}[/]: {verdict.status} ({verdict.finding})")
        for line in verdict.message.splitlines():
            out.print(f"  {line}", markup=False, soft_wrap=True)
    elif told := speed_page.lines(verdict):
        out.print(f"\n[bold]{escape(path)}[/]")
        for line in told:
            out.print(f"  {line}", markup=False, soft_wrap=True)


class _Screen:
    """Progress on stderr: a live bar at a terminal, a line per finished kernel elsewhere."""

    def __init__(self, total: int) -> None:
        self.console = console.progress()
        self.live = self.console.is_terminal
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.live,
        )
        self.task = self.bar.add_task("loading the problem", total=total)

    def __enter__(self) -> _Screen:
        self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)

    def ready(self, facts: ProblemFacts) -> None:
        self.bar.update(self.task, description=f"{facts.name}: {facts.cases} cases")

    def stage_of(self, path: str) -> Callable[[str], None]:
        name = Path(path).name
        return lambda stage: self.bar.update(self.task, description=f"{name}: {stage}")

    def done(self, path: str, verdict: Verdict) -> None:
        self.bar.advance(self.task)
        if not self.live:
            status = verdict.status if isinstance(verdict, Evaluation) else "not measured"
            self.console.print(f"{path}: {status}", markup=False, soft_wrap=True)

"""The Python API: `triton_agent.optimize(module, example_inputs)` and `triton_agent.evaluate(problem, kernel)`.

The functions do for modules in memory what the commands do for files. A module is written to a problem file
(`live/problem.py`), which is optimized like any other; the shipped file is returned as a module with copies of the
reference's tensors. Works inside a running event loop, as in a notebook. The given module, its inputs, the random
generators and the grad mode are left unchanged.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs
import torch
from torch import nn

from triton_agent.agent.settings import StopReason
from triton_agent.memory.store import Store
from triton_agent.policy.protocol import Policy
from triton_agent.runs.cli import console
from triton_agent.runs.cli.devices import choose
from triton_agent.runs.cli.model_options import ModelOptions
from triton_agent.runs.cli.store_option import load_history, open_store, run_id
from triton_agent.runs.evaluate.command import EvaluateRequest, read_kernel, settings_from
from triton_agent.runs.history.records import History
from triton_agent.runs.live import loading, problem
from triton_agent.runs.live.example_calls import ExampleCall, asked_at, calls_of
from triton_agent.runs.live.hearing import Hearing
from triton_agent.runs.live.waiting import waited_for
from triton_agent.runs.notebook.cards import outcome_card, register
from triton_agent.runs.optimize.request import OptimizeRequest
from triton_agent.runs.optimize.run import Outcome, why_it_ended
from triton_agent.runs.optimize.run import optimize as run_optimize
from triton_agent.runs.optimize.screen import make_screen
from triton_agent.runs.optimize.written_report import write_report
from triton_agent.runs.ship.artefact import forced, is_shipped
from triton_agent.runs.ship.shipped import output_folder
from triton_agent.tools.compile.targets import parse_target
from triton_agent.tools.errors import InstrumentError, UsageError
from triton_agent.tools.evaluate.sets_evaluator import evaluator_for
from triton_agent.tools.problem.input_spec import parse_sets
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.problem.size_range import parse_range
from triton_agent.tools.ranking import standing
from triton_agent.tools.reference.input_tensors import leading_size
from triton_agent.tools.results import Evaluation, Interval
from triton_agent.tools.versions import require_supported

register()

Inputs = Any
"""A tensor; a tuple or list of forward's arguments in order; or a dict of them by name. They may be nested."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Optimized:
    """The outcome of `optimize`."""

    run: str
    file: Path | None
    """The shipped file; None if the reference itself was returned."""
    draft: bool
    """True if speed was not measured because there was no GPU: the kernels run only when asked for."""
    speedup: Interval | None
    """Speed-up of the shipped file over the reference: the smaller of device time and latency."""
    evaluation: Evaluation | None
    """Evaluation of the shipped file."""
    ranges: tuple[str, ...]
    """Where in the requested ranges of sizes the kernels run, a sentence each."""
    by_set: Mapping[str, Interval]
    """Speed-up at each of several sets of example inputs; 1 where the reference runs. Empty if only one call was
    given.
    """
    report: Path | None
    """The page about the run; None if it could not be written."""
    why: str
    """Why the search ended and, if nothing was shipped, why not."""

    def _repr_html_(self) -> str:
        return outcome_card(self)


_outcomes: weakref.WeakKeyDictionary[nn.Module, Optimized] = weakref.WeakKeyDictionary()


def outcome_of(module: nn.Module) -> Optimized | None:
    """Return the outcome of a module that `optimize` returned; None for any other module."""
    return _outcomes.get(module)


def optimize(
    module: nn.Module,
    example_inputs: Inputs = None,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    example_sets: Sequence[Inputs] | Mapping[str, Inputs] | None = None,
    weights: Sequence[float] | Mapping[str, float] | None = None,
    dynamic: str | Sequence[str] = (),
    policy: str | Policy | Sequence[Policy] = "builtin",
    device: str = "auto",
    target: str = "cuda:90",
    own_kernels: bool = False,
    cuda_graph: bool = False,
    turns: int = 12,
    parallel: int = 4,
    budget_s: float | None = None,
    max_tokens: int | None = None,
    max_cost: float | None = None,
    seed: int = 0,
    timeout_s: float = 120.0,
    out: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    resume: str | None = None,
    progress: bool = True,
    **model_options: Any,
) -> nn.Module:
    """Return a module to use in place of this one, with Triton kernels for calls like the example.

    On a GPU the result was measured faster than the module, in device time and in latency, and no slower in
    back-to-back calls; if no kernel was, the module itself is returned. Without a GPU the result is a draft: verified,
    but its kernels run only once `use_kernels` is "always". `outcome_of(result)` says which of these it is, and why.

    The result is the module of the shipped file, `ModelNew`, with copies of the parameters and buffers, on the same
    devices and in the same modes, and with the module's own hooks. Calls that were not verified (other shapes or
    dtypes, calls that need gradients) run the reference's code.

    `example_sets` holds several calls in place of one, in a dict if they have names, and `weights` says how much the
    speed of each counts. The result is right at all of them, and runs kernels at those where they were measured faster.

    `dynamic` names sizes that change from call to call, as `--dynamic` does: "batch" (from 1 to the size given),
    "batch=1..256", "x.1=128..4096", or several. The result runs kernels over the part of the range where they were
    right and faster, and the reference's code elsewhere.

    `out` is the folder for file, report and problem; by default a new folder in the user's data folder. The other
    arguments are the options of the command.
    """
    for warning in require_supported():
        console.progress().print(f"warning: {warning}")
    given = calls_of(module, example_inputs, example_kwargs, example_sets, weights)
    policies = None if isinstance(policy, str) else _policies(policy)
    parse_target(target)
    chosen = choose(device)
    request = OptimizeRequest(
        problem="",
        dynamic=_dynamic(dynamic, given[0].arguments),
        policy=policy if isinstance(policy, str) else ",".join(item.name for item in policies or ()),
        device=chosen.device,
        cards=chosen.cards,
        target=target,
        own_kernels=own_kernels,
        cuda_graph=cuda_graph,
        turns=turns,
        parallel=parallel,
        seconds=_positive("budget_s", budget_s),
        max_tokens=max_tokens,
        max_cost=max_cost,
        seed=seed,
        timeout_s=_positive("timeout_s", timeout_s) or 0.0,
        **_model_options(model_options),
    )
    request.loop()  # report a wrong setting before the module is read
    with loading.untouched():
        written = _write_problem(module, given, None if out is None else Path(out))
    request = dataclasses.replace(request, problem=written.target, **asked_at(given, written))
    with Store.open(store if store is None else str(store)) as opened:
        hearing = Hearing(make_screen(as_json=False) if progress else None)
        taken_up = run_id(opened, resume) if resume else None
        folder = Path(out) if out is not None else None
        home = Path(written.target.rpartition(":")[0]).parent
        outcome = waited_for(
            run_optimize(request, opened, hearing, out=folder or home, resume=taken_up, policies=policies)
        )
        return _result(module, outcome, written, opened, hearing, folder or home)


def load_run(run: str = "last", *, store: str | os.PathLike[str] | None = None) -> History:
    """Return an earlier run with its attempts, by its id, the first characters of it, or `last`."""
    with open_store(None if store is None else str(store)) as opened:
        return load_history(opened, run)


def load(path: str | os.PathLike[str]) -> type[nn.Module]:
    """Return the class of a shipped file: the reference's constructor, state dict and results, with kernels."""
    file = Path(path).resolve()
    try:
        shipped = is_shipped(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("the file cannot be read", where=str(path), remedy="name a shipped file") from error
    if not shipped:
        raise UsageError("not a file that optimize wrote", where=str(path), remedy="name a shipped file")
    return loading.load(file).ModelNew  # type: ignore[no-any-return]


def _dynamic(given: str | Sequence[str], arguments: Sequence[Any]) -> tuple[str, ...]:
    """Return ranges in the notation of `--dynamic`; "batch" alone ends at the batch size of the arguments."""
    batch = leading_size([value for value in arguments if isinstance(value, torch.Tensor)])
    texts = [given] if isinstance(given, str) else given
    return tuple(str(parse_range(text, batch=batch)) for text in texts)


def _policies(given: Policy | Sequence[Policy]) -> list[Policy]:
    found = list(given) if isinstance(given, Sequence) else [given]
    for item in found:
        if not isinstance(item, Policy):
            raise UsageError(f"{item!r} is not a policy", remedy='a name such as "builtin", or objects with `propose`')
    if not found:
        raise UsageError("policy names no policy")
    return found


def _positive(name: str, value: float | None) -> float | None:
    if value is not None and not value > 0:
        raise UsageError(f"{name}={value!r}", remedy="a positive number of seconds")
    return value


def _model_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for language models; raise UsageError for an unknown argument."""
    names = {field.name for field in dataclasses.fields(ModelOptions)}
    if unknown := sorted(options.keys() - names):
        raise UsageError(f"optimize takes no argument {unknown[0]!r}", remedy=f"also known: {', '.join(sorted(names))}")
    return dict(options)


# -- from a module to its problem --------------------------------------------------------------------------------------


def _write_problem(module: nn.Module, given: Sequence[ExampleCall], out: Path | None) -> problem.Problem:
    """Write the module as a problem into `out`, or into a folder of the user's data folder named by its content."""
    first, *more = (call.arguments for call in given)
    if out is not None:
        return problem.write(module, first, _made_folder(out), more=more)
    heap = _made_folder(Path(platformdirs.user_data_dir("triton-agent")) / "modules")
    with tempfile.TemporaryDirectory(dir=heap, prefix="new-") as folder:
        made = problem.write(module, first, Path(folder), more=more)
        file = Path(made.target.rpartition(":")[0])
        saved = [Path(path) for path in (made.inputs_file, *made.more_files)]
        content = b"".join(path.read_bytes() for path in (file, *saved))
        home = _made_folder(heap / hashlib.sha256(content).hexdigest()[:16])
        for path in (file, *saved):
            path.replace(home / path.name)
    kept = [str(home / path.name) for path in saved]
    target = f"{home / file.name}:{problem.class_name(module)}"
    return dataclasses.replace(made, target=target, inputs_file=kept[0], more_files=tuple(kept[1:]))


def _made_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(
            f"the folder cannot be made: {error.strerror}", where=str(folder), remedy="name one with out="
        ) from None
    return folder.resolve()


# -- from what was shipped to a module ---------------------------------------------------------------------------------


def _result(
    module: nn.Module, outcome: Outcome, written: problem.Problem, store: Store, hearing: Hearing, folder: Path
) -> nn.Module:
    if outcome.end.stop_reason == StopReason.INSTRUMENT:
        raise InstrumentError(
            "nothing could be measured, several turns in a row",
            remedy=f"see `triton-agent runs show {outcome.run.id}`, or go on with resume={outcome.run.id!r}",
        )
    why_not = _why_not(outcome, hearing)
    report = write_report(store, outcome, output_folder(folder, outcome.run), hearing.say)
    ended = f"the search ended: {why_it_ended(outcome.end)}"
    shipped = outcome.shipped
    made = module if shipped is None else _with_kernels(module, shipped.path, written.left_out)
    found = standing(shipped.evaluation if shipped else None)
    _outcomes[made] = Optimized(
        run=outcome.run.id,
        file=shipped.path if shipped else None,
        draft=bool(shipped and shipped.draft),
        speedup=found.speedup,
        ranges=shipped.ranges if shipped else (),
        by_set={item.name: item.speedup for item in found.sets},
        evaluation=shipped.evaluation if shipped else None,
        report=report,
        why=ended if shipped else f"{ended}; {why_not}",
    )
    hearing.say(_result_text(module, _outcomes[made]))
    return made


def _with_kernels(module: nn.Module, path: Path, left_out: Sequence[str]) -> nn.Module:
    file = loading.load(path)
    with loading.untouched():
        made = loading.made_of(file.ModelNew, module, left_out)
        watch: Any = made._watch
        watch.made = file._made_of(made)  # attributes taken over from the module count as constructed
    return made


def _why_not(outcome: Outcome, hearing: Hearing) -> str:
    return "no kernel passed" if outcome.best is None else hearing.last or "nothing was better than the reference"


def _result_text(module: nn.Module, told: Optimized) -> str:
    page = f"; report {told.report}" if told.report else ""
    if told.file is None:
        return f"{told.why}\nreturned: the module itself{page}"
    lines = [told.why, f"returned: the module of {told.file}{page}"]
    if told.draft:
        lines.append(
            'a draft: its kernels run once result.use_kernels = "always" (on a GPU, or with TRITON_INTERPRET=1)'
        )
    elif told.speedup is not None:
        lines.append(
            f"{told.speedup.median:.2f}x the reference's speed [{told.speedup.low:.2f}, {told.speedup.high:.2f}]"
        )
        lines += [f"  {ratio.median:.2f}x at {name}" for name, ratio in told.by_set.items()]
        lines += [f"  {text}" for text in told.ranges]
        lines += _kernel_obstacles(module)
    return "\n".join(lines)


def _kernel_obstacles(module: nn.Module) -> list[str]:
    """Return notes that say why the kernels would not run in a call made now."""
    tensors = [*module.parameters(), *module.buffers()]
    found = []
    if any(tensor.device.type != "cuda" for tensor in tensors):
        found.append("the module is not on a GPU: move the result there")
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        found.append("its parameters want gradients: call it under torch.no_grad(), or the reference's code runs")
    if torch.get_float32_matmul_precision() != "highest":
        found.append('torch.set_float32_matmul_precision is not "highest", as it was for the measurement')
    if len({part.training for part in module.modules()}) > 1:
        found.append("some of its parts are in train mode and some in eval mode: the reference's code runs")
    return [f"note: {text}" for text in found]


# -- verdicts ----------------------------------------------------------------------------------------------------------


def evaluate(
    problem_or_module: nn.Module | str | os.PathLike[str],
    kernel: str | os.PathLike[str],
    example_inputs: Inputs = None,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    example_sets: Sequence[Inputs] | Mapping[str, Inputs] | None = None,
    weights: Sequence[float] | Mapping[str, float] | None = None,
    init: str | None = None,
    inputs: Sequence[str] = (),
    inputs_file: str | None = None,
    sets: Sequence[str] = (),
    device: str = "auto",
    target: str | None = "cuda:90",
    allow_library: bool = False,
    mode: str = "both",
    shapes: str = "family",
    timeout_s: float = 120.0,
    precision: str = "same",
    autocast: str | None = None,
    baselines: Sequence[str] = (),
    max_memory_ratio: float | None = None,
    profile: bool = False,
    require_sandbox: bool = False,
    screen: bool = True,
    trust: bool = True,
) -> Evaluation:
    """Return the verdict on one kernel: whether it is right, whether it compiles and, on a GPU, how fast it is.

    The problem is a module with its example inputs, one call or several sets, or a file as the command takes it
    (`file.py`, `file.py:ClassName` with `init`, and `inputs` or several `sets`). The kernel is a file's path or its
    text. Raises `InstrumentError` where no verdict could be reached.
    """
    require_supported()
    request = EvaluateRequest(
        problem="",
        kernels=(),
        init=init,
        inputs=tuple(inputs),
        inputs_file=inputs_file,
        sets=parse_sets(sets),
        device=device,
        target=target or "none",
        allow_library=allow_library,
        mode=mode,
        shapes=shapes,
        timeout_s=timeout_s,
        jobs=1,
        require_sandbox=require_sandbox,
        screen=screen,
        json=False,
        precision=precision,
        autocast=autocast,
        baselines=tuple(baselines),
        max_memory_ratio=max_memory_ratio,
        profile=profile,
        trust=trust,
    )
    settings, source = settings_from(request), _kernel_text(kernel)
    examples = (example_inputs, example_kwargs or None, example_sets, weights)
    with tempfile.TemporaryDirectory(prefix="triton-agent-") as folder:
        spec = _spec(problem_or_module, examples, request, Path(folder).resolve())
        with evaluator_for(spec, settings) as evaluator:
            return evaluator.evaluate(forced(source), as_given=is_shipped(source))


def _kernel_text(kernel: str | os.PathLike[str]) -> str:
    is_text = isinstance(kernel, str) and ("\n" in kernel or "class ModelNew" in kernel)
    return str(kernel) if is_text else read_kernel(os.fspath(kernel))


def _spec(
    given: nn.Module | str | os.PathLike[str], examples: Sequence[Any], request: EvaluateRequest, folder: Path
) -> ProblemSpec:
    has_examples = any(example is not None for example in examples)
    if not isinstance(given, nn.Module):
        if has_examples:
            remedy = "for a file: inputs=['f16[8,128]'], inputs_file, or sets"
            raise UsageError("example inputs go with a module", remedy=remedy)
        return dataclasses.replace(request, problem=os.fspath(given)).spec()
    if request.init is not None or request.inputs or request.inputs_file is not None or request.sets:
        raise UsageError("init, inputs, inputs_file and sets go with a file", remedy="for a module: example_inputs")
    if not has_examples:
        raise UsageError("no example inputs are given", remedy="pass them as in evaluate(module, kernel, (x,))")
    calls = calls_of(given, *examples)
    with loading.untouched():
        first, *more = (call.arguments for call in calls)
        written = problem.write(given, first, folder, more=more, to_ship=False)
    return parse_problem(written.target, **asked_at(calls, written))

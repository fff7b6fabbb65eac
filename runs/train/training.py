"""`policy init`, `train sft` and `train grpo`: runs a training with its screen and prints the result."""

from __future__ import annotations

import contextlib
import dataclasses
import json as json_text
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.policy.train.prepare.recipes import Recipe, recipe_named
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.train.data import require_files, select, texts
from triton_agent.runs.train.models import require_model
from triton_agent.runs.train.screen import TrainScreen, load_libraries
from triton_agent.tools.errors import UsageError

Settings = Mapping[str, Any]
START = "start"
"""File in the output with the checkpoint that `--start-by` chose."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GRPORequest:
    model: str
    out: str
    runs: str | None
    recipe: str
    temperature: float | None
    settings: Settings
    max_tokens: int
    version: str
    stale: int | None
    start_by: str | None
    held_out: str | None
    answers: int
    problem_reports: tuple[str, ...]
    lora: int | None
    resume: bool
    store: str | None
    json: bool


def init(
    out: str, data: Sequence[str], *, size: str, vocabulary: int | None, whole_lines: bool, seed: int, json: bool
) -> int:
    """Make a new policy."""
    from triton_agent.policy.train.update.fresh import make_policy, require_possible

    require_possible(size, Path(out), vocabulary)
    read = list(texts(data))
    load_libraries()
    parameters = make_policy(size, read, Path(out), seed=seed, whole_lines=whole_lines, vocabulary=vocabulary)
    _tell({"policy": out, "parameters": parameters}, json, f"{out}: {parameters:,} parameters, untrained")
    return exit_codes.GOOD


def sft(
    model: str,
    out: str,
    data: Sequence[str],
    runs: str | None,
    settings: Settings,
    *,
    lora: int | None,
    resume: bool,
    store: str | None,
    json: bool,
) -> int:
    if not data and not runs:
        raise UsageError("no training data is given", remedy="add --data FILE, or --runs all")
    require_model(model)
    if not resume:  # the rows of a training that is continued are beside its checkpoints
        require_files(data)
        if runs:
            select(store, runs)
    load_libraries()
    from triton_agent.policy.llm.prompting.prompt import as_messages
    from triton_agent.policy.train.update.session import Adapter, load_tokenizer
    from triton_agent.policy.train.update.sft import SFTSettings, read_rows, train_sft
    from triton_agent.runs.train.data import imitable, records

    chosen = SFTSettings(output=Path(out), **_given(settings))

    def rows() -> Iterator[Mapping[str, Any]]:
        for path in data:
            yield from read_rows(Path(path))
        if runs:
            tokenizer = load_tokenizer(model)
            half = chosen.tokens_at_most // 2  # the other half is for the answer
            render = as_messages(budget_tokens=half, count=lambda text: len(tokenizer.encode(text)))
            found, left_out = imitable(records(store, runs), render)
            yield from found
            _note(left_out)

    adapter = Adapter(rank=lora) if lora else None
    with _shown("sft", chosen.batch_size * chosen.accumulation) as watch:
        outcome = train_sft(model, rows(), chosen, adapter=adapter, resume=resume, callbacks=[watch])
    return _end(outcome, json)


def grpo(request: GRPORequest) -> int:
    """Train by GRPO."""
    if not request.runs and not request.resume:
        raise UsageError("no training data is given", remedy="add --runs all, or a filter")
    if request.start_by not in (None, "entropy"):
        raise UsageError(f"--start-by {request.start_by}", remedy="entropy, or leave it out")
    if bool(request.settings["evaluate_every"]) != bool(request.held_out):
        raise UsageError("--evaluate-every and --held-out go together", remedy="give both, or neither")
    recipe = recipe_named(request.recipe)
    if not request.start_by:  # which names a folder of checkpoints
        require_model(request.model)
    for words in filter(None, ("" if request.resume else request.runs, request.held_out)):
        select(request.store, words)
    load_libraries()
    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import Adapter, train_grpo, waiting_for_the_first

    given = _given(request.settings)
    # a clip around the policy that sampled ends the learning soon
    given.setdefault("proximal", recipe.has_clip)
    settings = GRPOSettings(output=Path(request.out), **given)
    first = waiting_for_the_first(settings.cpu).is_main_process
    model = _start(request)
    kept_back = _kept_back(request)
    prepared = _prepared(request, recipe, model, kept_back) if first and not request.resume else None
    with contextlib.ExitStack() as stack:
        temperature = prepared.temperature if prepared else request.temperature or 1.0
        evaluator = None
        if request.held_out:
            evaluator = stack.enter_context(_held_out(request, recipe, model, temperature))
        shown = (settings.batch_tokens, "tokens") if settings.batch_tokens else (settings.batch_size, "turns")
        watch = stack.enter_context(_shown(f"grpo, {recipe.name}", shown[0] * settings.accumulation, shown[1]))
        outcome = train_grpo(
            model,
            prepared,
            recipe,
            settings,
            adapter=Adapter(rank=request.lora) if request.lora else None,
            resume=request.resume,
            evaluator=evaluator,
            best_by="eval_reward" if evaluator else "",
            kept_back=kept_back,
            callbacks=[watch],
        )
    return _end(outcome, request.json)


def _kept_back(request: GRPORequest) -> dict[str, str]:
    """Return the names of the held-out runs' problems, by identity."""
    from triton_agent.policy.train.prepare import held_out
    from triton_agent.runs.train.data import records

    found = records(request.store, request.held_out) if request.held_out else ()
    views = (attempt.observation.problem for attempt, _ in found)
    return {held_out.identity(view): view.name for view in views}


def _prepared(request: GRPORequest, recipe: Recipe, model: str, kept_back: Mapping[str, str]) -> Any:
    """Prepare rows with advantages; print what is left out, and which parts of the reward no run can earn."""
    from triton_agent.policy.llm.engines.vllm_worker import vocabulary_digest
    from triton_agent.policy.train.prepare import held_out
    from triton_agent.policy.train.prepare.prepared import TrainingLimits, prepare
    from triton_agent.policy.train.prepare.recipes import unpaid
    from triton_agent.policy.train.record.trajectories import Knowledge, collect_parts
    from triton_agent.policy.train.update.plan_gains import paid, plan_gains
    from triton_agent.policy.train.update.session import load_frozen, load_tokenizer, rescorer
    from triton_agent.runs.train.data import encoder, in_parts, soundness

    tokenizer = load_tokenizer(model)
    scratch = Path(request.out).absolute().parent
    scratch.mkdir(parents=True, exist_ok=True)
    knowledge = Knowledge(
        scratch=scratch, decode=tokenizer.decode, encode=encoder(tokenizer), sound=soundness(request.problem_reports)
    )
    stored = in_parts(request.store, request.runs or "")
    collected = collect_parts(stored.parts, recipe, knowledge, stored.processes)
    held_out.refuse((sample.problem for sample in collected.samples), held_out.read(model) | dict(kept_back))
    samples: Sequence[Any] = collected.samples
    if recipe.reasoning:
        frozen = load_frozen(model, cpu=request.settings["cpu"])
        samples = paid(samples, recipe, plan_gains(samples, rescorer(frozen)))
        del frozen  # the trainer needs its memory
    limits = TrainingLimits(
        current_version=request.version,
        stale_at_most=request.stale,
        tokens_at_most=request.max_tokens,
        temperature=request.temperature,
        tokenizer=vocabulary_digest(tokenizer),
        seed=request.settings["seed"],
    )
    prepared = prepare(samples, recipe, limits, collected.unsampled)
    _note({**collected.left_out, **prepared.left_out})
    if not samples:
        raise UsageError(
            "there is nothing to train on: no attempt of these runs has the tokens that a model sampled",
            where=f"--runs {request.runs}",
            remedy="GRPO compares sampled answers: log some with `train eval --model MODEL --problems FOLDER`, or with "
            "`bench suite --policy hf:MODEL --attempts 8`. The built-in author's kernels are for `train sft`",
        )
    lacking = unpaid(recipe, (sample.turn.reward for sample in samples))
    if lacking:
        told = f"recipe {recipe.name}: no run has what these parts are paid for: {', '.join(lacking)}"
        console.progress().print(told, markup=False, soft_wrap=True)
    said = f"{len(prepared.rows)} turns to train on, of {prepared.groups} groups, {prepared.flat_groups} of them flat"
    console.progress().print(said, markup=False)
    return prepared


def _start(request: GRPORequest) -> str:
    """Return the model to start from: the named one, or with `--start-by` the good checkpoint with the highest
    entropy, which a resumed training finds in the file `start`.
    """
    record = Path(request.out) / START
    if request.resume and record.exists():
        return record.read_text()
    if request.start_by is None:
        return request.model
    from triton_agent.memory.exchange.trl import JudgedAttempt
    from triton_agent.policy.train.record.trajectories import latest_evaluation
    from triton_agent.policy.train.update.checkpoints import whole_checkpoints
    from triton_agent.policy.train.update.start import choose, measure
    from triton_agent.runs.train.data import records

    folders = whole_checkpoints(Path(request.model))
    if not folders:
        raise UsageError(f"{request.model} holds no checkpoints", remedy="name the --out of a `train sft`")
    judged = [
        JudgedAttempt(attempt=a, evaluation=latest_evaluation(g)) for a, g in records(request.store, request.runs or "")
    ]
    said = [item.attempt.completion for item in judged if item.passed]
    pairs = [(one.prompt_ids, one.token_ids) for one in said if one.prompt_ids and one.token_ids][:64]
    if not pairs:
        raise UsageError("--start-by entropy: no attempt that passed kept its tokens", remedy="leave it out")
    chosen = choose([measure(folder, pairs, cpu=request.settings["cpu"]) for folder in folders])
    figures = f"entropy {chosen.entropy:.3f}, loss {chosen.loss:.3f} nats a token"
    console.progress().print(f"starting from {chosen.folder.name}: {figures}", markup=False)
    if not record.exists():  # a training that was begun keeps its own
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(str(chosen.folder))
    return str(chosen.folder)


@contextlib.contextmanager
def _held_out(request: GRPORequest, recipe: Recipe, model: str, temperature: float) -> Iterator[Any]:
    """Yield a function that computes held-out figures as the trainer logs them."""
    from triton_agent.policy.train.evaluate.trial import TrialSettings
    from triton_agent.policy.train.update.session import load_tokenizer
    from triton_agent.runs.train.data import records
    from triton_agent.runs.train.evaluation import bench

    tokenizer = load_tokenizer(model)
    settings = TrialSettings(answers=request.answers, temperature=temperature)
    with bench(list(records(request.store, request.held_out or "")), tokenizer, settings) as ready:
        yield lambda trained: ready.logged(trained, recipe)


@contextlib.contextmanager
def _shown(title: str, count_a_step: int, unit: str = "turns") -> Iterator[Any]:
    """Yield a callback that shows the training, and silence the libraries' warnings meanwhile."""
    from triton_agent.policy.train.update.checkpoints import LogDisplay

    try:
        with TrainScreen(title, count_a_step, unit) as screen, warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)
            warnings.filterwarnings("ignore", category=UserWarning)
            yield LogDisplay(screen.show)
    except KeyboardInterrupt:
        told = "the same command with --resume continues from the last checkpoint (--save-every)"
        console.progress().print(told, markup=False, soft_wrap=True)
        raise


def _given(settings: Settings) -> dict[str, Any]:
    """Drop options that have their default values."""
    return {name: value for name, value in settings.items() if value is not None or name == "steps"}


def _note(left_out: Mapping[str, int]) -> None:
    for why, count in left_out.items():
        attempts = "attempt" if count == 1 else "attempts"
        console.progress().print(f"{count} {attempts} left out: {why}", markup=False, soft_wrap=True)


def _end(outcome: Any, json: bool) -> int:
    """Print the result in the first process, and leave the group of processes; exit code 1 if the training stopped
    itself.
    """
    from accelerate import PartialState

    last: Mapping[str, Any] = next((entry for entry in reversed(outcome.history) if "loss" in entry), {})
    data = {"weights": str(outcome.weights), "steps": outcome.steps, "stopped": outcome.stopped, "last": last}
    why = f"; stopped early: {outcome.stopped}" if outcome.stopped else ""
    processes = PartialState()
    if processes.is_main_process:
        _tell(data, json, f"{outcome.weights}: {outcome.steps} steps{why}")
    processes.destroy_process_group()  # a process that ends with a thread of the group running aborts
    return exit_codes.NOT_PASSED if outcome.stopped else exit_codes.GOOD


def _tell(data: Mapping[str, Any], json: bool, text: str) -> None:
    if json:
        print(json_text.dumps(data), flush=True)
    else:
        console.results().print(text, markup=False, soft_wrap=True)

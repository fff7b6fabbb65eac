"""`train grpo --online`: problems of a folder, judges on this machine, an engine, and the lines of the screen."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import json as json_text
import os
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_agent.memory.observation import ProblemView, Rules
from triton_agent.policy.llm.author import LanguageAuthor
from triton_agent.policy.llm.engine import ModelQuestion, Sampled, Sampling
from triton_agent.policy.llm.prompting import prompt
from triton_agent.policy.train.extra import require_training
from triton_agent.policy.train.online.rollouts import OpenProblem
from triton_agent.policy.train.prepare.recipes import recipe_named
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.devices import Chosen, choose
from triton_agent.runs.cli.store_option import open_store
from triton_agent.tools.errors import ProblemError, UsageError
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, evaluator_for
from triton_agent.tools.machine.hardware import visible_gpus
from triton_agent.tools.machine.lease import Mode, lease
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.processes.zygotes import Nursery, own_nursery
from triton_agent.tools.settings import EvaluatorSettings, Profiling
from triton_agent.tools.versions import project_version

if TYPE_CHECKING:
    from triton_agent.policy.llm.engines.vllm_engine import VllmEngine

ENGINES = ("hf", "vllm")
CORES = len(os.sched_getaffinity(0))
OPEN_AT_MOST = 32
"""Problems whose evaluators run at the same time; each keeps its reference's inputs in memory, on the GPU if there is
one. Without a GPU the limit is four for each core if that is more.
"""
OPENED_AT_ONCE = max(2, CORES // 2)
"""Problems that are opened at the same time: each starts a process that runs the reference."""
EPISODES_ON_A_CPU, EPISODES_ON_A_GPU = 16, 64
"""Episodes for which `hf` generates at once; on a GPU more episodes cost hardly more time."""
LEASE_WAIT_S = 600.0
STALENESS = 4
"""Versions of the weights by which an answer may be behind in asynchronous training."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OnlineRequest:
    model: str
    out: str
    problems: tuple[str, ...]
    recipe: str
    engine: str
    server: str | None
    """Address of a running server of vLLM, for asynchronous training."""
    staleness: int | None
    device: str
    rollouts: Mapping[str, Any]
    """Arguments of `OnlineSettings`."""
    temperature: float | None
    max_answer_tokens: int
    prompt_tokens: int | None
    vllm_python: str | None
    gpu_memory: float | None
    settings: Mapping[str, Any]
    """Arguments of `GRPOSettings`."""
    lora: int | None
    resume: bool
    store: str | None
    json: bool


def train(request: OnlineRequest) -> int:
    """Train online and print the result."""
    require_training()
    chosen = choose(request.device)
    names = problem_files(request.problems)
    from triton_agent.policy.train.online.session import OnlineSettings, train_online
    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import Adapter

    given = {name: value for name, value in request.settings.items() if value is not None}
    temperature = 1.0 if request.temperature is None else request.temperature
    rollouts = OnlineSettings(
        **request.rollouts,
        tokens_at_most=request.max_answer_tokens,
        batch_size=asked_at_once(request.engine, cpu=bool(request.settings["cpu"])),
    )
    sampling = Sampling(temperature=temperature, max_tokens=request.max_answer_tokens)
    shared: dict[str, Any] = {
        "adapter": Adapter(rank=request.lora) if request.lora else None,
        "resume": request.resume,
    }
    recipe = recipe_named(request.recipe)
    given.setdefault("proximal", recipe.has_clip and not request.server)
    grpo = GRPOSettings(output=Path(request.out), temperature=temperature, **given)
    with contextlib.ExitStack() as stack:
        judges = stack.enter_context(Judges(names, chosen))
        shared["machine"] = judges.machine
        store = stack.enter_context(open_store(request.store, read_only=False))
        if request.server:
            from triton_agent.policy.train.online.asynchronous import train_asynchronously

            stack.enter_context(_quiet())
            outcome = train_asynchronously(
                request.model,
                judges,
                request.server,
                lambda engine: author(engine, sampling, request.prompt_tokens),
                store,
                recipe,
                grpo,
                rollouts,
                staleness=STALENESS if request.staleness is None else request.staleness,
                show=Telling(rollouts.updates, step_in_words).show,
                **shared,
            )
        else:
            engine = open_engine(
                request.model,
                request.engine,
                chosen,
                cpu=bool(request.settings["cpu"]),
                dtype=dtype_of_answers(request.engine, bf16=bool(request.settings["bf16"])),
                lora=request.lora,
                vllm_python=request.vllm_python,
                gpu_memory=request.gpu_memory,
            )
            stack.callback(lambda: asyncio.run(engine.close()))
            stack.enter_context(_quiet())
            outcome = train_online(
                request.model,
                judges,
                author(engine, sampling, request.prompt_tokens),
                engine.reload,
                store,
                recipe,
                grpo,
                rollouts,
                show=Telling(rollouts.updates, in_words).show,
                **shared,
            )
    updates = len(outcome.history)
    if request.json:
        data = {"weights": str(outcome.weights), "updates": updates, "steps": outcome.steps}
        print(json_text.dumps(data | {"last": outcome.history[-1]}), flush=True)
    else:
        said = f"{outcome.weights}: {updates} updates, {outcome.steps} steps"
        console.results().print(said, markup=False, soft_wrap=True)
    return exit_codes.GOOD


# -- problems and judges -----------------------------------------------------------------------------------------------


def problem_files(paths: Sequence[str]) -> dict[str, ProblemSpec]:
    """Return the problems in these files and folders by name, in the order of their names."""
    files: dict[str, Path] = {}
    for text in paths:
        path = Path(text)
        inside = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for file in inside:
            name = str(file.relative_to(path).with_suffix("")) if path.is_dir() else file.stem
            if files.setdefault(name, file) != file:
                raise UsageError(f"two problems are called {name}", where=f"{files[name]}, {file}")
    if not files:
        raise UsageError("no problem is named", remedy="--problems FOLDER with files as in examples/")
    return {name: parse_problem(str(files[name])) for name in sorted(files)}


class Judges:
    """The evaluators of the problems; a `ProblemSource`. Starts them when needed and keeps the latest running.

    With several cards each problem has one of them.
    """

    def __init__(self, specs: Mapping[str, ProblemSpec], chosen: Chosen) -> None:
        from triton_agent.runs.optimize.run import machine_here

        self._specs, self._chosen = dict(specs), chosen
        self.open_at_most = OPEN_AT_MOST if chosen.gpus else max(OPEN_AT_MOST, 4 * CORES)
        self.machine = machine_here(0, chosen)
        self._stack = contextlib.ExitStack()
        self._nurseries: list[Nursery] = [
            self._stack.enter_context(own_nursery(uuid, many_problems=True)) for uuid in chosen.uuids
        ]
        self._open: collections.OrderedDict[str, tuple[AnyEvaluator, OpenProblem]] = collections.OrderedDict()
        self._in_use: collections.Counter[str] = collections.Counter()
        self._refused: set[str] = set()
        project_version()

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, *exception: object) -> None:
        for evaluator, _ in self._open.values():
            evaluator.close()
        self._open.clear()
        self._stack.close()

    @property
    def names(self) -> Sequence[str]:
        return list(self._specs)

    async def open(self, names: Sequence[str]) -> Mapping[str, OpenProblem]:
        """Open the problems; a problem that cannot be judged is reported once and left out."""
        at_once = asyncio.Semaphore(OPENED_AT_ONCE)

        async def opened(name: str) -> None:
            async with at_once:
                if name in self._open:
                    self._open.move_to_end(name)
                elif name not in self._refused:
                    try:
                        self._open[name] = await asyncio.to_thread(self._start, name)
                    except ProblemError as error:
                        self._refused.add(name)
                        console.progress().print(f"left out: {name}: {error.what}", markup=False, soft_wrap=True)

        await asyncio.gather(*map(opened, names))
        idle = [name for name in self._open if not self._in_use[name] and name not in names]
        for name in idle[: max(0, len(self._open) - max(self.open_at_most, len(names)))]:
            evaluator, _ = self._open.pop(name)
            await asyncio.to_thread(evaluator.close)
        return {name: self._open[name][1] for name in names if name in self._open}

    @contextlib.contextmanager
    def kept_open(self, name: str) -> Iterator[None]:
        """Keep a problem's evaluator running while it is in use."""
        self._in_use[name] += 1
        try:
            yield
        finally:
            self._in_use[name] -= 1

    def _start(self, name: str) -> tuple[AnyEvaluator, OpenProblem]:
        place = list(self._specs).index(name) % len(self._nurseries)
        rules = Rules()
        settings = EvaluatorSettings(
            device=self._chosen.device,
            card=self._chosen.uuids[place],
            target=rules.target,
            profile=Profiling.ALL,
            waits_for_memory=False,  # many evaluators stay open
        )
        evaluator = evaluator_for(self._specs[name], settings, nursery=self._nurseries[place])
        view = ProblemView.of(self._specs[name], evaluator.facts, self._chosen.gpus)
        return evaluator, OpenProblem(view=view, judge=evaluator, rules=rules)


# -- the engine --------------------------------------------------------------------------------------------------------


class SharedCard:
    """An engine of vLLM on a card that also judges: it does not generate while a measurement runs."""

    def __init__(self, engine: VllmEngine, card: str) -> None:
        self._engine, self._card = engine, card

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        async with self._off_the_clock():
            return await self._engine.answer(questions)

    @contextlib.asynccontextmanager
    async def _off_the_clock(self) -> AsyncIterator[None]:
        held = lease(self._card, what="triton-agent: drawing answers", mode=Mode.SHARED, wait_s=LEASE_WAIT_S)
        await asyncio.to_thread(held.__enter__)
        try:
            yield
        finally:
            held.__exit__(None, None, None)


def asked_at_once(kind: str, *, cpu: bool) -> int | None:
    """Return about how many episodes an engine is asked at once, while others are judged; None for all.

    `cpu` says that the model stays on the CPU. The device of the verdicts makes no difference.
    """
    if kind == "vllm":
        return None
    return EPISODES_ON_A_GPU if visible_gpus() and not cpu else EPISODES_ON_A_CPU


def dtype_of_answers(kind: str, *, bf16: bool) -> str:
    """Return the dtype in which an engine answers during a training, so that both have about the same probabilities.

    A training with `bf16` multiplies in bfloat16 and keeps weights in float32. vLLM answers in bfloat16 then, which is
    faster, and the hf engine takes the weights as they are stored.
    """
    if not bf16:
        return "float32"
    return "bfloat16" if kind == "vllm" else "auto"


def author(engine: Any, sampling: Sampling, prompt_tokens: int | None) -> LanguageAuthor:
    """Return a policy that asks with the prompts of `data make`, if a number of tokens is given."""
    renderer = prompt.render_within(prompt_tokens) if prompt_tokens else prompt.render
    return LanguageAuthor(engine, sampling, render=renderer)


def open_engine(
    model: str,
    kind: str,
    chosen: Chosen,
    *,
    cpu: bool,
    dtype: str = "auto",
    lora: int | None = None,
    vllm_python: str | None = None,
    gpu_memory: float | None = None,
) -> Any:
    """Make an engine that answers with the model or adapter; it loads the weights at its first request. With `lora`, it
    takes adapters of that rank later. `dtype` "auto" is that of the stored weights.
    """
    if kind not in ENGINES:
        raise UsageError(f"--engine {kind}", remedy=f"one of {', '.join(ENGINES)}")
    if kind != "vllm":
        from triton_agent.policy.llm.engines.transformers_engine import TransformersEngine

        return TransformersEngine(Path(model), device="cpu" if cpu else "auto", dtype=dtype)
    from triton_agent.policy.llm.engines.model_folder import base_of
    from triton_agent.policy.llm.engines.vllm_engine import VllmEngine, VllmSettings

    told: dict[str, Any] = {"python": vllm_python, "gpu_memory": gpu_memory, "dtype": dtype}
    told["adapts"] = lora is not None
    base = base_of(Path(model))
    told |= {"adapter": model} if base else {}
    if lora and lora > VllmSettings().adapter_rank:
        told["adapter_rank"] = 1 << (lora - 1).bit_length()  # vLLM takes powers of two
    engine = VllmEngine(base or model, VllmSettings(**{k: v for k, v in told.items() if v is not None}))
    return SharedCard(engine, chosen.gpus[0].uuid) if chosen.gpus and not cpu else engine


# -- the screen --------------------------------------------------------------------------------------------------------


class Telling:
    """Prints a line for each update, with the time left at the pace of the latest ones."""

    def __init__(self, updates: int, in_words: Callable[[Mapping[str, Any], int], str]) -> None:
        self._updates, self._in_words = updates, in_words
        self._ends: collections.deque[float] = collections.deque([time.monotonic()], maxlen=6)

    def show(self, line: Mapping[str, Any]) -> None:
        self._ends.append(time.monotonic())
        pace_s = (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)
        left_s = pace_s * (self._updates - line["update"] - 1)
        console.progress().print(
            f"{self._in_words(line, self._updates)}; {left_s / 60:.0f} min left", markup=False, soft_wrap=True
        )


def in_words(line: Mapping[str, Any], updates: int) -> str:
    """Return the line of an update for the screen."""
    seconds = line["seconds"]
    said = [f"update {line['update'] + 1}/{updates}"]
    said += [f"{name} {line[name]:.3g}" for name in ("reward",) if line[name] is not None]
    said.append(
        "correct " + ", then ".join("unknown" if share is None else f"{share:.0%}" for share in line["correct"])
    )
    said += [f"{name} {line[name]:.3g}" for name in ("entropy", "ratio") if line[name] is not None]
    said.append(f"{line['answer_tokens'] or 0:.0f} tokens an answer")
    said.append(
        f"{line['attempts']} answers, {line['verdicts']} verdicts, {line['rows']} rows in {seconds['all']:.0f} s"
    )
    if line["unpaid"] and not line["update"]:
        said.append(f"no answer has what these parts are paid for: {' '.join(line['unpaid'])}")
    spent = [f"{name} {seconds[name]:.0f}" for name in ("generation", "overlapped", "verdicts", "update")]
    return ", ".join(said) + f" ({', '.join(spent)})"


def step_in_words(line: Mapping[str, Any], updates: int) -> str:
    """Return the line of a step of asynchronous training for the screen."""
    seconds = line["seconds"]
    said = [f"step {line['update'] + 1}/{updates}"]
    figures = ("reward", "entropy", "ratio", "staleness")
    said += [f"{name} {line[name]:.3g}" for name in figures if line[name] is not None]
    spent = [f"{name} {value:.1f}" for name, value in seconds.items() if value is not None and name != "all"]
    return f"{', '.join(said)}, {seconds['all']:.0f} s ({', '.join(spent)})"


@contextlib.contextmanager
def _quiet() -> Any:
    """Silence the libraries' warnings."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=UserWarning)
        yield

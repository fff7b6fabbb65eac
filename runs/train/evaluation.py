"""`train eval`: asks models for kernels and compares figures with intervals.

The problems are those of stored runs, with one answer each, or files, over several turns as in online training.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json as json_text
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from triton_agent.policy.train.prepare.recipes import recipe_named
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.pace import counted
from triton_agent.runs.train.data import select
from triton_agent.runs.train.models import require_model
from triton_agent.runs.train.online import problem_files
from triton_agent.runs.train.screen import load_libraries
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import Interval, to_json


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvalRequest:
    models: tuple[str, ...]
    runs: str | None
    problems: tuple[str, ...]
    turns: int
    engine: str
    device: str
    timed_on: str
    """Device on which right answers are judged again and timed; empty for none."""
    prompt_tokens: int | None
    vllm_python: str | None
    gpu_memory: float | None
    recipe: str
    answers: int
    ks: tuple[int, ...]
    max_tokens: int
    temperature: float
    bf16: bool
    seed: int
    cpu: bool
    store: str | None
    json: bool


def run(request: EvalRequest) -> int:
    """Ask the models, judge, and print the figures."""
    if bool(request.runs) == bool(request.problems):
        raise UsageError("name the problems in one way", remedy="--problems FOLDER, or --runs with a filter")
    if request.answers < max(request.ks):
        raise UsageError(f"pass@{max(request.ks)} needs as many answers", remedy=f"--answers {max(request.ks)}")
    if request.timed_on and not request.problems:
        raise UsageError("--timed-on is for --problems", remedy="name problem files")
    recipe_named(request.recipe)
    for model in request.models:
        require_model(model)
    if request.runs:
        select(request.store, request.runs)
    else:
        problem_files(request.problems)
    load_libraries()
    told, gains = _over_turns(request) if request.problems else _of_runs(request)
    if request.json:
        data = {
            name: {**to_json(figures), "gain": {score: to_json(value) for score, value in gains.get(name, {}).items()}}
            for name, figures in told.items()
        }
        print(json_text.dumps(data, allow_nan=False), flush=True)
    else:
        _show(told, {name: found["reward"] for name, found in gains.items() if "reward" in found})
    return exit_codes.GOOD


def _over_turns(request: EvalRequest) -> tuple[dict[str, Any], dict[str, dict[str, Interval]]]:
    """Evaluate on files: figures of each model, and gains over the first one."""
    from triton_agent.policy.llm.engine import Sampling
    from triton_agent.policy.train.evaluate.episodes import JudgedEpisode, figures_of, gains
    from triton_agent.policy.train.evaluate.rollouts import (
        RolloutSettings,
        as_episodes,
        evaluate,
        identity_of,
        time_right_answers,
    )
    from triton_agent.runs.cli.devices import choose
    from triton_agent.runs.cli.store_option import open_store
    from triton_agent.runs.train.online import Judges, asked_at_once, author, open_engine

    recipe, chosen, specs = recipe_named(request.recipe), choose(request.device), problem_files(request.problems)
    sampling = Sampling(temperature=request.temperature, max_tokens=request.max_tokens)
    clock = choose(request.timed_on) if request.timed_on else None
    if clock and not clock.gpus:
        raise UsageError(f"--timed-on {request.timed_on}: no GPU", remedy="a GPU of this machine, such as cuda")
    judged: dict[str, list[JudgedEpisode]] = {}
    with (
        Judges(specs, chosen) as judges,
        Judges(specs, clock) if clock else contextlib.nullcontext() as timers,
        open_store(request.store, read_only=False) as store,
        asyncio.Runner() as runner,
    ):
        settings = RolloutSettings(
            answers=request.answers,
            turns=request.turns,
            seed=request.seed,
            batch_size=asked_at_once(request.engine, cpu=request.cpu),
            open_at_once=judges.open_at_most // 2,  # the next ones are opened meanwhile
        )
        asked: dict[str, Any] = {
            "problems": {name: spec.digest for name, spec in specs.items()},
            "gpu": judges.machine.gpu,
        }
        asked |= {"prompt_tokens": request.prompt_tokens} if request.prompt_tokens else {}
        asked |= {"dtype": "bfloat16"} if request.bf16 else {}
        asked |= {"turns": request.turns, "seed": request.seed, "sampling": dataclasses.asdict(sampling)}
        for model in request.models:
            engine = open_engine(
                model,
                request.engine,
                chosen,
                cpu=request.cpu,
                dtype="bfloat16" if request.bf16 else "auto",
                vllm_python=request.vllm_python,
                gpu_memory=request.gpu_memory,
            )
            identity = identity_of({**asked, "engine": engine.name, "weights": engine.version})
            with counted(f"{model}: problems answered") as tell:
                try:
                    histories = runner.run(
                        evaluate(
                            judges,
                            author(engine, sampling, request.prompt_tokens),
                            store,
                            identity,
                            settings,
                            machine=judges.machine,
                            on_progress=tell,
                        )
                    )
                finally:
                    runner.run(engine.close())
            if timers is not None:
                with counted(f"{model}: problems timed") as tell:
                    at_once = timers.open_at_most // 2  # those before them stay open meanwhile
                    timing = time_right_answers(
                        timers, store, histories, at_once, machine=timers.machine, on_progress=tell
                    )
                    histories = runner.run(timing)
            judged[model] = as_episodes(histories)
    first = request.models[0]
    told = {model: figures_of(episodes, recipe, request.ks) for model, episodes in judged.items()}
    gained = {m: gains(judged[first], judged[m], recipe, request.ks) for m in request.models if m != first}
    return told, gained


def _of_runs(request: EvalRequest) -> tuple[dict[str, Any], dict[str, dict[str, Interval]]]:
    """Evaluate on the problems of stored runs: figures of each model, and the gain in reward over the first one."""
    from triton_agent.policy.train.evaluate.figures import figures, gain, scores
    from triton_agent.policy.train.evaluate.trial import TrialSettings
    from triton_agent.policy.train.update.session import load_frozen, load_tokenizer
    from triton_agent.runs.train.data import records

    recipe = recipe_named(request.recipe)
    found = list(records(request.store, request.runs or ""))
    settings = TrialSettings(
        answers=request.answers,
        tokens_at_most=request.max_tokens,
        temperature=request.temperature,
        seed=request.seed,
        ks=request.ks,
    )
    judged = {}
    for name in request.models:
        tokenizer, model = load_tokenizer(name), load_frozen(name, bf16=request.bf16, cpu=request.cpu)
        with bench(found, tokenizer, settings) as ready, counted(f"{name}: answers sampled and judged") as tell:
            judged[name] = ready.ask(model, tell)
    told = {name: figures(answers, recipe, ks=request.ks) for name, answers in judged.items()}
    first = request.models[0]
    reward = scores(recipe)["reward"]
    return told, {m: {"reward": gain(judged[first], judged[m], reward)} for m in request.models if m != first}


@contextlib.contextmanager
def bench(found: Sequence[Any], tokenizer: Any, settings: Any) -> Iterator[Any]:
    """Yield a bench over the runs' problems."""
    from triton_agent.policy.train.evaluate.trial import Trial, TrialTask
    from triton_agent.runs.train.data import judges, questions

    asked = questions(found, tokenizer)
    if not asked:
        raise UsageError("none of the runs holds prompts", remedy="choose runs of a language model")
    tasks = [TrialTask(problem=digest, prompt_ids=ids) for digest, (_, ids) in asked.items()]
    with judges([attempt for attempt, _ in asked.values()]) as judge:
        yield Trial(tasks, judge, tokenizer, settings)


def _show(told: dict[str, Any], gains: dict[str, Interval]) -> None:
    """Print a row for each figure and a column for each model, since figures are many and models few."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for model in told:
        table.add_column(model, justify="right", overflow="fold")
    names = list(dict.fromkeys(name for figures in told.values() for name in figures.values))
    table.add_row("answers", *(str(figures.answers) for figures in told.values()))
    table.add_row("not measured", *(str(figures.unmeasured) for figures in told.values()))
    for name in names:
        table.add_row(name, *(_text(figures.values.get(name)) for figures in told.values()))
    if gains:
        table.add_row("gain in reward", *(_text(gains.get(model)) for model in told))
    console.results().print(table)


def _text(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f"{interval.median:.3f} [{interval.low:.3f}, {interval.high:.3f}]".replace("[", "\\[")

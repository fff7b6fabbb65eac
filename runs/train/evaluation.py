"""`train eval`: asks models for kernels to the problems of stored runs and compares figures with intervals."""

from __future__ import annotations

import contextlib
import dataclasses
import json as json_text
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from triton_agent.policy.train.prepare.recipes import recipe_named
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.pace import counted
from triton_agent.runs.train.screen import load_libraries
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import Interval, to_json


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvalRequest:
    models: tuple[str, ...]
    runs: str | None
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
    if not request.runs:
        raise UsageError("no problems are named", remedy="add --runs all, or a filter")
    if request.answers < max(request.ks):
        raise UsageError(f"pass@{max(request.ks)} needs as many answers", remedy=f"--answers {max(request.ks)}")
    load_libraries()
    from triton_agent.policy.train.evaluate.figures import figures, gain, scores
    from triton_agent.policy.train.evaluate.trial import TrialSettings
    from triton_agent.policy.train.update.session import load_frozen, load_tokenizer
    from triton_agent.runs.train.data import records

    recipe = recipe_named(request.recipe)
    found = list(records(request.store, request.runs))
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
    gains = {
        name: gain(judged[first], judged[name], scores(recipe)["reward"]) for name in request.models if name != first
    }
    if request.json:
        data = {name: {**to_json(told[name]), "gain": to_json(gains.get(name))} for name in request.models}
        print(json_text.dumps(data, allow_nan=False), flush=True)
    else:
        _show(told, gains)
    return exit_codes.GOOD


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
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("model")
    names = list(dict.fromkeys(name for figures in told.values() for name in figures.values))
    for name in ("answers", "not measured", *names, *(["gain"] if gains else [])):
        table.add_column(name, justify="right")
    for model, figures in told.items():
        cells = [_text(figures.values.get(name)) for name in names]
        last = [_text(gains.get(model))] if gains else []
        table.add_row(model, str(figures.answers), str(figures.unmeasured), *cells, *last)
    console.results().print(table)


def _text(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f"{interval.median:.3f} [{interval.low:.3f}, {interval.high:.3f}]".replace("[", "\\[")

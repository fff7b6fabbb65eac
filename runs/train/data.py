"""What a training reads: runs of the store by a filter, texts for a tokenizer; and who judges answers to its problems.

A filter is words separated by commas: `all`, ids of runs (or their beginnings, or `last`), and `problem=`, `policy=`,
`status=`, `since=`, which mean what they mean to `runs list`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from triton_agent.memory.exchange.trl import Judged, LeftOut, Render, Shape, Which, sft_rows
from triton_agent.memory.listing import AttemptFilter
from triton_agent.memory.records import Attempt, Grading, Message
from triton_agent.policy.train.record.trajectories import latest_evaluation
from triton_agent.runs.cli.selection import Selection, select_runs
from triton_agent.runs.cli.store_option import open_store
from triton_agent.runs.history.stored_problem import restored
from triton_agent.tools.errors import UsageError
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, evaluator_for
from triton_agent.tools.machine.hardware import visible_gpus
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Evaluation
from triton_agent.tools.settings import EvaluatorSettings

Record = tuple[Attempt, list[Grading]]
KEYS = ("problem", "policy", "status", "since")
TEXT_SUFFIXES = (".py", ".md", ".txt", ".jsonl")


def parse_filter(text: str) -> Selection:
    """The runs that `--runs` means."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    named = dict(word.split("=", 1) for word in words if "=" in word)
    ids = tuple(word for word in words if "=" not in word and word != "all")
    unknown = sorted(set(named) - set(KEYS))
    if not words or unknown:
        said = f"{unknown[0]}= is no filter" if unknown else "it is empty"
        raise UsageError(f"--runs {text}: {said}", remedy=f"all, ids, or {', '.join(key + '=' for key in KEYS)}")
    return dataclasses.replace(Selection(ids=ids), **cast(dict[str, Any], named))


def records(where: str | None, runs: str) -> list[Record]:
    """Every attempt of the runs, with what became of it."""
    chosen = parse_filter(runs)
    with open_store(where) as store:
        ids = tuple(run.id for run in select_runs(store, chosen))
        if not ids:
            raise UsageError(f"--runs {runs}: no run fits", where=store.where, remedy="see `triton-agent runs list`")
        return list(store.iterate(AttemptFilter(runs=ids)))


def imitable(found: Sequence[Record], render: Render | None = None) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Conversations that ended in a candidate that passed, and why others are left out.

    `render` makes the prompt for answers of authors that were shown no messages, the built-in one among them.
    """
    left_out = LeftOut()
    judged = [Judged(attempt=attempt, evaluation=latest_evaluation(gradings)) for attempt, gradings in found]
    return list(sft_rows(judged, Which.PASSED, Shape.PROMPT_COMPLETION, left_out, render)), left_out.reasons


def texts(paths: Sequence[str]) -> Iterator[str]:
    """Of files, and of all files with text in folders."""
    for name in paths:
        path = Path(name)
        if not path.exists():
            raise UsageError(f"--data {name}: there is no such file")
        inside = sorted(p for p in path.rglob("*") if p.suffix in TEXT_SUFFIXES) if path.is_dir() else [path]
        for file in inside:
            yield file.read_text(errors="replace")


def encoder(tokenizer: Any) -> Any:
    """Messages to the tokens of the prompt that asks for the next answer."""

    def encode(messages: Sequence[Message]) -> list[int]:
        plain = [{"role": message.role, "content": message.content} for message in messages]
        ids: list[int] = tokenizer.apply_chat_template(
            plain, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        return ids

    return encode


def questions(found: Sequence[Record], tokenizer: Any) -> dict[str, tuple[Attempt, tuple[int, ...]]]:
    """For each problem the first prompt of a run: its attempt and its tokens, by the problem's digest."""
    asked: dict[str, tuple[Attempt, tuple[int, ...]]] = {}
    for attempt, _ in found:
        said = attempt.completion
        ids = tuple(encoder(tokenizer)(said.messages)) if said.messages else said.prompt_ids
        if attempt.parent is None and ids:
            asked.setdefault(attempt.observation.problem.digest, (attempt, ids))
    return asked


@contextlib.contextmanager
def judges(attempts: Sequence[Attempt]) -> Iterator[Any]:
    """Judges sources by the problems of these attempts, under their rules; an evaluator starts when it is needed."""
    by_digest = {attempt.observation.problem.digest: attempt for attempt in attempts}
    device = "cuda" if visible_gpus() else "cpu"
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="triton-agent-train-")))
        nursery = stack.enter_context(Nursery(str(scratch / "nursery.log")))
        ready: dict[str, AnyEvaluator] = {}

        def judge(digest: str, source: str) -> Evaluation:
            if digest not in ready:
                seen = by_digest[digest].observation
                rules = seen.rules
                settings = EvaluatorSettings(
                    device=device, target=rules.target, allow_library=rules.allow_library, precision=rules.precision
                )
                folder = scratch / digest[:16]
                os.makedirs(folder, exist_ok=True)
                spec = restored(seen.problem, folder)
                ready[digest] = evaluator_for(spec, settings, nursery=nursery)
                stack.callback(ready[digest].close)
            return ready[digest].evaluate(source)

        yield judge

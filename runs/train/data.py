"""Loads the data of a training: stored runs by a filter, and texts for a tokenizer. Opens judges for held-out problems.

A filter is a comma-separated list of words: `all`, ids of runs (or their beginnings, or `last`), and `problem=`,
`policy=`, `status=`, `since=`, as in `runs list`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from triton_agent.memory.exchange.trl import JudgedAttempt, Render, Shape, SkipCounts, Which, sft_rows
from triton_agent.memory.listing import AttemptFilter, RunSummary
from triton_agent.memory.records import Attempt, Grading, Message
from triton_agent.policy.train.record.trajectories import latest_evaluation
from triton_agent.runs.cli.selection import RunSelection, select_runs
from triton_agent.runs.cli.store_option import open_store
from triton_agent.runs.history.stored_problem import restored
from triton_agent.tools.errors import UsageError
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, evaluator_for
from triton_agent.tools.machine.hardware import visible_gpus
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Evaluation
from triton_agent.tools.settings import EvaluatorSettings, Profiling

Record = tuple[Attempt, list[Grading]]
KEYS = ("problem", "policy", "status", "since")
TEXT_SUFFIXES = (".py", ".md", ".txt", ".jsonl")


def parse_filter(text: str) -> RunSelection:
    """Parse `--runs`."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    named = dict(word.split("=", 1) for word in words if "=" in word)
    ids = tuple(word for word in words if "=" not in word and word != "all")
    unknown = sorted(set(named) - set(KEYS))
    if not words or unknown:
        said = f"{unknown[0]}= is no filter" if unknown else "it is empty"
        raise UsageError(f"--runs {text}: {said}", remedy=f"all, ids, or {', '.join(key + '=' for key in KEYS)}")
    return dataclasses.replace(RunSelection(ids=ids), **cast(dict[str, Any], named))


def records(where: str | None, runs: str) -> Iterator[Record]:
    """Yield every attempt of the runs with its gradings."""
    yield from _records_of(where, tuple(run.id for run in select(where, runs)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The runs in parts, oldest first, and how many processes should read them."""

    parts: tuple[Callable[[], Iterator[Record]], ...]
    processes: int


def in_parts(where: str | None, runs: str) -> Parts:
    """Split runs for several processes; few attempts are read in this process, since others take time to start."""
    slices: list[list[str]] = [[]]
    held = 0
    for run in reversed(select(where, runs)):
        if held >= PART_ATTEMPTS * len(slices):
            slices.append([])
        slices[-1].append(run.id)
        held += run.attempts
    return Parts(
        parts=tuple(functools.partial(_records_of, where, tuple(ids)) for ids in slices),
        processes=min(len(os.sched_getaffinity(0)), READERS_AT_MOST) if len(slices) > 1 else 1,
    )


READERS_AT_MOST = 8
PART_ATTEMPTS = 4000
"""Attempts that a process reads at once, in a few seconds; it takes two to start."""


def select(where: str | None, runs: str) -> list[RunSummary]:
    """Return the runs that the filter names, newest first; raise UsageError if there are none."""
    chosen = dataclasses.replace(parse_filter(runs), with_best=False)
    with open_store(where) as store:
        found = select_runs(store, chosen)
        if not found:
            raise UsageError(f"--runs {runs}: no run matches", where=store.where, remedy="see `triton-agent runs list`")
        return found


def _records_of(where: str | None, ids: tuple[str, ...]) -> Iterator[Record]:
    with open_store(where) as store:
        yield from store.iterate(AttemptFilter(runs=ids))


def soundness(paths: Sequence[str]) -> dict[str, bool]:
    """Read reports of `check-problem --json`, one or several in a file; return by digest whether a problem is sound."""
    found = {}
    for name in paths:
        try:
            text, decoder = Path(name).read_text().strip(), json.JSONDecoder()
            while text:
                report, end = decoder.raw_decode(text)
                found[str(report["problem"]["digest"])] = bool(report["sound"])
                text = text[end:].lstrip()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"--problem-reports {name}: {error}", remedy="a file with the output of `check-problem --json`"
            ) from None
    return found


def imitable(found: Iterable[Record], render: Render | None = None) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return conversations that ended in a candidate that passed, and counts of the others by reason.

    `render` makes the prompt for authors without messages, such as the built-in one.
    """
    left_out = SkipCounts()
    judged = (JudgedAttempt(attempt=attempt, evaluation=latest_evaluation(gradings)) for attempt, gradings in found)
    return list(sft_rows(judged, Which.PASSED, Shape.PROMPT_COMPLETION, left_out, render)), left_out.reasons


def require_files(names: Sequence[str]) -> None:
    """Raise a UsageError if one of the paths of `--data` is missing."""
    for name in names:
        if not Path(name).exists():
            remedy = "a file or folder; `data make FOLDER --solve` writes FOLDER/conversations.jsonl"
            raise UsageError(f"--data {name}: there is no such file", remedy=remedy)


def texts(paths: Sequence[str]) -> Iterator[str]:
    """Yield the texts of files, and of all text files in folders; of conversations in JSON lines, their messages."""
    for name in paths:
        path = Path(name)
        require_files([name])
        inside = sorted(p for p in path.rglob("*") if p.suffix in TEXT_SUFFIXES) if path.is_dir() else [path]
        for file in inside:
            text = file.read_text(errors="replace")
            if file.suffix == ".jsonl":
                for line in filter(str.strip, text.splitlines()):
                    yield from _contents(line)
            else:
                yield text


def _contents(line: str) -> Iterator[str]:
    """Yield the messages of a conversation; a line that holds none is a text itself."""
    try:
        row = json.loads(line)
        messages = row.get("messages") or [*row.get("prompt", ()), *row.get("completion", ())]
        yield from [message["content"] for message in messages] or [line]
    except (ValueError, AttributeError, TypeError, KeyError):
        yield line


def encoder(tokenizer: Any) -> Callable[[Sequence[Message]], list[int]]:
    """Return a function that encodes messages as the prompt for the next answer."""
    return functools.partial(_encode, tokenizer)


def _encode(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    plain = [{"role": message.role, "content": message.content} for message in messages]
    ids: list[int] = tokenizer.apply_chat_template(plain, add_generation_prompt=True, tokenize=True, return_dict=False)
    return ids


def questions(found: Iterable[Record], tokenizer: Any) -> dict[str, tuple[Attempt, tuple[int, ...]]]:
    """Return the first attempt at each problem and the tokens of its prompt, by the problem's digest."""
    asked: dict[str, tuple[Attempt, tuple[int, ...]]] = {}
    for attempt, _ in found:
        said = attempt.completion
        ids = tuple(encoder(tokenizer)(said.messages)) if said.messages else said.prompt_ids
        if attempt.parent is None and ids:
            asked.setdefault(attempt.observation.problem.digest, (attempt, ids))
    return asked


@contextlib.contextmanager
def judges(attempts: Sequence[Attempt]) -> Iterator[Any]:
    """Yield a judge for the problems of these attempts under their rules; evaluators start when needed."""
    by_digest = {attempt.observation.problem.digest: attempt for attempt in attempts}
    device = "cuda" if visible_gpus() else "cpu"
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="triton-agent-train-")))
        nursery = stack.enter_context(Nursery(str(scratch / "nursery.log")))
        nursery.expect_problems()
        ready: dict[str, AnyEvaluator] = {}

        def judge(digest: str, source: str) -> Evaluation:
            if digest not in ready:
                seen = by_digest[digest].observation
                rules = seen.rules
                settings = EvaluatorSettings(
                    device=device,
                    target=rules.target,
                    allow_library=rules.allow_library,
                    precision=rules.precision,
                    profile=Profiling.ALL,
                    waits_for_memory=False,  # all evaluators stay open
                )
                folder = scratch / digest[:16]
                os.makedirs(folder, exist_ok=True)
                spec = restored(seen.problem, folder)
                ready[digest] = evaluator_for(spec, settings, nursery=nursery)
                stack.callback(ready[digest].close)
            return ready[digest].evaluate(source)

        yield judge

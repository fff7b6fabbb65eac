"""Measures the cost of preparing logged turns for training, in seconds and memory, from a store to training rows.

The store is filled with runs of four turns as from a language model: a plan and the fused kernel of
`examples/gated_mlp_fused.py` with other numbers in each answer, a token for each word, digit and sign, prompts with the
parent's kernel, verdicts with a diagnosis and times. A separate process then does what `train grpo` does before the
first step, without a model: read, compute rewards, compare, write. Rows in a CSV file; see `rows.py`.

Not measured: a tokenizer, whose every token is decoded once, and scoring by a model, which plan gains need.

    python benchmarks/prepare_turns.py --turns 100000
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
SECONDS_BAR = 60.0
"""Time limit for 100,000 turns on two cores."""
BYTES_BAR = 2e9
PROMPT_TOKENS = 2000
VOCABULARY = "words.json"
WORD = re.compile(r"[^\W\d]+|\d|\s+|[^\w\s]")
TURNS = 4
PROBLEMS = 100
CHUNK = 512
MEGABYTE = 1e6


def main() -> None:
    """Measure, print and append rows; exit code 1 if a bar is missed."""
    options = _options()
    if options.measure:
        print(json.dumps(_measure(options.measure, options.recipe)))
        return
    import rows

    shared = rows.provenance()
    with tempfile.TemporaryDirectory() as folder:
        _log(Path(folder), options.turns)
        command = [sys.executable, __file__, "--measure", folder, "--recipe", options.recipe]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    for name, value in found.items():
        print(f"{name:16} {value:,}")
    shape = {"turns": options.turns, "recipe": options.recipe}
    rows.append(options.out, shared, [{**shape, **found}])
    share = options.turns / 100_000
    if found["seconds"] > SECONDS_BAR * share or found["peak_mb"] * MEGABYTE > BYTES_BAR:
        sys.exit(f"above the bar of {SECONDS_BAR * share:g} s or {BYTES_BAR / MEGABYTE:g} MB")


def _measure(folder: str, recipe: str) -> dict[str, float]:
    """Prepare the logged turns; return seconds, and the sum of the peaks of memory of this process and its children."""
    from triton_agent.policy.train.prepare.prepared import prepare
    from triton_agent.policy.train.prepare.recipes import recipe_named
    from triton_agent.policy.train.record.trajectories import Knowledge, collect_parts
    from triton_agent.runs.train.data import in_parts

    words, chosen = Words(json.loads((Path(folder) / VOCABULARY).read_text())), recipe_named(recipe)
    began_s = time.perf_counter()
    stored = in_parts(str(Path(folder) / "store.db"), "all")
    knowledge = Knowledge(decode=words.decode, scratch=Path(folder))
    collected = collect_parts(stored.parts, chosen, knowledge, stored.processes)
    read_s = time.perf_counter() - began_s
    prepared = prepare(collected.samples, chosen, unsampled=collected.unsampled)
    prepared.save(Path(folder) / "rows.jsonl")
    own, largest = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    children = stored.processes if stored.processes > 1 else 0
    return {
        "seconds": round(time.perf_counter() - began_s, 2),
        "read_seconds": round(read_s, 2),
        "cpu_seconds": round(sum(os.times()[:4]), 2),
        "processes": 1 + children,
        "peak_mb": round((own.ru_maxrss + children * largest.ru_maxrss) * 1024 / MEGABYTE),
        "rows": len(prepared.rows),
        "tokens": sum(len(sample.roles) for sample in collected.samples),
    }


def _log(folder: Path, turns: int) -> None:
    from triton_agent.memory.store import Store

    words = Words()
    with Store.open(folder / "store.db") as store:
        pending: list[Any] = []
        for run, pairs in _runs(words, turns):
            store.add_run(run)
            pending += pairs
            if len(pending) >= CHUNK:
                store.add_attempts(pending)
                pending = []
        store.add_attempts(pending)
    (folder / VOCABULARY).write_text(json.dumps(list(words.known)))


class Words:
    """A tokenizer whose tokens are words, blanks, digits and signs; it learns each one when it first occurs."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.known = {word: number for number, word in enumerate(known)}
        self._texts = list(self.known)

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.known.setdefault(word, len(self.known)) for word in WORD.findall(text))

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(self._texts.__getitem__, ids))


def _runs(words: Words, turns: int) -> Iterator[tuple[Any, list[Any]]]:
    from tests.memory import samples
    from tests.policy.train.evaluations import DIAGNOSIS

    from triton_agent.memory.observation import BudgetLeft, Observation, Role, Rules, Tried
    from triton_agent.memory.records import Attempt, Completion, Distribution, Run, SamplingRecord
    from triton_agent.policy.answer import read_answer, write_answer

    kernel = (HERE.parent / "examples" / "gated_mlp_fused.py").read_text()
    views = [samples.problem(f"problem{number}", "aten.mm", shape=(number + 1, 512)) for number in range(PROBLEMS)]
    chance, now = random.Random(0), datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)
    limits = SamplingRecord(temperature=1.0, tokens_at_most=4096)
    for number in range(turns // TURNS):
        run = Run(id=f"run{number}", problem=views[number % PROBLEMS], policy="vllm:m", settings={}, started_at=now)
        pairs: list[Any] = []
        shown: tuple[Tried, ...] = ()
        for turn in range(TURNS):
            source = kernel.replace("128", str(chance.randrange(10**9))) + f"\nTILE = {chance.randrange(10**9)}\n"
            text = write_answer("Fuse the products and the gate into one kernel, tile rows and columns.", source)
            ids = words.encode(text)
            attempt = Attempt(
                run=run.id,
                turn=turn,
                index=0,
                parent=pairs[-1][0].key if pairs else None,
                observation=Observation(
                    problem=run.problem, rules=Rules(), turn=turn, seed=number, budget=BudgetLeft(), tried=shown
                ),
                completion=Completion(
                    text=text,
                    policy="vllm:m",
                    policy_version="1",
                    prompt_ids=tuple(chance.choices(range(8000), k=PROMPT_TOKENS)),
                    token_ids=ids,
                    log_probabilities=tuple(-chance.randrange(1 << 20) / (1 << 18) for _ in ids),
                    log_probabilities_of=Distribution.SAMPLED,
                    sampling=dataclasses.replace(limits, seed=number * TURNS + turn),
                ),
                source=read_answer(text).source,
                created_at=now + datetime.timedelta(seconds=number, minutes=turn),
            )
            speed = chance.uniform(0.5, 3.0)
            grading = samples.failed(attempt) if chance.random() < 0.5 else samples.passed(attempt, speed)
            if grading.evaluation and chance.random() < 0.7:  # it ran; the others are compile errors
                launched = dataclasses.replace(grading.evaluation, diagnosis=DIAGNOSIS)
                grading = dataclasses.replace(grading, evaluation=launched)
            pairs.append((attempt, grading))
            evaluation = grading.evaluation
            shown = (
                Tried(
                    attempt=attempt.key,
                    turn=turn,
                    role=Role.PARENT,
                    status=evaluation.status if evaluation else None,
                    source=attempt.source or "",
                    speedup=evaluation.timings[0].speedup if evaluation and evaluation.timings else None,
                ),
            )
        yield run, pairs


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What preparing logged turns for training costs.")
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--recipe", default="default")
    parser.add_argument(
        "--out", type=Path, default=HERE / "results" / "prepare_turns.csv", help="the CSV file for rows"
    )
    parser.add_argument("--measure", metavar="FOLDER", help="only measure what is in this folder")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Measures the cost of a turn beside a language model: milliseconds to render its prompt and to read its answer.

The history has the number of tokens asked for; it is shown once as a whole and once by half. *Cold* is a first prompt,
with no counts cached; *warm* is a prompt of texts that were all counted before; *next* is the turn after it, with a new
attempt of 1,500 tokens. Reading an answer as long as the history is added to each. Tokens are counted by a tokenizer
trained for the benchmark (byte-level merges, as most models have) if `tokenizers` is installed, otherwise by
`policy/llm/prompting/counting.py`. The processor time is reported beside the wall time, since other work on the machine
disturbs it less. Rows in a CSV file; see `rows.py`.

Not measured: a model, and a chat template.

    python benchmarks/prompts.py --tokens 32768
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
BARS_MS = {"warm": 5.0, "cold": 100.0}
VOCABULARY = 16_384
Count = Callable[[str], int]
Cost = tuple[float, float]
"""Milliseconds of wall time and of processor time."""


def main() -> None:
    """Measure, print and append rows; exit code 1 if a bar is missed."""
    options = _options()
    import rows

    shared = rows.provenance()
    counted_by, count = _count()
    read = _read(count, options.tokens)
    reading = _median([_cost(read) for _ in range(options.repeats)])
    found = [{"tokens": options.tokens, "allowed": "", "figure": "read", **_row(reading)}]
    for allowed, share in (("all", 1.0), ("half", 0.5)):
        for figure, cost in _rendering(count, options.tokens, share, options.repeats).items():
            both = (cost[0] + reading[0], cost[1] + reading[1])
            row = {"tokens": options.tokens, "allowed": allowed, "figure": f"render and read, {figure}"}
            found.append({**row, **_row(both)})
    for row in found:
        told = f"{row['wall_p50_ms']:8} ms wall {row['cpu_p50_ms']:8} ms processor"
        print(f"{row['tokens']:6} tokens {row['allowed']:5} {row['figure']:24} {told}")
    rows.append(options.out, shared, [{"counted_by": counted_by, **row} for row in found])
    if any(row["wall_p50_ms"] > BARS_MS.get(str(row["figure"]).rpartition(" ")[2], float("inf")) for row in found):
        sys.exit(f"above the bar of {BARS_MS['warm']:g} ms warm or {BARS_MS['cold']:g} ms cold")


def _row(cost: Cost) -> dict[str, Any]:
    return {"wall_p50_ms": round(cost[0], 2), "cpu_p50_ms": round(cost[1], 2)}


def _rendering(count: Count, tokens: int, share: float, repeats: int) -> dict[str, Cost]:
    """Render prompts; each repeat is a run of its own with other texts and nothing cached."""
    from triton_agent.policy.llm.prompting.prompt import RememberedCount, render

    found: dict[str, list[Cost]] = {"cold": [], "warm": [], "next": []}
    for run in range(repeats):
        first, second = _turns(count, tokens, run)
        budget = int(share * render(first, budget_tokens=10**9, count=count).tokens)
        _forget()
        ask = functools.partial(render, budget_tokens=budget, count=RememberedCount(count))
        for figure, observation in (("cold", first), ("warm", first), ("next", second)):
            found[figure].append(_cost(functools.partial(ask, observation)))
    return {figure: _median(costs) for figure, costs in found.items()}


def _forget() -> None:
    """Clear the caches of texts, except for their counts, which are new for each run anyway."""
    from triton_agent.policy.llm.prompting import condensing, quoting, sections

    for remembered in (quoting._fenced, condensing.kernels_only, condensing.signatures_only, sections._graph_text):
        remembered.cache_clear()


def _turns(count: Count, tokens: int, run: int) -> tuple[Any, Any]:
    """Return the observation of a late turn with this many tokens of history, and the one after it."""
    from tests.policy.llm.prompting.shown import improve, passed

    from triton_agent.memory.observation import BudgetLeft

    base = improve()
    files = sum(1 for item in base.tried if item.source) + 1
    share = (tokens - 2_500) // files
    sources = [_file(count, share, f"{run}_{place}") for place in range(files)]
    left = iter(sources)
    tried = tuple(dataclasses.replace(item, source=next(left)) if item.source else item for item in base.tried)
    lessons = tuple(
        dataclasses.replace(one, text=sources[-1]) if one.kind == "kernel" else one for one in base.recalled
    )
    first = dataclasses.replace(base, tried=tried, recalled=lessons)
    newest = passed("4.0", 1.6, source=_file(count, 1500, f"{run}_new"))
    second = dataclasses.replace(first, tried=(*tried, newest), turn=5, budget=BudgetLeft(turns=1, seconds=380.0))
    return first, second


def _file(count: Count, tokens: int, name: str) -> str:
    """Return a file of about this many tokens, with several kernels."""
    from tests.policy.llm.prompting.shown import example

    whole = example("softmax_online.py")
    kernel = whole[whole.index("@triton.jit") : whole.index("class ModelNew")]
    copies = max(0, round((tokens - count(whole)) / count(kernel)))
    return "\n\n".join([whole, *(kernel.replace("def ", f"def k{name}_{number}_") for number in range(copies))])


def _read(count: Count, tokens: int) -> Callable[[], Any]:
    """Return a function that reads an answer with a plan and a file, of this many tokens in all."""
    from triton_agent.policy.answer import read_answer, write_answer

    text = write_answer("Fuse both products.\n" * 200, _file(count, tokens - 800, "answer"))
    return functools.partial(read_answer, text)


def _cost(act: Callable[[], Any]) -> Cost:
    """Return the wall and processor milliseconds of a call."""
    wall, processor = time.perf_counter(), time.process_time()
    act()
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - processor) * 1e3


def _median(costs: Sequence[Cost]) -> Cost:
    return statistics.median(cost[0] for cost in costs), statistics.median(cost[1] for cost in costs)


def _count() -> tuple[str, Count]:
    """Return a tokenizer, and its name for the rows."""
    try:
        from tokenizers import Tokenizer, __version__, models, pre_tokenizers, trainers
    except ImportError:
        from triton_agent.policy.llm.prompting.counting import token_bound

        return "token_bound", token_bound
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False)
    texts = [path.read_text(encoding="utf-8") for path in sorted(HERE.parent.glob("*/*.py"))]
    tokenizer.train_from_iterator(texts, trainer)
    return f"tokenizers {__version__}, byte-level, {VOCABULARY}", lambda text: len(tokenizer.encode(text).ids)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What prompts and answers cost, in milliseconds a turn.")
    parser.add_argument("--tokens", type=int, default=32_768, help="of history, and of the answer")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "prompts.csv", help="the CSV file for rows")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""The data card of a dataset: a README written from the data, with the header by which `datasets` loads it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from triton_agent.policy.train.data.candidates import HELD_OUT, SPLITS, TRAIN, DataSettings, combination

Rows = Sequence[Mapping[str, Any]]
MOST_LISTED = 12


def card(
    settings: DataSettings,
    problems: Rows,
    conversations: Rows,
    *,
    refused: Mapping[str, int],
    tried: int,
    torch: str,
    composer: str,
    against: Sequence[str],
    solved: Mapping[str, int],
    audits: Mapping[bool, int],
) -> str:
    """Return the text of the card."""
    split = {name: [row for row in problems if row["split"] == name] for name in SPLITS}
    header = ["---", "license: apache-2.0", "tags: [triton, kernels, pytorch]", "configs:"]
    header += ["- config_name: problems", "  default: true", "  data_files:"]
    header += [line for name in SPLITS if split[name] for line in (f"  - split: {name}", f"    path: {name}.jsonl")]
    if conversations:
        header += ["- config_name: conversations", "  data_files:", "  - split: train", "    path: conversations.jsonl"]
    lines = [*header, "---", "", "# Problems for writers of Triton kernels", ""]
    lines += [
        f"{len(problems):,} PyTorch modules, composed at random by `triton-agent data make` and probed by running "
        f"them: {len(split[TRAIN]):,} to train on and {len(split[HELD_OUT]):,} held out.",
        "",
        "Each row of `train.jsonl` and `held_out.jsonl` is a problem; `source` is a file with `Model`, `get_inputs` "
        "and `get_init_inputs`, which also lies in `problems/`.",
        "",
        "## Made from",
        "",
        f"- seed {settings.seed}, difficulties {', '.join(settings.difficulties)}, "
        f"{settings.held_out:.0%} held out; equal settings give equal problems under torch {torch} "
        f"and version {composer} of the composer",
        f"- kept apart, by text and by operators, from: {', '.join(against) or 'no folder'}",
        "",
        "## Difficulty",
        "",
        *_difficulties(settings, problems),
        "",
        "## Dtypes",
        "",
        *_counts(Counter(row["dtype"] for row in problems), ("dtype", "problems")),
        "",
        "## Steps",
        "",
        *_counts(Counter(step for row in problems for step in set(row["steps"])), ("step", "problems")),
        "",
        "## Split",
        "",
        *_split(split),
        "",
        "## Left out",
        "",
        f"{tried:,} candidates were tried.",
        "",
        *_counts(Counter(refused), ("reason", "candidates")),
        "",
    ]
    if audits:
        lines += [
            "## Audit",
            "",
            f"`check-problem` tried wrong answers on {sum(audits.values()):,} problems: {audits.get(False, 0):,} were "
            "flagged, because too many passed. Reports are in `audits.jsonl`; flagged problems have no conversations.",
            "",
        ]
    if conversations or solved:
        lines += _conversations(conversations, solved)
    return "\n".join(lines)


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    return [*lines, *(f"| {' | '.join(row)} |" for row in cells)]


def _counts(counts: Counter[str], heads: Sequence[str]) -> list[str]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown, rest = ordered[:MOST_LISTED], ordered[MOST_LISTED:]
    more = [(f"{len(rest)} more kinds", sum(count for _, count in rest))] if rest else []
    return _table(heads, [*shown, *more]) if ordered else ["None."]


def _difficulties(settings: DataSettings, problems: Rows) -> list[str]:
    rows = []
    for name in settings.difficulties:
        own = [row for row in problems if row["difficulty"] == name]
        if own:
            steps, operators = ([len(row[key]) for row in own] for key in ("steps", "operators"))
            heavy = sum("heavy" in row["kinds"] for row in own) / len(own)
            reducing = sum("reduction" in row["kinds"] for row in own) / len(own)
            lines = statistics.median(len(row["source"].splitlines()) for row in own)
            spans = (f"{min(steps)} to {max(steps)}", f"{min(operators)} to {max(operators)}")
            rows.append((name, len(own), *spans, f"{reducing:.0%}", f"{heavy:.0%}", f"{lines:.0f}"))
    heads = ("difficulty", "problems", "steps", "operators", "with reductions", "with products", "lines of a file")
    return _table(heads, rows)


def _split(split: Mapping[str, Rows]) -> list[str]:
    trained, held = split[TRAIN], split[HELD_OUT]
    pairs = {pair for row in trained for pair in row["pairs"]}
    unseen = {pair for row in held for pair in row["pairs"]} - pairs
    combinations = [{combination(row) for row in rows} for rows in (trained, held)]
    return [
        f"Problems are split by composition. A pair is two steps of which one feeds the other: {len(pairs):,} pairs "
        f"occur in training, and {len(unseen):,} others only in held-out problems, each of which has at least one of "
        f"them. {len(combinations[0]):,} sets of operators occur in training, {len(combinations[1]):,} in held-out "
        f"problems, {len(combinations[0] & combinations[1]):,} in both. No two problems have the same graph.",
    ]


def _conversations(conversations: Rows, solved: Mapping[str, int]) -> list[str]:
    lines = ["## Conversations", ""]
    taken = sum(not row["judged"] for row in conversations)
    lines += [
        f"{len(conversations):,} conversations in `conversations.jsonl` end in a kernel: "
        f"{len(conversations) - taken:,} in one that passed, {taken:,} in one that was not judged (`judged` is "
        "false). "
        "They are about problems to train on, never about held-out ones. `prompt` is what a language model is shown "
        "in that turn, `completion` is the plan and the file. In a `repair` the prompt holds an attempt that failed "
        "and the evaluator's message; `fault` names the mistake that was put in, and is empty if an author made it. In "
        "an `improvement` it holds a slower attempt. Prompts state different versions "
        "of torch and triton, so that a model does not depend on them.",
        "",
        *_counts(Counter(row["kind"] for row in conversations), ("kind", "conversations")),
        "",
        *_counts(
            Counter(row["status_before"] for row in conversations if row["status_before"]),
            ("verdict before", "conversations"),
        ),
        "",
        *_counts(Counter(row["device"] for row in conversations), ("device", "conversations")),
        "",
        "Outcome of the built-in author by problem:",
        "",
        *_counts(Counter(solved), ("outcome", "problems")),
        "",
    ]
    return lines

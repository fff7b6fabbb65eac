"""`triton-agent bench compare BEFORE AFTER`: compares two records and says which changes are not noise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from triton_agent.runs.bench.compare.compare import LEVEL, Comparison, compare
from triton_agent.runs.bench.compare.differences import Difference
from triton_agent.runs.bench.compare.screen import comparison, what_happened
from triton_agent.runs.bench.rows import Against, Kind, Record, read_record
from triton_agent.runs.cli import console, exit_codes
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import to_json

DIFFERENCES_NAMED = 3
"""Differences that the message of a refusal names."""


def run(
    before: str, after: str, *, against: str = "eager", kind: str = "device", anyway: bool = False, json: bool = False
) -> int:
    """Compare two records and print the result. Slower kernels are a result, not an error."""
    found, records = compared(before, after, against=against, kind=kind, anyway=anyway)
    if json:
        print(as_json(found), flush=True)
        return exit_codes.GOOD
    out = console.results()
    out.print(comparison(found, *records), soft_wrap=not out.is_terminal)
    return exit_codes.GOOD


def compared(
    before: str, after: str, *, against: str = "eager", kind: str = "device", anyway: bool = False
) -> tuple[Comparison, tuple[Record, Record]]:
    """Return the comparison; raise UsageError if figures of the two mean different things, unless `anyway`."""
    chosen = _chosen(Against, against, "--baseline"), _chosen(Kind, kind, "--time")
    records = read_record(Path(before)), read_record(Path(after))
    found = compare(*records, names=(before, after), against=chosen[0], kind=chosen[1])
    if found.deciding and not anyway:
        where, remedy = f"{before} and {after}", "--anyway compares what they share, and says so"
        raise UsageError(f"not comparable: {_told(found.deciding)}", where=where, remedy=remedy)
    if not found.pairs:
        remedy = "compare records of the same problems"
        raise UsageError("no problem is in both with the same contents", where=f"{before} and {after}", remedy=remedy)
    return found, records


def _told(differences: Sequence[Difference]) -> str:
    more = len(differences) - DIFFERENCES_NAMED
    return "; ".join(map(str, differences[:DIFFERENCES_NAMED])) + (f"; and {more} more" if more > 0 else "")


def _chosen(kind: Any, name: str, option: str) -> Any:
    try:
        return kind(name)
    except ValueError:
        raise UsageError(f"no such value: {name}", where=option, remedy=f"one of {', '.join(kind)}") from None


def as_json(found: Comparison) -> str:
    """Return one JSON object with everything: the outcome for each problem, and the moves that are not noise."""
    data = to_json(found)
    moved = found.speed
    data["changed"] = {
        "solved": found.chance_solved <= LEVEL,
        "speed_of_solved": bool(moved and moved.solved and moved.solved.changed),
        "speed_of_all": bool(moved and moved.everything and moved.everything.changed),
    }
    for pair, item in zip(found.pairs, data["pairs"]):
        item["happened"] = what_happened(found, pair)
    return json.dumps(data, allow_nan=False)

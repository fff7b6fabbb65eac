"""A comparison of two benchmark records as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from triton_agent.runs.bench.compare.compare import LEVEL, Comparison, Pair, Shift
from triton_agent.runs.bench.rows import Record
from triton_agent.runs.history.attempt_page import interval, table
from triton_agent.tools.race.intervals import MARGIN

NAMED_AT_MOST = 40
"""Problems that the screen lists; the page and --json have all."""


def comparison(found: Comparison, before: Record, after: Record) -> RenderableType:
    """Return the tables: the two records, the summary, then the single problems."""
    parts: list[RenderableType] = [_sides(found, before, after), ""]
    if found.differences:
        parts += [_differences(found), ""]
    parts += [Text(solved_said(found)), Text(speed_said(found))]
    if found.timed:
        parts.append(Text(problems_said(found)))
    if found.speeds:
        parts += ["", _speeds(found)]
    named = list(_named(found))
    if named:
        parts += ["", _problems(named[:NAMED_AT_MOST])]
    if len(named) > NAMED_AT_MOST:
        parts.append(Text(f"and {len(named) - NAMED_AT_MOST} more; --json has all"))
    return Group(*parts)


def _sides(found: Comparison, before: Record, after: Record) -> Table:
    made = table("", "folder", "benchmark", "policy", "rows", "solved", right=("rows", "solved"))
    for side, name, record in (("before", found.before, before), ("after", found.after, after)):
        done = f"{len(record.rows)} of {len(record.head.labels)}"
        policy = str(record.head.settings.get("policy", ""))
        solved = str(sum(row.solved for row in record.rows))
        made.add_row(side, Text(name), Text(record.head.title), Text(policy), done, solved)
    return made


def _differences(found: Comparison) -> Table:
    made = table("not the same", "before", "after", "")
    for item in found.differences:
        made.add_row(
            Text(item.what),
            Text(item.before),
            Text(item.after),
            "not comparable because of it" if item.deciding else "",
        )
    return made


# -- in words ----------------------------------------------------------------------------------------------------------


def solved_said(found: Comparison) -> str:
    """Describe how many problems were solved before and after."""
    known = found.both_solved + found.neither_solved + len(found.gained) + len(found.lost)
    before, after = found.both_solved + len(found.lost), found.both_solved + len(found.gained)
    moved = f"{len(found.gained)} gained, {len(found.lost)} lost"
    said = f"Solved: {before} before, {after} after, of {known} problems known on both sides; {moved}"
    if found.gained or found.lost:
        said += f" (chance {chance(found.chance_solved)}: {_judged(found.chance_solved <= LEVEL)})"
    asides = [(found.unknown, "paired, but unknown on at least one side")]
    asides += [(len(found.only_before), "before only"), (len(found.only_after), "after only")]
    return "; ".join([said, *(f"{count} {words}" for count, words in asides if count)]) + "."


def problems_said(found: Comparison) -> str:
    """Describe how many single problems changed, and with which certainty."""
    return (
        f"Problem by problem: of {found.timed} timed on both sides {len(found.faster)} faster and "
        f"{len(found.slower)} slower, beyond {MARGIN:.0%} and their own intervals; where nothing has changed, "
        f"{1 - LEVEL:.0%} of comparisons name none."
    )


def chance(value: float) -> str:
    return f"{value:.2g}" if value >= 1e-3 else "under 0.001"


def _judged(changed: bool) -> str:
    return "not noise" if changed else "may be noise"


# -- speed -------------------------------------------------------------------------------------------------------------


def speed_said(found: Comparison) -> str:
    """Describe whether speed changed as a whole, in the chosen kind of time."""
    moved = found.speed
    if moved is None or moved.solved is None or moved.everything is None:
        return f"Speed against {found.against} in {found.kind} time: no problem was timed on both sides."
    return (
        f"Speed against {found.against} in {found.kind} time, after over before: "
        f"{shift_said(moved.solved)} solved on both sides; {shift_said(moved.everything)} in all, unsolved ones as 1."
    )


def shift_said(moved: Shift) -> str:
    """Format a change: `1.03x [1.01, 1.05] (chance 0.02: not noise) over 28 problems`."""
    sure = f"chance {chance(moved.chance)}: {_judged(moved.changed)}"
    return f"{interval(moved.ratio)} ({sure}) over {moved.of} problems"


def _speeds(found: Comparison) -> Table:
    numbers = ("of", "up", "down", "chance", " of", " chance")
    made = table(
        *("after over before", "time", "solved on both", "of", "up", "down", "chance"),
        *("all, unsolved as 1", " of", " chance", "baseline itself"),
        right=numbers,
    )
    for item in found.speeds:
        solved, everything = item.solved, item.everything
        cells = [f"{item.against}", f"{item.kind}", *_cells(solved)]
        cells += [_cells(everything)[place] for place in (0, 1, 4)]
        made.add_row(*map(Text, (*cells, interval(item.baseline.ratio) if item.baseline else "")))
    return made


def _cells(moved: Shift | None) -> list[str]:
    if moved is None:
        return [""] * 5
    return [interval(moved.ratio), str(moved.of), str(moved.higher), str(moved.lower), chance(moved.chance)]


# -- problems ----------------------------------------------------------------------------------------------------------


def what_happened(found: Comparison, pair: Pair) -> str:
    """Return `gained`, `lost`, `faster` or `slower`; empty if nothing changed beyond noise."""
    if pair.label in found.gained:
        return "gained"
    if pair.label in found.lost:
        return "lost"
    if not pair.changed or pair.ratio is None:
        return ""
    return "faster" if pair.ratio.median > 1 else "slower"


def _named(found: Comparison) -> Iterator[tuple[str, Pair]]:
    for wanted in ("gained", "lost", "faster", "slower"):
        yield from ((wanted, pair) for pair in found.pairs if what_happened(found, pair) == wanted)


def _problems(named: list[tuple[str, Pair]]) -> Table:
    made = table("problem", "", "before", "after", "after over before")
    for happened, pair in named:
        speeds = (pair.speedup_before, pair.speedup_after, pair.ratio)
        made.add_row(Text(pair.label), happened, *(Text(interval(value)) for value in speeds))
    return made

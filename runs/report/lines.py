"""The attempts of a run as marks of charts and as rows of a table, from their headers alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from triton_agent.memory.listing import AttemptHeader
from triton_agent.runs.report.charts import Mark
from triton_agent.runs.report.markup import Html, join, table, tag
from triton_agent.runs.report.words import interval, plain, result_said

Address = Callable[[str], str]
"""From the key of an attempt to where it is shown; empty if nowhere."""


def short(key: str) -> str:
    return key.rpartition("/")[2]


def kind_of(line: AttemptHeader) -> str:
    """Return how an attempt is drawn: `passed`, `failed` or `unmeasured`."""
    if line.status is None:
        return "unmeasured"
    return "passed" if line.passed else "failed"


def status_mark(line: AttemptHeader) -> Html:
    return tag("span", plain(line.state), class_=f"status {kind_of(line)}")


def marks(lines: Sequence[AttemptHeader], best: str | None, address: Address) -> list[Mark]:
    return [
        Mark(
            name=short(line.key),
            href=address(line.key),
            turn=line.turn,
            kind=kind_of(line),
            status=plain(line.state),
            best=line.key == best,
            parents=(short(line.parent),) if line.parent else (),
            speedup=line.speedup,
        )
        for line in lines
    ]


def overview(
    lines: Sequence[AttemptHeader], best: str | None, address: Address, *, caption: str, costs: Sequence[str] = ()
) -> Html:
    """Return a table with a row for each attempt. Columns that would be empty are left out.

    `costs` says in words what each attempt moves and launches, where nothing was timed.
    """
    columns: dict[str, Sequence[object]] = {
        "attempt": [
            join([tag("a", short(line.key), href=address(line.key)), " ★ best" if line.key == best else None])
            for line in lines
        ],
        "status": [status_mark(line) for line in lines],
        "speed-up": [interval(line.speedup) for line in lines],
        "moves": costs or [""] * len(lines),
        "from": [link(line.parent, line.key, address) if line.parent else "a fresh start" for line in lines],
        "because": [result_said(line) for line in lines],
        "author": [" ".join(filter(None, (line.policy, line.policy_version))) for line in lines],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    names = list(shown)
    right = [names.index("speed-up")] if "speed-up" in shown else []
    rows = list(zip(*shown.values(), strict=True))
    stacks = [names.index(name) for name in ("moves", "from") if name in shown]
    return table(names, rows, right=right, caption=caption, stacks=stacks)


def link(key: str, beside: str, address: Address) -> Html:
    """Return a link to an attempt, named in short if it is of the same run as the attempt `beside`."""
    name = short(key) if key.rpartition("/")[0] == beside.rpartition("/")[0] else key
    where = address(key)
    return tag("a", name, href=where) if where else tag("span", name)

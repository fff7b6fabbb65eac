"""Shows a benchmark while it runs: a live table in a terminal, a line for each problem in a pipe.

With `--json` every row goes to stdout as it is in the record, and everything else to stderr.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from triton_agent.runs.bench.problems import Task
from triton_agent.runs.bench.rows import Against, Kind, ProblemRow, row_line
from triton_agent.runs.bench.standing import speed_of, standing_for
from triton_agent.runs.cli.pace import Pace, in_words

ROWS_SHOWN = 16
REFRESHES_PER_S = 4
LABEL_WIDTH, VERDICT_WIDTH = 36, 16


class Screen(Protocol):
    """Shows the progress of a benchmark."""

    def say(self, text: str) -> None: ...
    def expect(self, due: int, total: int) -> None: ...
    def begin(self, task: Task, number: int) -> None: ...
    def event(self, event: dict[str, Any]) -> None: ...
    def finished(self, row: ProblemRow) -> None: ...
    def close(self) -> None: ...


def make_screen(*, as_json: bool) -> Screen:
    console = Console(stderr=True, highlight=False)
    if console.is_terminal and not as_json:
        return LiveScreen(console)
    return Lines(as_json=as_json)


def verdict_of(row: ProblemRow) -> str:
    """Return in one or two words how a problem ended."""
    if row.unusable:
        return "not usable"
    if not row.samples:
        return ""
    if not row.measured and not row.solved:
        return "not measured"
    passed, count = sum(sample.executed for sample in row.samples), len(row.samples)
    if count > 1:
        return f"{passed} of {count} passed"
    best = standing_for(row)
    return str(best.status) if best else ""


def remark_on(row: ProblemRow) -> str:
    """Return the main figure of a problem that passed, otherwise the reason why it did not."""
    if row.unusable:
        return row.unusable
    eager = speed_of(row, Against.EAGER, Kind.DEVICE)
    if eager is not None:
        compiled = speed_of(row, Against.COMPILE, Kind.DEVICE)
        beside = f", {compiled.speedup.median:.2f}x over compile" if compiled else ""
        return f"{eager.speedup.median:.2f}x over eager{beside}"
    said = (sample.message or sample.not_measured for sample in row.samples if not sample.executed)
    return "" if row.solved else next(filter(None, said), "")


class Lines:
    """A line for each problem, on stderr."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._progress = Pace()
        self._numbers: dict[str, int] = {}

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def expect(self, due: int, total: int) -> None:
        self._progress.expect(due, total)

    def begin(self, task: Task, number: int) -> None:
        self._numbers[task.label] = number + 1

    def event(self, event: dict[str, Any]) -> None:
        return

    def finished(self, row: ProblemRow) -> None:
        self._progress.finish()
        number = f"[{self._numbers.pop(row.label, 0)}/{self._progress.total}]"
        verdict, remark = f"{row.label:{LABEL_WIDTH}} {verdict_of(row):14}", remark_on(row)[:100]
        spent = ", ".join(filter(None, (f"{row.seconds:.1f} s", self._progress.left)))
        self.say("  ".join(filter(None, (f"{number} {verdict}", remark, spent))))
        if self._as_json:
            print(row_line(row), flush=True)

    def close(self) -> None:
        return


class LiveScreen:
    """A live table of the last problems, those under way, and the totals."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: deque[ProblemRow] = deque(maxlen=ROWS_SHOWN)
        self._counts = {"solved": 0, "judged": 0}
        self._doing: dict[str, str] = {}
        """Stage of each problem under way, by label."""
        self._progress = Pace()
        self._live = Live(console=console, refresh_per_second=REFRESHES_PER_S, get_renderable=self._render)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def expect(self, due: int, total: int) -> None:
        self._progress.expect(due, total)

    def begin(self, task: Task, number: int) -> None:
        self._doing[task.label] = "reading the problem, running the reference"
        if not self._live.is_started:
            self._live.start()

    def event(self, event: dict[str, Any]) -> None:
        turn = f"turn {event['turn'] + 1}" if event["kind"] == "turn" else ""
        label = event.get("label", "")
        if label in self._doing:
            self._doing[label] = turn or event.get("stage", "") or self._doing[label]

    def finished(self, row: ProblemRow) -> None:
        self._rows.append(row)
        self._counts["judged"] += bool(row.samples) and row.measured
        self._counts["solved"] += row.solved
        self._doing.pop(row.label, None)
        self._progress.finish()

    def close(self) -> None:
        if self._live.is_started:
            self._live.refresh()
            self._live.stop()

    def _render(self) -> RenderableType:
        table = Table(box=None, pad_edge=False)
        for heading, width in (("problem", LABEL_WIDTH), ("verdict", VERDICT_WIDTH)):
            table.add_column(heading, min_width=width, overflow="ellipsis", no_wrap=True)
        table.add_column("seconds", justify="right")
        table.add_column("")
        room = max(10, self._console.width - LABEL_WIDTH - VERDICT_WIDTH - len("seconds") - 8)
        for row in self._rows:
            colour = "green" if row.solved else "yellow" if row.unusable or not row.measured else "red"
            remark = escape(remark_on(row)[:room])
            table.add_row(escape(row.label), f"[{colour}]{verdict_of(row)}[/]", f"{row.seconds:.1f}", remark)
        for label, doing in list(self._doing.items()):
            table.add_row(escape(label), f"[cyan]{escape(doing)}[/]", "", "")
        progress = self._progress
        parts = (
            f"{progress.done} of {progress.total} problems",
            f"{self._counts['solved']} solved of {self._counts['judged']}",
            in_words(progress.spent_s),
            progress.left,
        )
        return Group(table, Text(", ".join(filter(None, parts))))

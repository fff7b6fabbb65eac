"""Shows a run while it goes on: a live table in a terminal, plain lines in a pipe, or one JSON object per event."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from triton_agent.agent import authors
from triton_agent.agent.ledger import Ledger
from triton_agent.agent.settings import LoopSettings
from triton_agent.agent.state import LEFT_OUT, Event
from triton_agent.policy.episode import Graded
from triton_agent.runs.cli.pace import Pace, in_words
from triton_agent.tools.ranking import best_of
from triton_agent.tools.results import AHEAD, Status, to_json

ROWS_SHOWN = 12
BLOCKS = "▁▂▃▄▅▆▇█"
REFRESHES_PER_S = 8
DETAIL_AT_MOST = 100
"""Length of what the line of an attempt says; `runs show` says all."""


class Screen(Protocol):
    """Shows the events of a run."""

    def begin(self, ledger: Ledger, settings: LoopSettings, title: str) -> None: ...
    def event(self, event: Event) -> None: ...
    def say(self, text: str) -> None: ...
    def close(self) -> None: ...


def make_screen(*, as_json: bool) -> Screen:
    if as_json:
        return JsonLines()
    console = Console(stderr=True, highlight=False, emoji=False)
    return LiveScreen(console) if console.is_terminal else PlainLines()


def figure_of(item: Graded | None) -> str:
    """Return the figure of an attempt: its measured speed-up or, for a draft, its traffic and launches."""
    if item is None or not item.standing.passed:
        return ""
    standing = item.standing
    if standing.speedup is not None:
        worst = standing.worst
        least = f", least {worst.speedup.median:.2f}x at {worst.name}" if worst else ""
        return f"{standing.speedup.median:.2f}x{least}"
    counted = " in its kernels" if standing.left_to_torch else ""  # bytes that torch's operators move are not counted
    ratio = standing.traffic_ratio
    traffic = f"moves {ratio:.2f}x the fewest bytes{counted}, " if ratio is not None else ""
    beside = f", {_counted(standing.left_to_torch, 'torch operator')}" if standing.left_to_torch else ""
    return f"{traffic}{_counted(standing.launches, 'launch', 'es')}{beside}"


def _counted(count: int, what: str, plural: str = "s") -> str:
    return f"{count} {what}{'' if count == 1 else plural}"


def trouble_of(event: Event) -> str:
    """Return a line about a policy that gave no answer or too few, or about a card that failed; else an empty text."""
    if event["kind"] == LEFT_OUT:
        first = (event["what"].splitlines() or [""])[0]
        return f"  {event['judge']} failed where another did not, and is left out: {first}; {event['others']} go on"
    if event["kind"] == authors.FAILED:
        return f"  {event['policy']} could not be asked: {event['what']}"
    if event["kind"] == authors.SHORT:
        return f"  {event['policy']} gave {event['given']} of {event['asked']} answers: {event['what']}"
    return ""


@dataclasses.dataclass(slots=True)
class Turns:
    """The turns of a search, with an estimate of the time left."""

    settings: LoopSettings
    pace: Pace = dataclasses.field(default_factory=Pace)

    def begin(self, turn: int) -> None:
        """Note that a turn begins. The first turn noted starts the clock; a resumed run may begin at any turn."""
        if not self.pace.total:
            self.pace.expect(self.settings.turns - turn, self.settings.turns)
        self.pace.finish(turn - self.pace.done)

    @property
    def left(self) -> str:
        """`at most about 3 min left`; empty before the first turn has ended. A search may end at any turn."""
        left_s, limit_s = self.pace.left_s, self.settings.seconds
        if left_s is None:
            return ""
        within_s = left_s if limit_s is None else min(left_s, max(0.0, limit_s - self.pace.spent_s))
        return f"at most about {in_words(within_s)} left"


@dataclasses.dataclass(slots=True)
class JsonLines:
    """One JSON object per event on stdout."""

    ledger: Ledger | None = None

    def begin(self, ledger: Ledger, settings: LoopSettings, title: str) -> None:
        self.ledger = ledger
        self._print({"kind": "run", "run": ledger.run.id, "problem": ledger.run.problem.name})

    def event(self, event: Event) -> None:
        extra: dict[str, Any] = {}
        if event["kind"] == "graded" and self.ledger is not None and self.ledger.is_graded(event["key"]):
            grading = self.ledger.graded(event["key"]).grading
            extra = {"evaluation": to_json(grading.evaluation), "failure": to_json(grading.failure)}
        self._print({**event, **extra})

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        return

    def _print(self, data: dict[str, Any]) -> None:
        print(json.dumps(data, allow_nan=False), flush=True)


@dataclasses.dataclass(slots=True)
class PlainLines:
    """Plain lines on stderr."""

    ledger: Ledger | None = None
    turns: Turns | None = None

    def begin(self, ledger: Ledger, settings: LoopSettings, title: str) -> None:
        self.ledger, self.turns = ledger, Turns(settings)
        self.say(title)

    def event(self, event: Event) -> None:
        assert self.ledger is not None and self.turns is not None
        if event["kind"] == "graded" and self.ledger.is_graded(event["key"]):
            self.say("  " + _line(self.ledger.graded(event["key"])))
        elif event["kind"] == "turn":
            self.turns.begin(event["turn"])
            turn = f"turn {event['turn'] + 1} of {self.turns.settings.turns}"
            self.say(", ".join(filter(None, (turn, self.turns.left))))
        elif event["kind"] == "stage" and event["stage"].startswith(AHEAD):
            self.say(f"  {_short(event['key']):6} {event['stage']} of the reference; torch.compile is next")
        elif event["kind"] == "sorting":
            self.say(f"  looking at {event['offered']} variants")
        elif event["kind"] == "recalled" and event["lessons"]:
            self.say(f"recalled {_counted(event['lessons'], 'lesson')} of earlier runs")
        elif told := trouble_of(event):
            self.say(told)

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        return


class LiveScreen:
    """A table of attempts that grows, with the best speed-up over the turns and the evaluations under way."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._ledger: Ledger | None = None
        self._turns: Turns | None = None
        self._title = ""
        self._doing: dict[str, str] = {}
        self._began_s = time.monotonic()
        self._closed = False
        self._live = Live(console=console, refresh_per_second=REFRESHES_PER_S, get_renderable=self._render)

    def begin(self, ledger: Ledger, settings: LoopSettings, title: str) -> None:
        self._ledger, self._turns, self._title = ledger, Turns(settings), title
        self._live.start()

    def event(self, event: Event) -> None:
        key = event.get("key", "")
        if event["kind"] == "turn" and self._turns is not None:
            self._turns.begin(event["turn"])
        elif event["kind"] in ("proposed", "evaluating"):
            self._doing[key] = "waiting" if event["kind"] == "proposed" else "evaluating"
        elif event["kind"] == "stage":
            self._doing[key] = event["stage"]
        elif event["kind"] == "graded":
            self._doing.pop(key, None)
        elif told := trouble_of(event):
            self.say(told)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)
        if not self._closed:
            self._live.start()  # show the elapsed seconds below the text

    def close(self) -> None:
        self._closed = True
        if self._live.is_started:
            self._live.refresh()
            self._live.stop()

    def _render(self) -> RenderableType:
        if self._ledger is None:
            return Text("" if self._closed else f"{time.monotonic() - self._began_s:.0f} s")
        history = self._ledger.history()
        return Group(Text(self._title), self._table(history), self._foot(history))

    def _table(self, history: list[Graded]) -> Table:
        table = Table(box=None, pad_edge=False)
        for heading, width in (("attempt", 7), ("verdict", 13), ("", 30), ("plan", None)):  # the plan is cut first
            table.add_column(heading, min_width=width, overflow="ellipsis", no_wrap=True)
        best = best_of(history)
        for item in history[-ROWS_SHOWN:]:
            mark = "[bold green]*[/] " if best and item.attempt.key == best.attempt.key else "  "
            table.add_row(mark + _short(item.attempt.key), _verdict(item), escape(figure_of(item)), escape(_plan(item)))
        for key, stage in list(self._doing.items())[:ROWS_SHOWN]:
            table.add_row("  " + _short(key), f"[cyan]{escape(stage)}[/]", "", "")
        return table

    def _foot(self, history: list[Graded]) -> Text:
        assert self._turns is not None
        best, settings = best_of(history), self._turns.settings
        turn = max((item.attempt.turn for item in history), default=0) + 1
        limit = f" of {settings.seconds:.0f} s" if settings.seconds else ""
        spent = f"turn {turn} of {settings.turns}, {time.monotonic() - self._began_s:.0f} s{limit}"
        left = "" if self._closed else self._turns.left
        told = (f"best: {figure_of(best) or 'none yet'}", sparkline(history), ", ".join(filter(None, (spent, left))))
        return Text("  ".join(told))


def sparkline(history: list[Graded]) -> str:
    """Draw the best speed-up after each turn as a row of blocks; empty if nothing was timed."""
    best: Graded | None = None
    by_turn: dict[int, float] = {}
    for item in history:
        if item.standing.surpasses(best.standing if best else None):
            best = item
        if best is not None and best.standing.speedup is not None:
            by_turn[item.attempt.turn] = best.standing.speedup.median
    values = list(by_turn.values())
    if not values:
        return ""
    low, high = min([*values, 1.0]), max(values)
    span = (high - low) or 1.0
    return "".join(BLOCKS[round((value - low) / span * (len(BLOCKS) - 1))] for value in values)


def _line(item: Graded) -> str:
    evaluation, failure = item.evaluation, item.grading.failure
    said = "not measured" if failure else str(evaluation.status) if evaluation else ""
    detail = figure_of(item) or (evaluation.message if evaluation else failure.what if failure else "")
    first = detail.partition("\n")[0]
    first = f"{first[: DETAIL_AT_MOST - 1]}…" if len(first) > DETAIL_AT_MOST else first
    return f"{_short(item.attempt.key):6} {said:14} {first}"


def _verdict(item: Graded) -> str:
    if item.evaluation is None:
        return "[yellow]not measured[/]"
    colour = "green" if item.evaluation.status is Status.PASSED else "red"
    return f"[{colour}]{item.evaluation.status}[/]"


def _plan(item: Graded) -> str:
    text = item.attempt.plan if item.standing.passed else (item.evaluation.message if item.evaluation else "")
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:90]


def _short(key: str) -> str:
    return key.rpartition("/")[2]

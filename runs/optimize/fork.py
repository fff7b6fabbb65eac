"""`triton-agent replay RUN --fork A`: a new run that sets out from attempt A of an earlier one.

It is given the problem and the settings of that run, but for those named anew, knows what that run knew when A had been
judged, and counts its turns on from there: `--turns` says how many more. A is the parent of its first answers.
"""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

from triton_agent.memory.records import Attempt, Run
from triton_agent.memory.store import Store
from triton_agent.runs.cli import console
from triton_agent.runs.cli.devices import choose, chosen_before
from triton_agent.runs.cli.store_option import load_history
from triton_agent.runs.optimize.command import hand_over
from triton_agent.runs.optimize.request import OptimizeRequest, parse_seconds
from triton_agent.runs.optimize.run import optimize
from triton_agent.runs.optimize.screen import make_screen
from triton_agent.tools.errors import UsageError
from triton_agent.tools.versions import require_supported


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Settings of the new run; what is None is as it was."""

    policy: str | None = None
    device: str | None = None
    turns: int | None = None
    """How many more."""
    parallel: int | None = None
    budget: str | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    seed: int | None = None


def run_fork(name: str, attempt: str, changes: Overrides, *, out: str | None, store: str | None, json: bool) -> int:
    """From RUN and A to what comes of it."""
    for warning in require_supported():
        console.progress().print(f"warning: {warning}")
    screen = make_screen(as_json=json)
    with Store.open(store) as opened:
        history = load_history(opened, name)
        origin = history.attempt(attempt)
        if origin.grading is None:
            raise UsageError(
                f"{origin.key} has not been judged", remedy=f"first triton-agent optimize --resume {history.run.id}"
            )
        request = request_from(history.run, origin.attempt, changes)
        screen.say(f"a new run, from {origin.key}: {origin.status}")
        folder = Path(out) if out else None
        outcome = asyncio.run(optimize(request, opened, screen, out=folder, fork=origin.key))
        return hand_over(opened, outcome, out=out, json=json)


def request_from(run: Run, origin: Attempt, changes: Overrides) -> OptimizeRequest:
    """What the earlier run was asked for, with these changes."""
    before = OptimizeRequest.from_json(run.settings)
    if before.parts:
        raise UsageError(
            f"run {run.id} put a model together of its parts", remedy="fork the run of a part; `triton-agent runs list`"
        )
    more = before.turns - _first_turn(run) if changes.turns is None else changes.turns
    if more < 1:
        raise UsageError(f"--turns {more}", remedy="at least 1")
    chosen = choose(changes.device) if changes.device else chosen_before(before.device, before.cards)
    named = {name: getattr(changes, name) for name in ("policy", "parallel", "max_tokens", "max_cost", "seed")}
    return dataclasses.replace(
        before,
        **{name: value for name, value in named.items() if value is not None},
        part_of="",
        device=chosen.device,
        cards=chosen.cards,
        turns=origin.turn + 1 + more,
        seconds=before.seconds if changes.budget is None else parse_seconds(changes.budget),
    )


def _first_turn(run: Run) -> int:
    """Of a run that continues another one, the turn it began with."""
    if run.forked_from is None:
        return 0
    return int(run.forked_from.rpartition("/")[2].partition(".")[0]) + 1

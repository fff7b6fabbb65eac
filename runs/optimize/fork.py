"""`triton-agent replay RUN --fork A`: starts a new run from attempt A of an earlier run.

The new run has the problem and the settings of the earlier one, except for settings given anew. It begins with the
history of the earlier run up to A's verdict and counts its turns on from there; `--turns` is the number of further
turns. A is the parent of its first answers.
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
    """Settings of the new run; None keeps the earlier run's value."""

    policy: str | None = None
    device: str | None = None
    turns: int | None = None
    """Number of further turns."""
    parallel: int | None = None
    budget: str | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    seed: int | None = None


def run_fork(name: str, attempt: str, changes: Overrides, *, out: str | None, store: str | None, json: bool) -> int:
    """Start the new run from an attempt and return the exit code."""
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
    """Return the request of the earlier run with these changes."""
    before = OptimizeRequest.from_json(run.settings)
    if before.parts:
        raise UsageError(
            f"run {run.id} assembled a model from its parts",
            remedy="fork the run of a part; `triton-agent runs list` shows them",
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
    """Return the first turn of a run: 0, or the turn after the attempt that it was forked from."""
    if run.forked_from is None:
        return 0
    return int(run.forked_from.rpartition("/")[2].partition(".")[0]) + 1

"""`triton-agent replay`: plays a stored run step by step, or evaluates it again.

Playing reads the store and draws; it needs no GPU, policy, network or torch. `--verify` evaluates the stored candidates
again on this machine, see `judge_again.py`; `--regrade` also stores the new verdicts.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from rich.rule import Rule

from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.store_option import load_history, open_store
from triton_agent.runs.history.attempt_page import attempt_page
from triton_agent.runs.history.records import History, StoredAttempt
from triton_agent.tools.errors import UsageError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    run: str
    attempt: str | None
    plain: bool
    verify: bool
    regrade: bool
    device: str
    jobs: int
    json: bool


def run_replay(request: ReplayRequest, *, store: str | None) -> int:
    """Play, print or evaluate again."""
    if request.device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device {request.device}", remedy="auto, cpu or cuda")
    if request.jobs < 0:
        raise UsageError(f"--jobs {request.jobs}", remedy="a number of kernels; 0: as many as cores")
    with open_store(store, read_only=not request.regrade) as opened:
        history = load_history(opened, request.run)
        steps = history.attempts if request.attempt is None else history.path_to(history.attempt(request.attempt))
        if not steps:
            raise UsageError(f"run {history.run.id} has no attempts yet")
        if request.verify:
            from triton_agent.runs.history.replay_verify import verify

            only = steps if request.attempt is None else steps[-1:]
            return verify(
                opened,
                history,
                only,
                regrade=request.regrade,
                device=request.device,
                jobs=request.jobs,
                json=request.json,
            )
    if request.json:
        raise UsageError("--json goes with --verify", remedy="or: triton-agent runs show RUN --attempt A --json")
    if request.plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
        _print(history, steps)
    else:
        _play(history, steps)
    return exit_codes.GOOD


def _print(history: History, steps: Sequence[StoredAttempt]) -> None:
    out = console.results()
    for number, item in enumerate(steps, 1):
        out.print(Rule(f"step {number} of {len(steps)}"))
        out.print(attempt_page(item, history.parent_of(item)))


def _play(history: History, steps: Sequence[StoredAttempt]) -> None:
    from triton_agent.runs.history.replay_player import Page, Player

    def page(item: StoredAttempt) -> Page:
        return lambda changes: attempt_page(item, history.parent_of(item), changes=changes)

    Player([page(item) for item in steps], [f"{item.name} {item.status}" for item in steps], console.results()).play()

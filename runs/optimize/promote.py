"""`triton-agent promote RUN`: measures the best drafts of a run on a GPU and ships the fastest if it is faster.

The drafts were verified in an interpreter. Each of the best few is evaluated again in full, with timing, and the new
gradings are kept beside the old ones.
"""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

from triton_agent.agent import search
from triton_agent.agent.ledger import Ledger
from triton_agent.memory.records import GradingMachine, RunEnd
from triton_agent.memory.store import Store
from triton_agent.policy.episode import Graded, grade
from triton_agent.runs.cli.devices import choose
from triton_agent.runs.history.stored_problem import restored
from triton_agent.runs.optimize.request import OptimizeRequest
from triton_agent.runs.optimize.run import Outcome, machine_here
from triton_agent.runs.optimize.screen import Screen, figure_of
from triton_agent.runs.ship.call_form import measured_over_ranges
from triton_agent.runs.ship.shipped import ship_best
from triton_agent.tools.errors import NotJudgeableHere, UsageError
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, evaluator_for
from triton_agent.tools.machine.hardware import visible_gpus
from triton_agent.tools.processes.zygotes import own_nursery
from triton_agent.tools.ranking import best_of

CANDIDATES = 4
"""Drafts that are measured. The draft that moves the fewest bytes need not be the fastest, but usually ranks high."""


async def promote(store: Store, name: str, screen: Screen, folder: Path, *, cuda_graph: bool = False) -> Outcome:
    """Evaluate the best attempts of the run on this machine's GPU, and ship the fastest."""
    if not visible_gpus():
        raise NotJudgeableHere("no GPU was found, so nothing can be measured", remedy="see `triton-agent doctor`")
    ledger = Ledger.resume(store, name)
    end = store.end(ledger.run.id)
    drafts = search.beam(ledger.history(), CANDIDATES)
    if end is None or not drafts:
        raise UsageError(
            f"run {ledger.run.id} has nothing to promote" if end else f"run {ledger.run.id} has not ended",
            remedy=f"see `triton-agent runs show {ledger.run.id}`",
        )
    request = OptimizeRequest.from_json(ledger.run.settings)
    request = dataclasses.replace(request, device="cuda", cards="", cuda_graph=request.cuda_graph or cuda_graph)
    spec = await asyncio.to_thread(
        measured_over_ranges, restored(ledger.run.problem, folder), request.device, trust=request.trust
    )
    machine = machine_here(request.seed, choose("cuda"))
    screen.say(f"measuring the best {len(drafts)} of run {ledger.run.id} on {machine.gpu}")
    with (
        own_nursery() as nursery,
        await asyncio.to_thread(evaluator_for, spec, request.judging(), nursery=nursery, say=screen.say) as evaluator,
    ):
        graded = [await _measured(item, evaluator, store, machine, screen) for item in drafts]
        best = best_of([item for item in graded if item.standing.speedup is not None])
        shipped = best and await ship_best(spec, ledger.run, best, evaluator, request, folder, screen)
    return Outcome(run=ledger.run, end=_ended(end, best), best=best, shipped=shipped or None)


async def _measured(
    item: Graded, evaluator: AnyEvaluator, store: Store, machine: GradingMachine, screen: Screen
) -> Graded:
    grading = await grade(item.attempt, evaluator, machine)
    store.add_grading(grading)
    graded = Graded(attempt=item.attempt, grading=grading)
    status = grading.evaluation.status if grading.evaluation else "not measured"
    screen.say(f"  {item.attempt.key.rpartition('/')[2]:6} {status:14} {figure_of(graded)}")
    return graded


def _ended(end: RunEnd, best: Graded | None) -> RunEnd:
    return dataclasses.replace(end, best=best.attempt.key if best else None)

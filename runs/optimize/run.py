"""`triton-agent optimize`: turns a model's file into a drop-in file that is verified and, on a GPU, measured faster.

Connects evaluator, store, policies and loop, then ships the best attempt (`runs/ship`): the file is judged once more
as it is shipped. Everything a run learns is in the store, so `--resume` continues after a crash, a kill or Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import functools
import importlib
import os
import secrets
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_agent.agent import tasks
from triton_agent.agent.ledger import Ledger
from triton_agent.agent.pool import Pool
from triton_agent.agent.settings import GO_ON, MEANS, LoopSettings, StopReason
from triton_agent.agent.tasks import TaskCount
from triton_agent.memory.listing import RunFilter, RunState
from triton_agent.memory.observation import Lesson, ProblemView, Task
from triton_agent.memory.recall import recall
from triton_agent.memory.records import GradingMachine, Run, RunEnd, new_run_id, run_of
from triton_agent.memory.store import Store
from triton_agent.policy.episode import Graded
from triton_agent.policy.llm.toolbox import Equippable, RunTools
from triton_agent.policy.protocol import Policy
from triton_agent.runs.cli.devices import Chosen, chosen_before
from triton_agent.runs.cli.policies import make_policies
from triton_agent.runs.optimize.cards import opened_on
from triton_agent.runs.optimize.request import OptimizeRequest
from triton_agent.runs.optimize.screen import Screen
from triton_agent.runs.parts import choosing
from triton_agent.runs.parts.tally import Tally
from triton_agent.runs.ship.call_form import find_all, measured_over_ranges
from triton_agent.runs.ship.facts import CallForm
from triton_agent.runs.ship.shipped import Shipped, output_folder, require_writable, ship_best, why_never_shipped
from triton_agent.tools.errors import InstrumentError, UsageError
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, evaluator_for
from triton_agent.tools.machine.hardware import Gpu
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.zygotes import Nursery, own_nursery
from triton_agent.tools.ranking import best_of, standing
from triton_agent.tools.results import Evaluation, to_json
from triton_agent.tools.versions import project_version

if TYPE_CHECKING:
    from triton_agent.agent.loop import Loop

TRACING = "LANGSMITH_TRACING"
"""Variable that turns on LangSmith's tracing. Nothing is sent anywhere unless the user's environment sets it."""


RUNS_LOOKED_AT = 50
"""Latest runs of the same policy from which the outcomes of its tasks are counted."""
Preparation = Callable[[Ledger, LoopSettings], Awaitable[tuple[list[Policy], LoopSettings]]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a run, its best attempt and the shipped file."""

    run: Run
    end: RunEnd
    best: Graded | None
    shipped: Shipped | None
    """None if nothing was good enough to ship."""
    parts: Tally | None = None
    """Results of the parts, for a model optimized by parts."""


async def optimize(
    request: OptimizeRequest,
    store: Store,
    screen: Screen,
    *,
    out: Path | None = None,
    resume: str | None = None,
    fork: str | None = None,
    policies: list[Policy] | None = None,
    prepare: Preparation | None = None,
    shipping: bool = True,
    nursery: Nursery | None = None,
    on_start: Callable[[Callable[[], object]], None] | None = None,
) -> Outcome:
    """Carry out a run: a new one, an interrupted one (`resume`), or a new one from an earlier attempt (`fork`).

    `policies` replaces the policies that the request names. `prepare` is called once the run is in the store, and
    returns the policies and the settings to search with. Without `shipping` the best attempt stays in the store and no
    file is written. `nursery` is used if no card is named by number. `on_start` is called when the search begins, with
    a function that ends the search from any thread, as the first Ctrl-C does.
    """
    os.environ.setdefault(TRACING, "false")
    if shipping:
        require_writable(out or Path.cwd())
    spec = await asyncio.to_thread(measured_over_ranges, request.spec(), request.device, trust=request.trust)
    origin = run_of(fork) if fork else resume
    if origin is not None:
        _require_unchanged(store.run(origin), spec)
    settings, chosen = request.loop(), chosen_before(request.device, request.cards)
    ready = policies if policies is not None else make_policies(request.policy, request.model_options())
    screen.say(f"reading {spec.name}: running the reference, finding sizes to check at")

    def judging_on(card: str) -> contextlib.AbstractContextManager[AnyEvaluator]:
        judging = request.judging(card)
        # Two runs that each hold a card and wait for the other's would wait forever, so a run waits for one card only.
        # The evaluators of the whole model hold memory while those of a part are opened.
        if card != min(chosen.uuids) or request.part_of:
            judging = dataclasses.replace(judging, waits_for_memory=False)
        shared = nursery if nursery is not None and not card else nurseries.enter_context(own_nursery(card))
        return evaluator_for(spec, judging, nursery=shared, say=screen.say)

    asyncio.get_running_loop().call_soon(_import_ahead)  # while the evaluators are being opened
    async with (
        contextlib.AsyncExitStack() as nurseries,  # closing them ends a wait for memory after an interruption
        opened_on(chosen.uuids, judging_on, screen.say) as evaluators,
    ):
        taken_up = Ledger.resume(store, resume) if resume else None
        ledger = taken_up or _begin(store, spec, evaluators[0], request, fork, chosen.gpus)
        if prepare is not None:
            ready, settings = await prepare(ledger, settings)
        screen.begin(ledger, settings, _title(ledger.run, settings, len(evaluators)))
        suggestion = choosing.suggestion(ledger.run.problem.graphs)
        if suggestion and not (request.parts or request.part_of or request.own_kernels):
            screen.say(suggestion)
        forms = _find_calls(spec, request, screen) if shipping else None
        try:
            judges: Pool[AnyEvaluator] = Pool(evaluators)
            await _search(ledger, ready, judges, settings, store, screen, machine_here(settings.seed, chosen), on_start)
            best = best_of(ledger.history())
            shipped = None
            if best is not None and shipping:
                folder = output_folder(out, ledger.run)
                shipped = await _shipped(spec, ledger.run, best, judges.members, request, folder, screen, forms)
        finally:
            if forms is not None:
                forms.cancel()
            screen.close()
            for policy in ready:
                await policy.close()
    end = store.end(ledger.run.id)
    assert end is not None
    return Outcome(run=ledger.run, end=end, best=best, shipped=shipped)


def _find_calls(spec: ProblemSpec, request: OptimizeRequest, screen: Screen) -> asyncio.Task[dict[str, CallForm]]:
    """Start to find out how the problem's models are called, which shipping needs: seconds, in separate processes.

    If no file can be shipped, say so before the search has taken its time.
    """

    def tell(done: asyncio.Task[dict[str, CallForm]]) -> None:
        if done.cancelled() or done.exception():  # an error is raised where it is awaited
            return
        if reason := why_never_shipped(done.result()):
            screen.say(f"no file will be shipped: {reason}")

    found = asyncio.create_task(asyncio.to_thread(find_all, spec, trust=request.trust))
    found.add_done_callback(tell)
    return found


async def _shipped(
    spec: ProblemSpec,
    run: Run,
    best: Graded,
    evaluators: list[AnyEvaluator],
    request: OptimizeRequest,
    folder: Path,
    screen: Screen,
    forms: Awaitable[dict[str, CallForm]] | None,
) -> Shipped | None:
    """Ship the best attempt. One card measures all figures of a file; if the card fails, the next one is used."""
    for number, evaluator in enumerate(evaluators, start=1):
        try:
            return await ship_best(spec, run, best, evaluator, request, folder, screen, forms)
        except InstrumentError as error:
            if number == len(evaluators):
                raise
            screen.say(f"{evaluator.facts.place} failed, trying the next card: {error.what}")
    return None


def _require_unchanged(earlier: Run, spec: ProblemSpec) -> None:
    if earlier.problem.digest != spec.digest:
        raise UsageError(
            f"the problem of run {earlier.id} has changed since the run began",
            where=spec.path,
            remedy="restore the file, or start a new run",
        )


def _begin(
    store: Store,
    spec: ProblemSpec,
    evaluator: AnyEvaluator,
    request: OptimizeRequest,
    fork: str | None,
    cards: Sequence[Gpu],
) -> Ledger:
    now = datetime.datetime.now(datetime.UTC)
    run = Run(
        id=new_run_id(now, secrets.token_hex(8)),
        problem=ProblemView.of(spec, evaluator.facts, cards),
        policy=request.policy,
        settings=request.to_json(),
        started_at=now,
        forked_from=fork,
        commit=project_version(),
    )
    return Ledger.begin(store, run)


def _import_ahead() -> None:
    """Import LangGraph, the checkpoints and torch, and ask git for the version, while the evaluators are being opened.

    LangGraph takes a second or more, torch three, git some tenths of a second. An error is raised where the module is
    used.
    """
    threading.Thread(target=_import_torch, name="torch").start()
    with contextlib.suppress(ImportError):
        for module in ("agent.loop", "runs.optimize.checkpoints"):
            importlib.import_module(f"triton_agent.{module}")
    project_version()


def _import_torch() -> None:
    with contextlib.suppress(Exception):  # the error occurs again, and is reported, where torch is used
        importlib.import_module("torch")


async def _search(
    ledger: Ledger,
    policies: list[Policy],
    judges: Pool[AnyEvaluator],
    settings: LoopSettings,
    store: Store,
    screen: Screen,
    machine: GradingMachine,
    on_start: Callable[[Callable[[], object]], None] | None,
) -> None:
    end = ledger.ended()
    if end is not None and end.stop_reason not in GO_ON:
        screen.say(f"the run has already ended: {why_it_ended(end)}; shipping its best attempt")
        return
    _require_one_model(ledger, judges.members[0].facts.device)

    def lessons() -> tuple[Lesson, ...]:
        return tuple(recall(store, ledger.run.problem))

    def earlier_tasks() -> Mapping[Task, TaskCount]:
        ended = store.runs(RunFilter(policy=ledger.run.policy, state=RunState.ENDED, limit=RUNS_LOOKED_AT))
        ends = (store.end(run.id) for run in ended)
        return tasks.summed(end.summary.get("tasks", {}) for end in ends if end is not None)

    _give_tools(policies, judges, lessons)
    from triton_agent.agent.loop import Loop
    from triton_agent.runs.optimize.checkpoints import checkpointer

    async with checkpointer(store) as saver:
        loop = Loop(
            ledger,
            policies,
            judges,
            settings,
            recall=lessons,
            earlier_tasks=earlier_tasks,
            machine=machine,
            checkpointer=saver,
        )
        if on_start is not None:
            on_start(functools.partial(asyncio.get_running_loop().call_soon_threadsafe, loop.stop))
        async with _interruptible(loop, screen):
            async for event in loop.events():
                screen.event(event)
        await saver.adelete_thread(ledger.run.id)  # the run has ended, and the store holds all of it


def _give_tools(policies: list[Policy], judges: Pool[AnyEvaluator], lessons: Callable[[], Sequence[Lesson]]) -> None:
    """Give the language models their tools, which use the evaluators of this run."""

    async def try_draft(source: str) -> Evaluation:
        return await asyncio.to_thread(judges.members[0].try_out, source)

    for policy in policies:
        if isinstance(policy, Equippable):
            policy.equip(RunTools(try_draft=try_draft, recall=lessons))


def _require_one_model(ledger: Ledger, device: str) -> None:
    """Raise UsageError if the run was measured on another GPU model; speed-ups on two models cannot be compared."""
    measured = {item.evaluation.environment.device for item in ledger.history() if item.evaluation is not None}
    others = sorted(measured - {device, "", "cpu"})
    if others and device != "cpu":
        raise UsageError(
            f"run {ledger.run.id} was measured on {', '.join(others)}, and this is {device}",
            remedy=f"continue there, or start a new run from one of its attempts: `triton-agent replay "
            f"{ledger.run.id} --fork TURN.ANSWER`",
        )


def machine_here(seed: int, chosen: Chosen) -> GradingMachine:
    """Return the description of this machine for gradings. It names the first card, since all are of one model."""
    gpu = next(iter(chosen.gpus), None)
    return GradingMachine(
        gpu=gpu.name if gpu else "", driver=(gpu.driver or "") if gpu else "", commit=project_version(), seed=seed
    )


@contextlib.asynccontextmanager
async def _interruptible(loop: Loop, screen: Screen) -> AsyncIterator[None]:
    """The first Ctrl-C or SIGTERM ends the search after the evaluations under way; the second ends the run at once."""
    events = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handled: list[signal.Signals] = []

    def restore() -> None:
        for number in handled:
            events.remove_signal_handler(number)
            signal.signal(number, before[number] if before[number] is not None else signal.default_int_handler)
        handled.clear()

    def first() -> None:
        screen.say("finishing the evaluations under way, then shipping the best so far; Ctrl-C again stops at once")
        loop.stop()
        restore()

    with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread
        for number in before:
            events.add_signal_handler(number, first)
            handled.append(number)
    try:
        yield
    finally:
        restore()


def _title(run: Run, settings: LoopSettings, cards: int) -> str:
    problem = run.problem
    mode = "library calls allowed beside an own kernel" if settings.rules.allow_library else "own kernels only"
    device = f"{cards} cards, each {problem.device}" if cards > 1 else problem.device
    floor = f"fewest bytes {problem.floor_bytes:,}, flops {problem.floor_flops:,}"
    where = "the interpreter (no GPU: the result is a draft)" if problem.device == "cpu" else device
    return "\n".join(
        (
            f"{problem.name}  run {run.id}  policy {run.policy}",
            f"on {where}; {mode}; {floor}",
            *map(_with_reason, problem.notes),
        )
    )


def _with_reason(note: str) -> str:
    """Return a note, with the reason if it says that sizes were scaled down."""
    return f"{note}; the interpreter takes too long at the sizes given" if note.startswith("scaled down: ") else note


def why_it_ended(end: RunEnd) -> str:
    """Return the reason in words."""
    with contextlib.suppress(ValueError):
        return MEANS[StopReason(end.stop_reason)]
    return end.stop_reason


def spent_on_models(end: RunEnd, run: Run) -> str:
    """Return tokens and cost in words; empty if no language model was asked."""
    spent = end.summary.get("spent", {})
    if not spent.get("tokens"):
        return ""
    known = run.settings.get("price") is not None
    cost = f"cost {spent['cost']:.4g}" if known else "cost unknown without --price"
    return f"language models used {spent['tokens']:,} tokens, {cost}"


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return the last line of `--json`."""
    best, shipped = outcome.best, outcome.shipped
    speedup = best.standing.speedup if best else None
    worst = standing(shipped.evaluation if shipped else best.evaluation).worst if best else None
    return {
        "kind": "outcome",
        "run": outcome.run.id,
        "stop_reason": outcome.end.stop_reason,
        "best": best.attempt.key if best else None,
        "speedup": dataclasses.asdict(speedup) if speedup else None,
        "worst": {"set": worst.name, "speedup": dataclasses.asdict(worst.speedup)} if worst else None,
        "file": str(shipped.path) if shipped else None,
        "draft": shipped.draft if shipped else None,
        "ranges": list(shipped.ranges) if shipped else [],
        "timings": to_json(shipped.evaluation.timings) if shipped else [],
        "parts": dataclasses.asdict(outcome.parts) if outcome.parts else None,
        "spent": outcome.end.summary.get("spent", {}),
        "failed": outcome.end.summary.get("failed", {}),
    }

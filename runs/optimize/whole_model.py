"""`triton-agent optimize --parts`: optimizes submodules of a model in runs of their own, then puts them together.

The model is surveyed, and its most expensive parts are optimized within their shares of the budget. Then the whole
run searches among sets of optimized parts as any run searches among files, so the whole model is judged, timed and
shipped like any other candidate, and a part that does not help in its place is left out. Runs of parts name the whole
run (`part_of`), and the whole run notes theirs as events.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.settings import GO_ON, LoopSettings, StopReason
from triton_agent.agent.state import Event as LoopEvent
from triton_agent.memory.records import Event, RunEnd
from triton_agent.memory.store import Store
from triton_agent.policy.protocol import Policy
from triton_agent.runs.cli.devices import chosen_before
from triton_agent.runs.cli.policies import make_policies
from triton_agent.runs.optimize.request import OptimizeRequest
from triton_agent.runs.optimize.run import Outcome, optimize
from triton_agent.runs.optimize.screen import Screen
from triton_agent.runs.parts import assembly, choosing, part_problem, survey
from triton_agent.runs.parts.assembler import Assembler, names_in
from triton_agent.runs.parts.assembly import Placed
from triton_agent.runs.parts.choosing import PartPlan
from triton_agent.runs.parts.tally import helps, tally, verdict_on
from triton_agent.runs.ship.artefact import reserved_names
from triton_agent.runs.ship.shipped import output_folder, require_writable
from triton_agent.runs.ship.source.original import take_out
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.ranking import Standing, best_of

PLANNED, BEGUN = "parts", "part"
"""Kinds of events of the whole run: the list of its parts, and the start of one part's run."""
TURNS_A_PART = 3
"""Turns of the whole run for each part: with the part, without it, and without other parts."""
FOR_PARTS = 0.75
"""Share of the time for the runs of the parts; the rest is for putting them together."""


async def optimize_by_parts(
    request: OptimizeRequest,
    store: Store,
    screen: Screen,
    *,
    another_screen: Callable[[], Screen],
    out: Path | None = None,
    resume: str | None = None,
    nursery: Nursery | None = None,
) -> Outcome:
    """Optimize the parts of a model, then the whole model."""
    began_s = time.monotonic()
    require_writable(out or Path.cwd())
    spec = request.spec()
    _require_possible(request, spec)
    plan = _known_plan(store, resume) or await _planned(spec, request, screen)
    parts: _Parts | None = None

    async def prepare(ledger: Ledger, settings: LoopSettings) -> tuple[list[Policy], LoopSettings]:
        if not ledger.noted(PLANNED):
            await ledger.note(PLANNED, **plan.to_json())
        nonlocal parts
        folder = output_folder(out, ledger.run) / "parts"
        parts = _Parts(spec, request, store, screen, another_screen, ledger, folder, nursery)
        end = ledger.ended()
        over = end is not None and end.stop_reason not in GO_ON
        placed = [] if over else await parts.all(plan.parts, began_s)
        return [Assembler(spec, placed)], _settings_of_the_whole(settings, request, len(placed), began_s)

    outcome = await optimize(
        request, store, screen, out=out, resume=resume, policies=[], prepare=prepare, nursery=nursery
    )
    in_place = names_in(outcome.best.attempt.plan) if outcome.best is not None else frozenset()
    tried, standings = (parts.tried, parts.standings) if parts is not None else ([], {})
    found = tally(tried or plan.parts, in_place, standings, plan.moved_bytes)
    screen.say(str(found))
    end = _as_interrupted(store, outcome.end) if parts is not None and parts.interrupted else outcome.end
    return dataclasses.replace(outcome, parts=found, end=end)


def _as_interrupted(store: Store, end: RunEnd) -> RunEnd:
    """Mark the run as interrupted after what was ready has been put together; `--resume` continues with the parts."""
    now = datetime.datetime.now(datetime.UTC)
    changed = dataclasses.replace(end, stop_reason=StopReason.INTERRUPTED.value, ended_at=now)
    store.end_run(changed)
    return changed


def _require_possible(request: OptimizeRequest, spec: ProblemSpec) -> None:
    if request.own_kernels:
        raise UsageError(
            "--parts leaves operators between the parts to torch, which --own-kernels forbids",
            remedy="keep one of them",
        )
    make_policies(request.policy, request.model_options())  # each part makes its own; report a wrong name at once
    assembly.require_inlined(spec, take_out(spec, reserved_names(spec)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The parts of a model, noted in the whole run before the first part begins."""

    parts: tuple[PartPlan, ...]
    moved_bytes: int
    """Bytes moved by all operators of the reference."""

    def to_json(self) -> dict[str, Any]:
        return {"parts": [part.to_json() for part in self.parts], "moved_bytes": self.moved_bytes}


def _known_plan(store: Store, resume: str | None) -> _Plan | None:
    noted = [event.data for event in store.events(resume) if event.kind == PLANNED] if resume else []
    found = (_Plan(parts=tuple(map(PartPlan.from_json, d["parts"])), moved_bytes=d["moved_bytes"]) for d in noted)
    return next(found, None)


async def _planned(spec: ProblemSpec, request: OptimizeRequest, screen: Screen) -> _Plan:
    screen.say(f"reading {spec.name}: looking for its most expensive submodules")
    card = chosen_before(request.device, request.cards).uuids[0]
    found = await asyncio.to_thread(survey.take, spec, device=request.device, card=card)
    plans = choosing.choose(found)
    if not plans:
        reasons = "; ".join(choosing.refusals(found)) or "it has none that does more than one operator"
        raise UsageError(
            f"no submodule can be optimized on its own: {reasons}", where=spec.path, remedy="leave out --parts"
        )
    how = "device time" if found.measured else "estimated time"
    screen.say(f"{spec.name} has {found.root.operators} operators; its parts, with their shares of the {how}:")
    for plan in plans:
        screen.say(f"  {plan.name:16} {100 * plan.share:3.0f}%  {_places(plan)}, {plan.module.operators} operators")
    return _Plan(parts=plans, moved_bytes=found.root.moved_bytes)


def _places(plan: PartPlan) -> str:
    more = f" and {len(plan.paths) - 1} alike" if len(plan.paths) > 1 else ""
    return f"{plan.paths[0]}{more}"


def _settings_of_the_whole(
    settings: LoopSettings, request: OptimizeRequest, parts: int, began_s: float
) -> LoopSettings:
    """Return the settings of the whole run: the time that is left, and enough turns to try leaving parts out.

    The turns asked for were spent on the parts. Without a clock sets of parts are tried one by one, since the first set
    that passes is good enough.
    """
    left_s = None if request.seconds is None else max(1.0, request.seconds - (time.monotonic() - began_s))
    parallel = 1 if request.device == "cpu" else settings.parallel
    turns = TURNS_A_PART * max(1, parts)
    return dataclasses.replace(settings, seconds=left_s, parallel=parallel, turns=turns, patience=turns)


class _Parts:
    """Runs the parts one after another."""

    def __init__(
        self,
        spec: ProblemSpec,
        request: OptimizeRequest,
        store: Store,
        screen: Screen,
        another_screen: Callable[[], Screen],
        ledger: Ledger,
        folder: Path,
        nursery: Nursery | None,
    ) -> None:
        self._spec = spec
        self._request = request
        self._store = store
        self._screen = screen
        self._another_screen = another_screen
        self._ledger = ledger
        self._folder = folder
        self._nursery = nursery
        self.tried: list[PartPlan] = []
        self.standings: dict[str, Standing] = {}
        self.interrupted = False
        self._begun = {event.data["name"]: event.data["run"] for event in ledger.noted(BEGUN)}

    async def all(self, plans: Sequence[PartPlan], began_s: float) -> list[Placed]:
        """Run each part and return those worth putting in place; a part that does not help is replaced by its inner
        parts.
        """
        placed, waiting = [], list(plans)
        while waiting:
            plan = waiting[0]
            if self.tried and _time_is_up(self._request, began_s):
                self._screen.say("\nthe time for parts is used up")
                break
            self.tried.append(plan)
            self._screen.say(f"\npart {len(self.tried)}, {len(waiting) - 1} to follow: {plan.name} ({_places(plan)})")
            outcome = await self._one(plan, share_of(self._request, waiting, plans, began_s))
            best = outcome.best
            if best is not None:
                self.standings[plan.name] = best.standing
            if best is not None and best.attempt.source and helps(plan, best):
                placed.append(Placed(part=plan, source=best.attempt.source, attempt=best.attempt.key))
                waiting = waiting[1:]
            else:
                waiting = [*plan.inner, *waiting[1:]]
            self._screen.say(f"part {plan.name}: {verdict_on(plan, best)}")
            self.interrupted = outcome.end.stop_reason == StopReason.INTERRUPTED
            if self.interrupted:
                break
        self._screen.say("\nputting the parts together")
        return placed

    async def _one(self, plan: PartPlan, request: OptimizeRequest) -> Outcome:
        path = self._folder / f"{plan.name}.py"
        text = part_problem.write(self._spec, plan)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        request = dataclasses.replace(request, problem=str(path), part_of=self._ledger.run.id)
        screen = _Noting(self._another_screen(), lambda run: self._note(plan, run))
        known = self._begun.get(plan.name)
        return self._ended(known) or await optimize(
            request, self._store, screen, resume=known, shipping=False, nursery=self._nursery
        )

    def _ended(self, run: str | None) -> Outcome | None:
        """Return the stored outcome of a part that was finished before an interruption."""
        end = self._store.end(run) if run else None
        if run is None or end is None or end.stop_reason in GO_ON:
            return None
        ledger = Ledger.resume(self._store, run)
        return Outcome(run=ledger.run, end=end, best=best_of(ledger.history()), shipped=None)

    def _note(self, plan: PartPlan, run: str) -> None:
        if self._begun.get(plan.name) == run:
            return
        self._begun[plan.name] = run
        data = {"name": plan.name, "run": run, "paths": list(plan.paths), "share": plan.share}
        now = datetime.datetime.now(datetime.UTC)
        self._store.add_event(Event(run=self._ledger.run.id, kind=BEGUN, at=now, data=data))


def _time_is_up(request: OptimizeRequest, began_s: float) -> bool:
    return request.seconds is not None and time.monotonic() - began_s > FOR_PARTS * request.seconds


def share_of(
    request: OptimizeRequest, waiting: Sequence[PartPlan], plans: Sequence[PartPlan], began_s: float
) -> OptimizeRequest:
    """Return the request for the first of the waiting parts.

    Its time is its share of the time that is left; its turns are in proportion to those of the most expensive part.
    """
    plan, total = waiting[0], sum(item.share for item in plans)
    seconds = None
    if request.seconds is not None:
        left_s = FOR_PARTS * request.seconds - (time.monotonic() - began_s)
        seconds = max(1.0, left_s * plan.share / sum(item.share for item in waiting))
    return dataclasses.replace(
        request,
        init=None,
        inputs=(),
        inputs_file=None,
        sets=(),
        parts=False,
        turns=max(1, math.ceil(request.turns * plan.share / plans[0].share)),
        seconds=seconds,
        max_tokens=None if request.max_tokens is None else max(1, int(request.max_tokens * plan.share / total)),
        max_cost=None if request.max_cost is None else request.max_cost * plan.share / total,
    )


class _Noting:
    """A screen that also reports the id of the run that begins."""

    def __init__(self, screen: Screen, begun: Callable[[str], None]) -> None:
        self._screen = screen
        self._begun = begun

    def begin(self, ledger: Ledger, settings: LoopSettings, title: str) -> None:
        self._begun(ledger.run.id)
        self._screen.begin(ledger, settings, title)

    def event(self, event: LoopEvent) -> None:
        self._screen.event(event)

    def say(self, text: str) -> None:
        self._screen.say(text)

    def close(self) -> None:
        self._screen.close()

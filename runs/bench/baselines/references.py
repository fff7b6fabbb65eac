"""Has the references of a benchmark ready: the memory that each needs, and its baselines, measured beside the verdicts.

Each problem is sized before it begins. Baselines of problems that are still to come are compiled and timed while
earlier ones are judged; those of a problem that has begun wait until it is finished, since its checker compiles the
same reference meanwhile. What works on a card reserves the memory that it needs there, and waits until it fits.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from triton_agent.memory.sql.encoding import from_plain
from triton_agent.runs.bench.baselines.found import Baselines, cache, cached, place_of
from triton_agent.runs.bench.baselines.memory import Fitted, fitted
from triton_agent.runs.bench.baselines.worker import Worker
from triton_agent.runs.bench.problems import Task
from triton_agent.runs.cli.devices import Chosen
from triton_agent.tools.errors import InstrumentError, UsageError
from triton_agent.tools.machine.card_memory import KEPT_FREE_BYTES, Reservation
from triton_agent.tools.machine.lease import FOLDER
from triton_agent.tools.versions import project_version

POLL_S = 0.1
COMPILE_LIMIT_S = 60.0
"""For torch.compile, by default."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSettings:
    """How references are looked at."""

    workspace: Path
    """For problem files that have to be written."""
    compile_limit_s: float = COMPILE_LIMIT_S
    at_once: int = 1
    """Baselines side by side on each card."""
    again: bool = False
    """Measure what was measured before."""
    leases: Path = FOLDER


class References:
    """Everything is done in one event loop, by processes of its own. Without cards nothing is sized or measured."""

    def __init__(self, chosen: Chosen | None, settings: ReferenceSettings, say: Callable[[str], None]) -> None:
        """`chosen`: the cards; None where there is no GPU, or the problems' code is not trusted."""
        self.found: dict[str, Baselines] = {}
        """By label."""
        self._settings = settings
        self._say = say
        self._cards = dict(zip(chosen.uuids, chosen.gpus)) if chosen else {}
        self._sizer = Worker(next(iter(self._cards), ""))
        self._sizing = asyncio.Lock()
        self._fitted: dict[str, Fitted] = {}
        self._due: dict[str, Task] = {}
        self._begun: set[str] = set()
        self._changed = asyncio.Condition()

    @property
    def capacity_bytes(self) -> int:
        """What may be reserved on the smallest of the cards; 0 where that is not known."""
        sizes = [gpu.memory_bytes for gpu in self._cards.values()]
        known = [size for size in sizes if size is not None]
        return max(0, min(known) - KEPT_FREE_BYTES) if known and len(known) == len(sizes) else 0

    async def of(self, task: Task) -> Fitted:
        """The problem as it is judged here. Raise `UsageError` if it cannot be read."""
        spec = task.spec(self._settings.workspace)
        if not self.capacity_bytes:
            return Fitted(spec=spec)
        async with self._sizing:
            if task.label not in self._fitted:
                asked = {"size": spec.to_json(), "capacity_bytes": self.capacity_bytes}
                told = await self._sizer.ask(asked)
                folder = self._settings.workspace / "scaled" / task.group
                self._fitted[task.label] = fitted(spec, told, self.capacity_bytes, folder)
            return self._fitted[task.label]

    @contextlib.asynccontextmanager
    async def admitted(self, card: str, size_bytes: int, what: str) -> AsyncIterator[None]:
        """Hold the memory on that card for the length of the block, once it is free."""
        gpu = self._cards.get(card)
        if gpu is None or not size_bytes or not self.capacity_bytes:
            yield
            return
        request = Reservation(
            gpu.uuid, size_bytes, capacity_bytes=self.capacity_bytes, what=what, folder=self._settings.leases
        )
        with contextlib.closing(request):
            while not request.granted():
                await asyncio.sleep(POLL_S)
            yield

    @contextlib.asynccontextmanager
    async def judged(self, label: str) -> AsyncIterator[None]:
        """While a problem is judged its baselines wait, unless they are under way; then they are the next."""
        self._begun.add(label)
        try:
            yield
        finally:
            self._begun.discard(label)
            if label in self._due:
                self._due = {label: self._due.pop(label), **self._due}
            async with self._changed:
                self._changed.notify_all()

    async def measure(self, tasks: Sequence[Task], on_found: Callable[[Task, Baselines], None]) -> None:
        """Measure the baselines of all of these, in their order as far as problems do not begin before."""
        self._due = {task.label: task for task in tasks if self._cards}
        places = [card for card in self._cards for _ in range(self._settings.at_once)]
        async with asyncio.TaskGroup() as group:
            for card in places if self._due else ():
                group.create_task(self._measure_on(card, on_found))

    async def _measure_on(self, card: str, on_found: Callable[[Task, Baselines], None]) -> None:
        worker = Worker(card)
        try:
            while (task := await self._next()) is not None:
                result = await self._baselines(task, worker)
                if result is not None:
                    self.found[task.label] = result
                    on_found(task, result)
        except InstrumentError as error:
            self._say(f"no baselines are measured on {card or 'the GPU'} any more: {error.what}")
        finally:
            await worker.close()

    async def _next(self) -> Task | None:
        """The first that is due and not being judged; None where nothing is left."""
        async with self._changed:
            while self._due:
                for label in self._due:
                    if label not in self._begun:
                        return self._due.pop(label)
                await self._changed.wait()
            self._changed.notify_all()
            return None

    async def _baselines(self, task: Task, worker: Worker) -> Baselines | None:
        """From the cache or measured; None of a problem that cannot be read, which its row says."""
        try:
            problem = await self.of(task)
        except UsageError:
            return None
        gpu, limit_s = self._cards[worker.card], self._settings.compile_limit_s
        known = None if self._settings.again else cached(problem.spec, map(place_of, self._cards.values()))
        if known is not None and known.settles(limit_s):
            return known
        question: dict[str, Any] = {"measure": problem.spec.to_json(), "limit_s": limit_s}
        what = f"triton-agent: baselines of {problem.spec.name}"
        async with self.admitted(worker.card, problem.baseline_bytes, what):
            told = await worker.ask(question)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        bare: Baselines = from_plain(Baselines, told)
        result = dataclasses.replace(bare, measured_at=now, commit=project_version(), limit_s=limit_s)
        if not result.failure:
            cache(problem.spec, place_of(gpu), result)
        return result

    async def close(self) -> None:
        """End the process that sizes; those that measure end with `measure`."""
        await self._sizer.close()

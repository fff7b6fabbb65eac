"""Prepares the references of a benchmark: the memory that each needs, and baselines measured while others are judged.

Each problem is sized before it begins. Baselines of later problems are compiled and timed while earlier ones are
judged; those of a problem that has begun wait until it is finished, since its checker compiles the same reference. They
reserve the memory they need on a card, as verdicts do, and wait until that is free.
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
from triton_agent.tools.machine.card_memory import POLL_S, Reservation, capacity_of
from triton_agent.tools.machine.hardware import Gpu
from triton_agent.tools.machine.lease import FOLDER
from triton_agent.tools.race.baseline_names import COMPILE_LIMIT_S
from triton_agent.tools.versions import project_version


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSettings:
    """Settings for measuring references."""

    workspace: Path
    """Folder for problem files that have to be written."""
    compile_limit_s: float = COMPILE_LIMIT_S
    at_once: int = 1
    """Baselines measured at the same time on each card."""
    again: bool = False
    """Measure baselines again that are known already."""
    leases: Path = FOLDER


class References:
    """Sizes problems and measures baselines, in separate processes. Does neither without cards."""

    def __init__(self, chosen: Chosen | None, settings: ReferenceSettings, say: Callable[[str], None]) -> None:
        """`chosen` is None without a GPU, or if the problems' code is not trusted."""
        self.found: dict[str, Baselines] = {}
        """Baselines by the problem's label."""
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
        """Memory that may be reserved on the smallest of the cards; 0 if unknown."""
        return min(map(capacity_of, self._cards.values()), default=0)

    async def of(self, task: Task) -> Fitted:
        """Return the problem at the sizes at which it is judged here. Raise `UsageError` if it cannot be read."""
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
    async def judged(self, label: str) -> AsyncIterator[None]:
        """Hold back the baselines of a problem while it is judged, unless they are under way; they come first
        afterwards.
        """
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
        """Measure the baselines of these tasks in order; problems that are being judged come later."""
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
            self._say(f"baselines are no longer measured on {card or 'the GPU'}: {error.what}")
        finally:
            await worker.close()

    async def _next(self) -> Task | None:
        """Return the first task that is due and not being judged; None if nothing is left."""
        async with self._changed:
            while self._due:
                for label in self._due:
                    if label not in self._begun:
                        return self._due.pop(label)
                await self._changed.wait()
            self._changed.notify_all()
            return None

    async def _baselines(self, task: Task, worker: Worker) -> Baselines | None:
        """Return baselines from the cache or measured; None if the problem cannot be read, which its row reports."""
        try:
            problem = await self.of(task)
        except UsageError:
            return None
        gpu, limit_s = self._cards[worker.card], self._settings.compile_limit_s
        known = None if self._settings.again else cached(problem.spec, map(place_of, self._cards.values()))
        if known is not None and known.settles(limit_s):
            return known
        question: dict[str, Any] = {"measure": problem.spec.to_json(), "limit_s": limit_s}
        async with self._reserved(gpu, problem):
            told = await worker.ask(question)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        bare: Baselines = from_plain(Baselines, told)
        result = dataclasses.replace(bare, measured_at=now, commit=project_version(), limit_s=limit_s)
        if not result.failure:
            cache(problem.spec, place_of(gpu), result)
        return result

    @contextlib.asynccontextmanager
    async def _reserved(self, gpu: Gpu, problem: Fitted) -> AsyncIterator[None]:
        """Wait until the memory for the baselines is free on the card, and reserve it for the length of the block."""
        if not self.capacity_bytes:
            yield
            return
        what, folder = f"baselines of {problem.spec.name}", self._settings.leases
        size_bytes, capacity_bytes = problem.baseline_bytes, self.capacity_bytes
        with contextlib.closing(
            Reservation(gpu.uuid, size_bytes, capacity_bytes=capacity_bytes, what=what, folder=folder)
        ) as request:
            while not request.granted():
                await asyncio.sleep(POLL_S)
            yield

    async def close(self) -> None:
        """End the process that sizes problems; those that measure end with `measure`."""
        await self._sizer.close()

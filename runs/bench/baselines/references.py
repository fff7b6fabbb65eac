"""Prepares the references of a benchmark: the memory that each needs, and baselines that no race has timed.

Each problem is sized before it begins. The baselines of a problem without a kernel that was raced are compiled and
timed after it was judged, beside the verdicts of others. They reserve the memory they need on a card, as verdicts do,
and wait until that is free.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
from collections.abc import AsyncIterator, Callable
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
        self._due: asyncio.Queue[Task | None] = asyncio.Queue()
        """None is last."""

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

    def ask_for(self, task: Task) -> None:
        """Let `measure` measure the baselines of this task."""
        self._due.put_nowait(task)

    def ask_no_more(self) -> None:
        """Let `measure` end after what was asked for."""
        self._due.put_nowait(None)

    async def measure(self, on_found: Callable[[Task, Baselines], None]) -> None:
        """Measure the baselines that were asked for, in order, until no more are."""
        places = [card for card in self._cards for _ in range(self._settings.at_once)]
        async with asyncio.TaskGroup() as group:
            for card in places:
                group.create_task(self._measure_on(card, on_found))

    async def _measure_on(self, card: str, on_found: Callable[[Task, Baselines], None]) -> None:
        worker = Worker(card)
        try:
            while (task := await self._due.get()) is not None:
                result = await self._baselines(task, worker)
                if result is not None:
                    self.found[task.label] = result
                    on_found(task, result)
            self.ask_no_more()  # for the next place
        except InstrumentError as error:
            self._say(f"baselines are no longer measured on {card or 'the GPU'}: {error.what}")
        finally:
            await worker.close()

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

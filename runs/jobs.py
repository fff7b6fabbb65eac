"""Background jobs of a server: a few at a time, found by id, stopped when the server ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from triton_agent.tools.errors import UsageError

MOST_RUNNING = 2
"""Jobs that may run at the same time; more would only slow each other down."""


class Job(Protocol):
    """Something that runs until it ends or is cancelled."""

    id: str
    done: threading.Event

    def cancel(self, *, at_once: bool = False) -> str:
        """Cancel the job, and return a sentence that says how it ends."""

    def join(self) -> None:
        """Wait until the job's processes are gone."""


Kind = TypeVar("Kind", bound=Job)


class Jobs(Generic[Kind]):
    """All jobs of a server. Leaving the context stops the jobs that are still running."""

    def __init__(self) -> None:
        self._jobs: dict[str, Kind] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Jobs[Kind]:
        return self

    def __exit__(self, *exception: object) -> None:
        for job in self.all():
            job.cancel(at_once=True)
        for job in self.all():
            job.join()

    def start(self, begin: Callable[[], Kind]) -> Kind:
        """Start a job unless enough are running."""
        with self._lock:
            running = [job.id for job in self._jobs.values() if not job.done.is_set()]
            if len(running) >= MOST_RUNNING:
                raise UsageError(f"{', '.join(running)} are running", remedy="wait for one of them, or cancel it")
            job = begin()
            self._jobs[job.id] = job
            return job

    def find(self, id: str) -> Kind:
        if id not in self._jobs:
            raise UsageError(f"no job {id!r}", remedy=f"known: {', '.join(self._jobs) or 'none'}")
        return self._jobs[id]

    def all(self) -> list[Kind]:
        """Return all jobs, oldest first."""
        return list(self._jobs.values())

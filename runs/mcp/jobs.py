"""Optimizations in the background: each in a thread with its own event loop, watched and cancelled by its id.

A cancelled run stays in the store, and `triton-agent optimize --resume RUN` continues it. Not covered: jobs end with
the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import secrets
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.settings import LoopSettings
from triton_agent.memory.store import Store
from triton_agent.runs.cli.foreign_text import legible
from triton_agent.runs.mcp.texts import Paper
from triton_agent.runs.optimize.command import reported, show
from triton_agent.runs.optimize.request import OptimizeRequest
from triton_agent.runs.optimize.run import optimize
from triton_agent.runs.optimize.screen import PlainLines
from triton_agent.tools.errors import TritonAgentError

CLOSING_S = 20.0
"""Time that the server waits, when it ends, for a job to stop its processes."""


@dataclasses.dataclass(slots=True)
class JobLines(PlainLines):
    """Keeps the lines that the command would print."""

    lines: list[str] = dataclasses.field(default_factory=list)
    run: str = ""

    def begin(self, ledger: Ledger, settings: LoopSettings, title: str) -> None:
        self.run = ledger.run.id
        PlainLines.begin(self, ledger, settings, title)

    def say(self, text: str) -> None:
        self.lines += legible(text).splitlines()


class OptimizeJob:
    """One optimization, in a thread of its own."""

    def __init__(self, request: OptimizeRequest, store: str | None, out: Path) -> None:
        self.id = f"optimize-{secrets.token_hex(4)}"
        self.state = "running"
        """`running`, then `ended`, `cancelled` or `failed`."""
        self.screen = JobLines()
        self.outcome = ""
        """The end of the job, in words."""
        self.file: Path | None = None
        """The shipped file."""
        self.done = threading.Event()
        self._request, self._store, self._out = request, store, out / self.id
        self._stop: Callable[[], object] | None = None
        self._abort: Callable[[], object] | None = None
        self._cancelled = False
        self._thread = threading.Thread(target=self._run, name=self.id, daemon=True)
        self._thread.start()

    def cancel(self, *, at_once: bool = False) -> str:
        """End the search after the evaluations under way, or at once if the search has not begun or was cancelled."""
        if self.done.is_set():
            return f"{self.id} has {self.state} already"
        at_once = at_once or self._cancelled or self._stop is None
        self._cancelled = True
        with contextlib.suppress(RuntimeError):  # its event loop has just ended
            if not at_once and self._stop is not None:
                self._stop()
                return "finishing the evaluations under way, then shipping the best so far; cancel again to stop now"
            if self._abort is not None:
                self._abort()
        return "stopping at once; nothing will be shipped"

    def join(self) -> None:
        """Wait until the job's processes are gone."""
        self._thread.join(CLOSING_S)

    def _run(self) -> None:
        try:
            with Store.open(self._store) as store:
                asyncio.run(self._optimize(store))
            self.state = "cancelled" if self._cancelled else "ended"
        except asyncio.CancelledError:
            self.state = "cancelled"
        except TritonAgentError as error:
            self.state, self.outcome = "failed", str(error)
        except Exception:  # a bug of ours must not look like a job that runs forever
            self.state, self.outcome = "failed", f"a bug in triton-agent:\n{traceback.format_exc()}"
        finally:
            self.done.set()

    async def _optimize(self, store: Store) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._abort = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
        if self._cancelled:
            raise asyncio.CancelledError

        def on_start(stop: Callable[[], object]) -> None:
            self._stop = stop

        outcome = await optimize(self._request, store, self.screen, out=self._out, on_start=on_start)
        paper = Paper()
        report = reported(store, outcome, self._out, paper.print)
        show(outcome, report, paper)
        self.outcome = paper.text
        self.file = outcome.shipped.path if outcome.shipped else None

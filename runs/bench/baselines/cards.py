"""Measures baselines on one card or several side by side, each with a process of its own (`baseline_process.py`).

Compiling takes most of the time and needs no quiet GPU, so what is due is compiled side by side, into the user's cache,
where the evaluator finds it as well; then each problem has its card to itself. What a card leaves undone when its
process ends is measured by the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from triton_agent.memory.sql.encoding import from_plain
from triton_agent.runs.bench.rows import BaselineTime, Kind
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.zygotes import kept_environment
from triton_agent.tools.race.disturbances import ZYGOTE

PROCESS = "triton_agent.runs.bench.baselines.process"
"""Called with the zygote's name: its children ask for the GPU's lease, too, which is what that name tells a watcher."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Baselines:
    """Of one problem."""

    times: tuple[BaselineTime, ...]
    notes: tuple[str, ...] = ()
    """A baseline that could not be had, and why."""
    failure: str = ""
    """Why nothing was measured."""
    measured_at: str = ""
    """Date and time, UTC."""
    commit: str = ""
    """Of this project."""


def measure(
    specs: Sequence[ProblemSpec], cards: Sequence[str], say: Callable[[str], None]
) -> Iterator[tuple[ProblemSpec, str, Baselines]]:
    """Each problem with the card that it was measured on, as they come."""
    left, serving = list(specs), list(cards)
    while left:
        failed: dict[str, Exception] = {}
        for spec, card, result in _side_by_side(left, serving, failed):
            left = [item for item in left if item is not spec]
            say(f"[{len(specs) - len(left)}/{len(specs)}] {spec.name:40} {_in_short(result)}")
            yield spec, card, result
        serving = [card for card in serving if card not in failed]
        for card, error in failed.items():
            if not isinstance(error, InstrumentError) or (left and not serving):
                raise error
            say(f"{card} is done without: {error.what}")
        if not failed:
            return


def _in_short(result: Baselines) -> str:
    device = [item for item in result.times if item.kind is Kind.DEVICE]
    return ", ".join(f"{item.against} {item.ms.median:.4f} ms" for item in device) or result.failure[:100]


def _side_by_side(
    specs: Sequence[ProblemSpec], cards: Sequence[str], failed: dict[str, Exception]
) -> Iterator[tuple[ProblemSpec, str, Baselines]]:
    """Every n-th problem on each of n cards; what became of cards that `failed` is written down there."""
    cores = max(1, len(os.sched_getaffinity(0)) // len(cards))
    found: queue.SimpleQueue[tuple[ProblemSpec, str, Baselines] | None] = queue.SimpleQueue()
    shares = [(card, specs[number :: len(cards)]) for number, card in enumerate(cards)]
    clocks = [_Clock(card, share, cores) for card, share in shares if share]

    def read(clock: _Clock) -> None:
        try:
            for item in clock.results():
                found.put(item)
        except Exception as error:  # raised where it is seen, in the caller's thread
            failed[clock.card] = error
        finally:
            found.put(None)

    threads = [threading.Thread(target=read, args=(clock,), daemon=True) for clock in clocks]
    try:
        for thread in threads:
            thread.start()
        ended = 0
        while ended < len(clocks):
            item = found.get()
            if item is None:
                ended += 1
            else:
                yield item
    finally:
        for clock in clocks:
            clock.close()


class _Clock:
    """A process that measures on one card. It imports torch once and forks for each problem."""

    def __init__(self, card: str, specs: Sequence[ProblemSpec], at_once: int) -> None:
        self.card = card
        self._specs = specs
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", PROCESS, ZYGOTE.decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env=kept_environment(card),
            start_new_session=True,
        )
        self._asked = json.dumps({"problems": [spec.to_json() for spec in specs], "at_once": at_once})

    def results(self) -> Iterator[tuple[ProblemSpec, str, Baselines]]:
        """As they come; raises `InstrumentError` where the process itself failed."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and its status says how
            process.stdin.write(self._asked)
            process.stdin.close()
        for line in process.stdout:
            data: dict[str, Any] = json.loads(line)
            yield self._specs[data["problem"]], self.card, from_plain(Baselines, data["result"])
        if process.wait() != 0:
            self._complaints.seek(0)
            raise InstrumentError(
                f"the process that measures baselines ended with status {process.returncode}:\n"
                f"{self._complaints.read()[-1500:]}",
                remedy="what was measured is kept; the same command goes on",
            )

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._complaints.close()

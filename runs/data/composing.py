"""Composes problems in several processes. The result does not depend on their number, or on interruptions."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
from collections import deque
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import torch

from triton_agent.policy.train.data.candidates import Accepted, DataSettings, Row, candidate
from triton_agent.policy.train.data.outline import Known, outlines_below
from triton_agent.policy.train.data.probe import Refused
from triton_agent.runs.data.folder import COMPOSING, DatasetFolder
from triton_agent.tools.errors import UsageError
from triton_agent.tools.sandbox.privileges import die_with_parent

CHUNK = 32
"""Candidates that a process takes at once."""
AHEAD = 3
"""Chunks under way for each process."""
BARREN = 5_000
"""Candidates in a row of which none was new; then there are no more."""

Outcomes = list[Row | str]
"""Problems, and reasons for those that were refused."""
_known = Known(())


def compose_all(
    folder: DatasetFolder, against: Sequence[Path], jobs: int, on_progress: Callable[[int], None] = lambda _: None
) -> Accepted:
    """Compose until the dataset is full; what the journal has is not composed again."""
    accepted, chunks = Accepted(folder.settings), 0
    for outcomes in folder.lines(COMPOSING):
        chunks += 1
        _offer(accepted, outcomes)
    newest = accepted.tried
    with contextlib.closing(_composed(folder.settings, chunks, against, jobs)) as composed:
        while not accepted.full:
            outcomes, before = next(composed), len(accepted.rows)
            folder.append(COMPOSING, outcomes)
            _offer(accepted, outcomes)
            on_progress(len(accepted.rows))
            newest = accepted.tried if len(accepted.rows) > before else newest
            if accepted.tried - newest > BARREN:
                raise UsageError(
                    f"no new problem among the last {BARREN:,} candidates: {len(accepted.rows):,} were found",
                    remedy="ask for fewer with --count, for more than one --difficulty, or for another --held-out",
                )
    return accepted


def _offer(accepted: Accepted, outcomes: Outcomes) -> None:
    for outcome in outcomes:
        accepted.offer(outcome)


def _composed(
    settings: DataSettings, first: int, against: Sequence[Path], jobs: int
) -> Generator[Outcomes, None, None]:
    """Yield chunk after chunk, in order."""
    if jobs == 1:
        threads = torch.get_num_threads()
        _prepare(against)
        try:
            while True:
                yield _compose(settings, first)
                first += 1
        finally:
            torch.set_num_threads(threads)
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(jobs, context, initializer=_prepare_process, initargs=(against,))
    try:
        waiting: deque[concurrent.futures.Future[Outcomes]] = deque()
        while True:
            while len(waiting) < AHEAD * jobs:
                waiting.append(pool.submit(_compose, settings, first))
                first += 1
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare_process(against: Sequence[Path]) -> None:
    die_with_parent()  # it would wait forever for a command that was killed
    _prepare(against)


def _prepare(against: Sequence[Path]) -> None:
    """Prepare a process: use one thread, since its tensors are small, and load the problems to avoid."""
    global _known
    torch.set_num_threads(1)
    _known = Known(item for folder in against for item in outlines_below(folder))


def _compose(settings: DataSettings, chunk: int) -> Outcomes:
    found: Outcomes = []
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        try:
            found.append(candidate(settings, number, _known))
        except Refused as refused:
            found.append(str(refused))
    return found

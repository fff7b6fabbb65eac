"""Audits the problems of a dataset as `check-problem` does, and flags those that wrong answers pass.

The reports are what `train grpo --problem-reports` reads. A problem is audited once; an interrupted audit continues.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence

from triton_agent.policy.train.data.candidates import Row
from triton_agent.runs.data.folder import AUDITS, DatasetFolder
from triton_agent.runs.evaluate.check_problem import as_json
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.evaluate.checker_process import audit_problem
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import own_nursery


def audit_all(folder: DatasetFolder, rows: Sequence[Row], jobs: int, on_progress: Callable[[], None]) -> int:
    """Audit what is not audited yet; return how many problems could not be audited."""
    there = {report["problem"]["name"] for report in folder.lines(AUDITS)}
    left = [row for row in rows if row["name"] not in there]
    failed = 0
    with own_nursery(many_problems=True) as nursery, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(audit_problem, parse_problem(str(folder.file_of(row))), nursery=nursery) for row in left]
        try:
            for future in concurrent.futures.as_completed(futures):
                try:
                    folder.append(AUDITS, as_json(future.result()))
                except InstrumentError:
                    failed += 1
                on_progress()
        finally:
            for future in futures:
                future.cancel()
    return failed

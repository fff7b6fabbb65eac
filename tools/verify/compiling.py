"""Compiling a candidate's kernels in processes without a GPU, before anything runs.

For a GPU in this machine the compile workers fill the cache in which the executor finds the kernels, side by side;
what fails there fails again where it counts, so nothing is decided. For a named target and no GPU, what does not
compile is the candidate's failure, and what does compile tells registers, spills and shared memory.
"""

from __future__ import annotations

import collections
import concurrent.futures
import time
from collections.abc import Sequence

from triton_agent.tools.errors import TritonAgentError
from triton_agent.tools.results import Finding, KernelResources
from triton_agent.tools.verify.session import Failed, Session
from triton_agent.tools.verify.tracing import Program

LEAST_S = 0.01
PATIENCE_S = 15.0
"""A badly spilling tile keeps ptxas busy for longer; then the executor itself has to."""


def compile_for_target(program: Program, session: Session, timeout_s: float) -> list[KernelResources]:
    """What the kernels of a tape need; raises `Failed` for one that does not compile."""
    session.await_ready()
    reply, _ = session.ask("compile", tape=program.encoded, kernels=program.kernels, timeout_s=timeout_s)
    failure = reply["failure"]
    if failure:
        where = f"line {failure['line']}: " if failure.get("line") else ""
        raise Failed(Finding.COMPILE, f"{where}kernel {failure['kernel']}: {failure['cause']}")
    return [KernelResources(**kernel) for kernel in reply["kernels"]]


def fill_cache(programs: Sequence[Program], sessions: Sequence[Session]) -> None:
    """Until all kernels are compiled, one fails, or it takes too long."""
    left = collections.deque(programs)
    until_s = time.monotonic() + PATIENCE_S

    def share(session: Session) -> None:
        try:
            session.await_ready()
            while True:
                program = left.popleft()
                left_s = max(LEAST_S, until_s - time.monotonic())
                reply, _ = session.ask("compile", tape=program.encoded, kernels=program.kernels, timeout_s=left_s)
                if reply["failure"]:
                    left.clear()
        except (Failed, TritonAgentError, IndexError):  # another took the last one
            return

    if len(sessions) == 1:
        share(sessions[0])
        return
    with concurrent.futures.ThreadPoolExecutor(len(sessions), thread_name_prefix="compile") as pool:
        list(pool.map(share, sessions))

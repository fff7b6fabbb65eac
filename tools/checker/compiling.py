"""Compiles a candidate's kernels in processes without a GPU, before anything runs.

For a GPU in this machine, compile workers fill the executor's kernel cache in parallel. A kernel that fails there fails
again in the executor, so nothing is decided here, except that a size at which compiling takes very long is left out if
it is larger than those given. For a named target without a GPU, a compile error is the candidate's
failure, and otherwise registers, spills and shared memory are reported.
"""

from __future__ import annotations

import collections
import concurrent.futures
import time
from collections.abc import Sequence

from triton_agent.tools.checker.session import Failed, Session
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.errors import TritonAgentError
from triton_agent.tools.machine.baton import BATON
from triton_agent.tools.processes.protocol import Compile, Compiled
from triton_agent.tools.results import Finding, KernelResources

LEAST_S = 0.01
VERY_LONG_S = 10.0
"""A single tape that compiles for longer has outgrown the GPU: its tiles do not fit into registers."""
PATIENCE_S = 15.0
"""Time limit in total. A tile that spills badly keeps ptxas busy for longer; the executor then compiles it itself."""


def compile_for_target(program: Program, session: Session, timeout_s: float) -> list[KernelResources]:
    """Return the resources of a tape's kernels; raise `Failed` for one that does not compile."""
    session.await_ready()
    reply, _ = session.ask(Compile(tape=program.encoded, kernels=program.kernels), Compiled, timeout_s=timeout_s)
    if failure := reply.failure:
        where = f"line {failure.line}: " if failure.line else ""
        raise Failed(Finding.COMPILE, f"{where}kernel {failure.kernel}: {failure.cause}")
    return list(reply.kernels)


def fill_cache(programs: Sequence[Program], sessions: Sequence[Session]) -> list[Program]:
    """Compile until all kernels are done, one fails, or the time is up; return those that take very long."""
    left = collections.deque(programs)
    slow: list[Program] = []
    until_s = time.monotonic() + PATIENCE_S

    def share(session: Session) -> None:
        try:
            session.await_ready()
            while True:
                program = left.popleft()
                began_s = time.monotonic()
                try:
                    request = Compile(tape=program.encoded, kernels=program.kernels)
                    reply, _ = session.ask(request, Compiled, timeout_s=max(LEAST_S, until_s - began_s))
                finally:
                    if time.monotonic() - began_s > VERY_LONG_S:
                        slow.append(program)
                if reply.failure:
                    left.clear()
        except (Failed, TritonAgentError, IndexError):  # IndexError: another session took the last program
            return

    pool = concurrent.futures.ThreadPoolExecutor(len(sessions), thread_name_prefix="compile")
    with BATON.put_down(), pool:
        list(pool.map(share, sessions))
    return slow

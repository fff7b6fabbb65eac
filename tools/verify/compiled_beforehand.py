"""Has torch's compiler do its work in a process beside the checker, while that one finds out what to check.

What comes of it is in the compiler's own cache on the disk, where the checker finds it when it comes to its baselines:
it then takes a second or two instead of ten or more. Nothing else comes out of this process; a failure in it is met
again, and told, by the checker. It must be begun before the checker touches CUDA, since it is forked off it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

import torch

from triton_agent.tools.hardware import uuid_of
from triton_agent.tools.isolate import privileges
from triton_agent.tools.isolate.conditions import Conditions
from triton_agent.tools.isolate.cores import leave_cores_to_the_clock
from triton_agent.tools.problem import ProblemSpec
from triton_agent.tools.timing.lease import Mode, lease
from triton_agent.tools.verify.baselines import compiled, keep_what_is_compiled
from triton_agent.tools.verify.distributions import DISTRIBUTIONS, draw
from triton_agent.tools.verify.input_tensors import map_tensors
from triton_agent.tools.verify.reference import load

THREADS_AT_MOST = 8
LIMIT_S = 300.0
"""From its beginning. What takes longer to compile is nobody's baseline."""
POLL_S = 0.02
SEED = 1
"""Any will do: what is compiled depends on shapes and types."""


class CompiledBeforehand:
    """A forked process that compiles; at work from its construction until `join`."""

    def __init__(self, spec: ProblemSpec, names: tuple[str, ...], conditions: Conditions, *, train: bool) -> None:
        self._until_s = time.monotonic() + LIMIT_S
        self.in_time = True
        """Known once it was joined."""
        self._pid = os.fork() if names else 0
        if names and self._pid == 0:
            try:
                privileges.die_with_parent()
                _compile_all(spec, names, conditions, train)
            finally:
                os._exit(0)

    def join(self) -> None:
        """Until it is done, or has taken too long; at once where there is nothing to wait for."""
        pid, self._pid = self._pid, 0
        if not pid:
            return
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > self._until_s:
                    self.in_time = False
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    return
                time.sleep(POLL_S)


def _compile_all(spec: ProblemSpec, names: tuple[str, ...], conditions: Conditions, train: bool) -> None:
    leave_cores_to_the_clock()
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(min(THREADS_AT_MOST, len(os.sched_getaffinity(0))))
    keep_what_is_compiled()
    conditions.settle()
    with lease(uuid_of(0), what=f"triton-agent: torch.compile of {spec.name}", mode=Mode.SHARED):
        reference = load(spec)
        arguments = [
            map_tensors(value, lambda tensor: tensor.to("cuda")) for value in draw(reference, DISTRIBUTIONS[0], SEED)
        ]
        for name in names:
            original = reference.make_model(SEED).to("cuda").train(train)
            with reference.running("forward"), torch.no_grad(), conditions.calling("cuda"):
                compiled(name, original, arguments, lambda model, args: model(*args))

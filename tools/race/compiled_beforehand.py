"""Runs torch's compiler on the reference in a process of its own, while the checker prepares the cases.

What comes of it is in the compiler's own cache on the disk, where the checker finds it when it comes to its baselines:
it then takes a second or two instead of ten or more. Nothing else comes out of this process; a failure in it is met
again, and told, by the checker. It must be begun before the checker touches CUDA, since it is forked off it.

It uses the GPU only beside others, and stands still while anybody wants that alone (`race/giving_way.py`): no race
waits for a compiler. The compiler's own helpers, which have no use for a GPU, go on meanwhile, on the cores and at the
priority that are left to them.
"""

from __future__ import annotations

import functools
import mmap
import os
import signal
import struct
import time
from collections.abc import Callable
from typing import Any

import torch

from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.child import leave_cores_to_the_clock
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.race.baselines import compiled, import_compiler
from triton_agent.tools.race.giving_way import GivingWay, Lease
from triton_agent.tools.race.late_value import TELL_EVERY_S
from triton_agent.tools.reference.input_tensors import map_tensors
from triton_agent.tools.reference.reference import load
from triton_agent.tools.sandbox import privileges

THREADS_AT_MOST = 8
LESS_URGENT = 10
"""Steps of priority below what candidates wait for."""
SEED = 1
"""Any will do: what is compiled depends on shapes and types."""


class CompiledBeforehand:
    """A forked process that compiles; it has the GPU from `share` on."""

    def __init__(
        self,
        spec: ProblemSpec,
        names: tuple[str, ...],
        conditions: Conditions,
        *,
        train: bool,
        limit_s: float,
    ) -> None:
        """`limit_s`: of the process's own time."""
        self.limit_s = limit_s
        self._keeper: GivingWay | None = None
        self.longest_call = LongestCall()
        self._pid = os.fork() if names else 0
        if names and self._pid == 0:
            try:
                privileges.die_with_parent()
                os.setpgid(0, 0)  # else who stops the driver at its terminal and lets it go on lets this go on, too
                _compile_all(spec, names, conditions, train, self.longest_call)
            finally:
                os._exit(0)

    def share(self, lease: Lease, awaited: Callable[[], bool]) -> None:
        """Give it the GPU under this lease, whenever nobody waits to have that alone."""
        if self._pid:
            self._keeper = GivingWay(
                self._pid, lease, awaited, limit_s=self.limit_s, longest_call_s=self.longest_call.seconds
            )

    def wait(self, tell: Callable[[], None]) -> bool:
        """Wait until it is done; return False if it has taken too long. `tell` is called now and then.

        Who waits must not hold the GPU, which it may need.
        """
        if self._keeper is None:
            return True
        while not self._keeper.wait(TELL_EVERY_S):
            tell()
        return self._keeper.in_time


class LongestCall:
    """How long a call of the reference takes, in memory that a fork shares."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)

    def seconds(self) -> float:
        """0 as long as it is not known."""
        return float(struct.unpack("d", self._memory[:])[0])

    def measured(self, original: torch.nn.Module, model: Any, args: list[Any]) -> Any:
        """Calls a model, and leaves nothing of it queued; the reference's time is kept."""
        began = time.monotonic()
        result = model(*args)
        torch.cuda.synchronize()
        if model is original:
            self._memory[:] = struct.pack("d", max(time.monotonic() - began, self.seconds()))
        return result


def _compile_all(
    spec: ProblemSpec, names: tuple[str, ...], conditions: Conditions, train: bool, longest_call: LongestCall
) -> None:
    leave_cores_to_the_clock()
    os.nice(LESS_URGENT)
    import_compiler(min(THREADS_AT_MOST, len(os.sched_getaffinity(0))))
    conditions.settle()
    os.kill(os.getpid(), signal.SIGSTOP)  # ready for the GPU
    reference = load(spec)
    drawn = reference.make_inputs_on("cuda", SEED)
    arguments = [map_tensors(value, lambda tensor: tensor.to("cuda")) for value in drawn]
    del drawn
    for name in names:
        original = reference.make_model(SEED).to("cuda").train(train)
        call = functools.partial(longest_call.measured, original)
        with reference.running("forward"), torch.no_grad(), conditions.calling("cuda"):
            compiled(name, original, arguments, call)

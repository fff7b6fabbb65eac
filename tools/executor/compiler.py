"""The compile worker: compiles the kernels of tapes for a target without a GPU, and reports their resources.

No Python of a candidate runs here. For a GPU in this machine it fills the cache from which the executor loads kernels.
For a named target it reports registers, spills and shared memory, and compile errors. It sets no time limit: the
checker waits with a timeout, and the process is ended if ptxas takes too long for a kernel.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from triton_agent.tools.compile.failure import CompileFailure
from triton_agent.tools.executor.kernels import Kernels, Loader, as_passed, descriptor_over
from triton_agent.tools.processes.child import begin, confine, leave_cores_to_the_clock
from triton_agent.tools.processes.codec import to_plain
from triton_agent.tools.processes.payloads import receive_request
from triton_agent.tools.processes.protocol import Compile, Compiled
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.processes.wire import Channel
from triton_agent.tools.sandbox import sandbox
from triton_agent.tools.tape.tape import Address, Choice, Constexpr, Descriptor, Launch, Tape, View, decode

ALIGNED = 1 << 20
"""Address that stands for the start of every buffer, with the alignment of fresh memory."""


def warm_up(target: str) -> None:
    """Do slow imports in the process from which compile workers are forked."""
    importlib.import_module("triton_agent.tools.compile.aot").warm_up(target)
    sandbox.prepare()


def main(channel: Channel, plain: dict[str, Any]) -> None:
    """Confine this process, send READY, then compile until the checker hangs up."""
    settings = begin(plain)
    leave_cores_to_the_clock()
    ready = confine(settings)
    compiler = Compiler(settings.scratch, settings.target, fills_cache=bool(settings.cache))
    channel.send(to_plain(ready))
    while True:
        request, _ = receive_request(channel, Compile)
        channel.send(to_plain(compiler.compile(request)))


class Compiler:
    """Compiles for one target."""

    def __init__(self, scratch: str, target: str, *, fills_cache: bool) -> None:
        self._loader = Loader(scratch)
        self._fills_cache = fills_cache
        self._target = target
        self._aot = importlib.import_module("triton_agent.tools.compile.aot")
        self._aot.install(target)
        if fills_cache:
            self._aot.build_launchers()

    def compile(self, request: Compile) -> Compiled:
        """Compile every launch of a tape. A launch fails if none of its choices compiles."""
        compilation = self._aot.install(self._target)
        if not self._fills_cache:
            self._loader.forget()  # Triton reports nothing about a kernel that it compiled before
        kernels = self._loader.load(request.kernels)
        failure: CompileFailure | None = None
        tape: Tape = decode(request.tape)
        for step in (*tape.prologue, *tape.steps):
            if isinstance(step, Launch) and failure is None:
                failure = self._compile_any(step, kernels)
        found = zip(compilation.kernels, compilation.constants)
        told = tuple(dataclasses.replace(kernel, constants=constants) for kernel, constants in found)
        return Compiled(kernels=told, failure=failure)

    def _compile_any(self, step: Launch, kernels: Kernels) -> CompileFailure | None:
        """Return None if at least one choice compiles, otherwise the first failure."""
        failures = [self._compile_one(choice, kernels) for choice in step.choices]
        return failures[0] if all(failures) else None

    def _compile_one(self, choice: Choice, kernels: Kernels) -> CompileFailure | None:
        passed = {name: _stand_in(value, kernels) for name, value in choice.arguments}
        kernel = kernels.functions[choice.kernel]
        failure: CompileFailure | None = self._aot.compile_launch(
            kernel, passed, choice.grid, dict(choice.options), source_path=kernels.path
        )
        return failure and dataclasses.replace(failure, line=kernels.line_of(failure.line or 0))


@dataclasses.dataclass(frozen=True, slots=True)
class _Memory:
    """Replaces a tensor, with the attributes that a compiler reads."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int

    def data_ptr(self) -> int:
        return self.address

    def ptr_range(self) -> int:
        return 0

    def stride(self) -> tuple[int, ...]:
        return self.strides


def _stand_in(value: Any, kernels: Kernels) -> Any:
    if isinstance(value, View):
        dtype = DTYPES[value.dtype]
        return _Memory(dtype, value.shape, value.strides, ALIGNED + value.offset * dtype.itemsize)
    if isinstance(value, Descriptor):
        return descriptor_over(_stand_in(value.view, kernels), value)
    if isinstance(value, Address):
        return ALIGNED + value.offset
    if isinstance(value, tuple):
        return tuple(_stand_in(item, kernels) for item in value)
    if isinstance(value, Constexpr):
        return as_passed(value, kernels)
    return value

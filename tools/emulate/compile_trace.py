"""Every step from a launch to a loaded kernel, watched: what was compiled, what it needs, what failed and whose fault.

The steps are Triton's own; each method of `Tracer` stands around one of them and lets it proceed. What fails while a
kernel is compiled or loaded is marked as the kernel's fault; anything else passes as it is. Autotuned kernels are not
timed: a few configurations are compiled, and the first that compiles is launched.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from triton_agent.tools.emulate.compile_failure import cause_of, mark
from triton_agent.tools.emulate.diagnostics import record_stderr
from triton_agent.tools.emulate.resources import SPILL_KEY, read_ptxas_log, resources_of
from triton_agent.tools.emulate.targets import Target
from triton_agent.tools.results import KernelResources

NEVER_MS = float("inf")
"""What Triton's autotuner itself records for a configuration that cannot run."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TracedLaunch:
    """A launch that would have happened."""

    kernel: str
    grid: tuple[int, int, int]
    specialisation: int
    """Index into `Compilation.kernels`."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Compilation:
    """Filled while the candidate's host code runs."""

    target: str
    kernels: list[KernelResources] = dataclasses.field(default_factory=list)
    """One per compiled specialisation that fits the target, in order."""
    constants: list[str] = dataclasses.field(default_factory=list)
    """The `tl.constexpr` arguments of each kernel in `kernels`, as in `BLOCK=128, EVEN=True`."""
    launches: list[TracedLaunch] = dataclasses.field(default_factory=list)
    """Without those an autotuner would have made to time its configurations."""
    refused: list[str] = dataclasses.field(default_factory=list)
    """Autotuner configurations that do not compile or do not fit, each with its cause."""
    interrupted: str = ""
    """What the host code raised after at least one kernel had compiled; set by `trace` only."""


class Tracer:
    """Sees every step from a launch to a loaded kernel, and keeps the record."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.loading: Any = None
        """The kernel whose binary Triton hands to the driver next."""
        self._compile_ms: dict[str, float] = {}
        self._seen: dict[str, tuple[KernelResources, str]] = {}
        self._tuning = False
        self._tried = self._compiled = 0
        self._last_error: Exception | None = None
        self.begin(configs_at_most=1)

    def begin(self, *, configs_at_most: int) -> Compilation:
        """Start a fresh record. Kernels already compiled enter it when they are launched again."""
        self.compilation = Compilation(target=self.target.name)
        self._configs_at_most = configs_at_most
        self._places: dict[str, int] = {}
        return self.compilation

    # -- compiling: what fails here is the kernel's fault ----------------------------------------------------------

    def choose_options(self, proceed: Callable[..., Any], function: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return proceed(*args, **kwargs)
        except (ValueError, AssertionError) as error:  # not KeyError: that is an argument the kernel does not have
            self._blame(error, function.__name__)
            raise

    def compile(self, proceed: Callable[..., Any], function: Any, /, *args: Any, **kwargs: Any) -> Any:
        stderr = io.StringIO()
        try:
            with record_stderr() as stderr:
                return proceed(*args, **kwargs)
        except Exception as error:
            self._blame(error, function.__name__, stderr.getvalue())
            raise

    def make_cubin(self, proceed: Callable[..., Any], backend: Any, /, source: str, metadata: Any, *rest: Any) -> Any:
        """`ptxas` always runs verbosely; have Triton print its log, and keep the number that is nowhere else."""
        from triton import knobs

        with contextlib.redirect_stdout(io.StringIO()) as log, knobs.nvidia.scope():
            knobs.nvidia.dump_ptxas_log = True
            cubin = proceed(source, metadata, *rest)
        metadata[SPILL_KEY] = read_ptxas_log(log.getvalue())
        return cubin

    def load(self, proceed: Callable[..., Any], kernel: Any, /) -> None:
        """Triton checks shared memory, tensor memory and threads here, at the first launch of a kernel."""
        self.loading = kernel
        try:
            proceed()
        except Exception as error:
            self._blame(error, kernel.src.name)
            raise
        self._remember(kernel)

    def run(self, proceed: Callable[..., Any], function: Any, /, *args: Any, warmup: bool, **kwargs: Any) -> Any:
        from triton.compiler.compiler import CompiledKernel
        from triton.runtime.errors import OutOfResources

        try:
            kernel = proceed(*args, warmup=warmup, **kwargs)
        except OutOfResources as error:  # a copy of the first refusal, when the kernel is launched again
            self._blame(error, function.__name__)
            raise
        if warmup and isinstance(kernel, CompiledKernel):
            self._remember(kernel)  # a warm-up compiles without loading
        return kernel

    def compiled(self, *, metadata: dict[str, Any], times: Any, **_: Any) -> None:
        """Triton's listener: called after each compilation with its times in microseconds."""
        self._compile_ms[metadata["hash"]] = times.total / 1000

    def _blame(self, error: Exception, kernel: str, diagnostics: str = "") -> None:
        mark(error, kernel=kernel, diagnostics=diagnostics)
        self._last_error = error

    # -- the record ------------------------------------------------------------------------------------------------

    def launch(self, kernel_hash: str, grid: Sequence[Any]) -> None:
        """As the real launcher, refuse what is not an integer."""
        x, y, z = (operator.index(size) for size in grid)
        if self._tuning:
            return
        place = self._place(kernel_hash)
        name = self.compilation.kernels[place].kernel
        self.compilation.launches.append(TracedLaunch(kernel=name, grid=(x, y, z), specialisation=place))

    def _remember(self, kernel: Any) -> None:
        if kernel.hash not in self._seen:
            compile_ms = self._compile_ms.get(kernel.hash, 0.0)
            resources = resources_of(kernel, target=self.target.name, compile_ms=compile_ms)
            self._seen[kernel.hash] = (resources, constants_of(kernel.src))
        self._place(kernel.hash)

    def _place(self, kernel_hash: str) -> int:
        """Index of the kernel in the present record; enters it if it was compiled during an earlier one."""
        if kernel_hash not in self._places:
            resources, constants = self._seen[kernel_hash]
            self._places[kernel_hash] = len(self.compilation.kernels)
            self.compilation.kernels.append(resources)
            self.compilation.constants.append(constants)
        return self._places[kernel_hash]

    # -- autotuning without a clock --------------------------------------------------------------------------------

    def begin_tuning(self, proceed: Callable[..., Any], tuner: Any, /, *args: Any, **kwargs: Any) -> Any:
        self._tried = self._compiled = 0
        return proceed(*args, **kwargs)

    def try_config(self, proceed: Callable[..., Any], tuner: Any, /, *args: Any, config: Any, **meta: Any) -> Any:
        """Triton swallows what a GPU would refuse and raises anything else, here as there."""
        if self._compiled and self._tried >= self._configs_at_most:
            return [NEVER_MS] * 3
        self._tried += 1
        with self._without_launches():
            timings = proceed(*args, config=config, **meta)
        if timings[0] == NEVER_MS:
            cause = "" if self._last_error is None else cause_of(self._last_error)
            self.compilation.refused.append(f"{tuner.base_fn.__name__} with {config}: {cause}")
        else:
            self._compiled += 1
        return timings

    def skip_timings_cache(
        self, proceed: Callable[..., Any], tuner: Any, /, key: Any, configs: Any, bench: Callable[[], object]
    ) -> bool:
        """Timings that were never taken must not reach the disk, where a GPU would find them."""
        bench()
        return False

    @contextlib.contextmanager
    def _without_launches(self) -> Iterator[None]:
        self._tuning = True
        try:
            yield
        finally:
            self._tuning = False


def constants_of(source: Any) -> str:
    """The `tl.constexpr` arguments that a kernel was specialised for, as text."""
    values = {path[0]: value for path, value in source.constants.items()}
    declared = [parameter for parameter in source.fn.params if parameter.is_constexpr]
    return ", ".join(f"{parameter.name}={values.get(parameter.num)}" for parameter in declared)

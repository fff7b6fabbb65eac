"""Triton's interpreter, made trustworthy enough for verdicts on correctness without a GPU.

`install()` replaces, in this process and for good, what the stock interpreter does with a kernel: arithmetic
(`arithmetic.py`, `dot.py`, `reduction.py`), memory (`memory.py`, `bounds.py`), the meaning of the source
(`kernel_source.py`), arguments and grids (`launching.py`), autotuning (`tuning.py`), `libdevice` and the driver. It
works on Triton 3.6 and 3.7, whose stock loops over a dynamic `range` fail with numpy 2.4 in the former.

Programs run one after another in the order of the grid; with an `order_seed` in random order and interleaved
(`program_order.py`). Either way `bounds.py` looks for races.

Not covered: registers and shared memory have no limit, a store is seen by all programs at once, and nothing is timed.
Gluon, inline assembly, `dot_scaled` and rare `libdevice` functions raise `Unsupported`. Meant for a one-shot process
in which one thread launches.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as stock
from triton.language.extra import cuda, libdevice
from triton.language.semantic import TritonSemantic
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from triton_agent.tools.emulate.bounds import Memory
from triton_agent.tools.emulate.faults import (
    Deadlock,
    EmulationError,
    KernelError,
    OutOfBounds,
    StaticAssertionFailed,
    Unsupported,
    line_of,
)
from triton_agent.tools.emulate.interpreter_driver import InterpretedKernel, InterpreterDriver
from triton_agent.tools.emulate.kernel_source import KernelLanguage, rewrite
from triton_agent.tools.emulate.launching import bind, resolve_grid
from triton_agent.tools.emulate.memory import GuardedBuilder
from triton_agent.tools.emulate.program_order import PROGRAMS_PER_MULTIPROCESSOR, Interleaving, ThreadStarter
from triton_agent.tools.emulate.reduction import associative_scan, reduce
from triton_agent.tools.emulate.targets import parse_target
from triton_agent.tools.emulate.tuning import tuned_run
from triton_agent.tools.errors import InstrumentError

__all__ = [
    "Deadlock",
    "EmulationError",
    "Interpreter",
    "KernelError",
    "Launch",
    "OutOfBounds",
    "Unsupported",
    "install",
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One finished launch."""

    kernel: str
    grid: tuple[int, int, int]
    programs: int
    bytes_loaded: int
    """Counted lane by lane, masked lanes not; what an atomic reads is included."""
    bytes_stored: int
    written: tuple[tuple[int, int], ...]
    """Address ranges, start and end, of the tensor arguments that received stores or atomics."""
    contested: tuple[str, ...]
    """Parameters with an element to which two programs stored different values: on a GPU, a race. Only looked for
    until the launch's first atomic, which may be a lock."""
    read_beside_stores: tuple[str, ...]
    """Parameters with an element that one program stored and another one read, before or after: a race as well. Not
    counted: stores of the value that was there, volatile loads, and what follows the launch's first atomic."""


class Owners(Protocol):
    """Tells whose kernels are launched."""

    def is_own(self, function: Any) -> bool: ...

    def note_other(self, kernel: str) -> None: ...


class Interpreter:
    """What `install` put in place: the record of launches, and the switch that silences them."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.launches: list[Launch] = []
        """Cleared by the caller."""
        self.faults: list[EmulationError] = []
        """Everything raised inside launches, kept even where the candidate swallowed it; cleared by the caller."""
        self.silenced = False
        """When True a launch does nothing at all: an answer that stays right did not come from the kernels."""
        self.only: Sequence[int] | None = None
        """Numbers of the programs that a launch runs, x fastest; None for all of them."""
        self.owners: Owners | None = None
        """Who tells a candidate's kernels from others, which run silenced or not and are not in the record."""
        self._side_by_side = parse_target(target).multiprocessors * PROGRAMS_PER_MULTIPROCESSOR
        self._order_seed: int | None = None
        self._randomness = random.Random()
        self._starter: ThreadStarter | None = None
        self._builder = GuardedBuilder(parse_target(target).gpu_target())
        self._semantic = TritonSemantic(self._builder)
        self._language = KernelLanguage(self._semantic)
        self._rewritten: dict[Any, Callable[..., Any]] = {}
        self._is_running = False
        self._is_recording = True
        self._last: Memory | None = None

    @property
    def order_seed(self) -> int | None:
        """Decides the order of programs in all launches that follow its setting; None stands for the grid's order.

        Set by the caller, not from within a kernel file: it starts a thread, which lasts until None is set.
        """
        return self._order_seed

    @order_seed.setter
    def order_seed(self, seed: int | None) -> None:
        self._order_seed = seed
        if self._starter is not None and (seed is None or not self._starter.is_usable()):
            self._starter.close()
            self._starter = None
        if seed is not None:
            self._randomness = random.Random(seed)
            self._starter = self._starter or ThreadStarter()

    def launch(self, kernel: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> None:
        """Runs every program of one launch."""
        self._last = None
        own = self.owners is None or self.owners.is_own(kernel.fn)
        if self.owners is not None and not own:
            self.owners.note_other(kernel.fn.__name__)
        elif self.silenced:
            return
        try:
            for hook in kernel.pre_run_hooks:
                hook(*args, **kwargs)
            bound = bind(kernel.fn, args, kwargs)
            sizes = resolve_grid(grid, bound.host)
            memory = self._builder.memory = Memory(bound.extents)
            self._run_programs(kernel.fn, bound.device, sizes)
        except EmulationError as error:
            self.faults.append(error)
            raise
        self._last = memory
        if self._is_recording and own and 0 not in sizes:
            self.launches.append(_record(kernel.fn.__name__, sizes, memory))

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A kernel calling one of its helpers."""
        if not self._is_running:
            raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")
        return self._python(function)(*args, **kwargs)

    def updated(self) -> frozenset[str]:
        """The parameters that the last launch both read and wrote."""
        memory = self._last
        return frozenset() if memory is None else frozenset(memory.names(memory.read & memory.written))

    @contextlib.contextmanager
    def unrecorded(self) -> Iterator[None]:
        self._is_recording = False
        try:
            yield
        finally:
            self._is_recording = True

    def _run_programs(self, function: Any, arguments: dict[str, Any], sizes: tuple[int, int, int]) -> None:
        self._builder.set_grid_dim(*sizes)
        self._is_running = True
        try:
            program = functools.partial(self._python(function), **arguments)
            if self.only is not None:
                self._run_in_order(program, (_index(it, sizes) for it in self.only if it < math.prod(sizes)))
            elif self._starter is not None and math.prod(sizes) > 1:
                self._interleave(program, sizes)
            else:
                self._run_in_order(program, itertools.product(*map(range, sizes)))
        except (MemoryError, InstrumentError):
            raise
        except EmulationError as error:
            error.kernel, error.line = function.__name__, line_of(error)
            if isinstance(error, OutOfBounds):
                error.reason += f", program {self._builder.grid_idx}"
            raise
        except Exception as error:
            line = error.lineno if isinstance(error, SyntaxError) else line_of(error)
            raise KernelError(_described(error), kernel=function.__name__, line=line) from error
        finally:
            self._is_running = False

    def _run_in_order(self, program: Callable[[], None], indices: Iterable[tuple[int, ...]]) -> None:
        with np.errstate(all="ignore"):
            for index in indices:
                self._builder.set_grid_idx(*index)
                program()

    def _interleave(self, program: Callable[[], None], sizes: tuple[int, int, int]) -> None:
        assert self._starter is not None
        self._builder.interleaving = Interleaving(
            grid=sizes,
            program=program,
            enter=self._builder.set_grid_idx,
            randomness=self._randomness,
            side_by_side=self._side_by_side,
            starter=self._starter,
        )
        try:
            self._builder.interleaving.run()
        finally:
            self._builder.interleaving = None

    def _python(self, function: Any) -> Callable[..., Any]:
        if function not in self._rewritten:
            self._rewritten[function] = rewrite(function, self._language)
        return self._rewritten[function]


_installed: Interpreter | None = None


def install(target: str = "cuda:90") -> Interpreter:
    """Puts the mended interpreter in place of the stock one; a second call gives the same one back."""
    global _installed
    if _installed is None:
        _check_mode()
        _installed = Interpreter(target)
        _replace_language(_installed)
        _replace_launching(_installed)
        driver.set_active(InterpreterDriver(parse_target(target)))
    elif _installed.target != target:
        raise InstrumentError(f"the interpreter is already installed for {_installed.target}, not {target}")
    return _installed


def _check_mode() -> None:
    if not isinstance(tl.standard.sum, stock.InterpretedFunction):
        raise InstrumentError(
            "triton was imported to compile, not to interpret",
            remedy="Set TRITON_INTERPRET=1 before triton is first imported in this process.",
        )


def _replace_language(interpreter: Interpreter) -> None:
    """Binds the functions of `triton.language` to the interpreter, in every module where kernels find them."""
    stock._get_np_dtype = _remembering(stock._get_np_dtype)
    builder, scope = interpreter._builder, stock._LangPatchScope()
    stock.interpreter_builder, stock.interpreter_semantic = builder, interpreter._semantic
    for place in (tl, tl.core, tl.math, tl.tensor, tl.core.tensor_descriptor_base, cuda, cuda.utils, cuda.libdevice):
        stock._patch_builtin(place, builder, scope)
    stock._patch_lang_tensor(tl.tensor, scope)
    for place in (tl, tl.core):
        stock._patch_lang_core(place, scope)
        place.static_assert = _static_assert
    for place in (tl, tl.core, tl.tensor):
        place.reduce, place.associative_scan = reduce, associative_scan
    tl.tensor.__index__ = lambda tensor: int(tensor.handle.data.reshape(-1)[0])
    for name, function in inspect.getmembers(cuda.libdevice, callable):
        if hasattr(libdevice, name):
            setattr(libdevice, name, function)


def _remembering(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Triton's own writes down a table of all types at every asking, which took a twelfth of a kernel's time."""
    found: dict[str, Any] = {}

    def remembered(kind: Any) -> Any:
        name = kind.scalar.name
        if name not in found:
            found[name] = find(kind)
        return found[name]

    return remembered


def _replace_launching(interpreter: Interpreter) -> None:
    def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> InterpretedKernel:
        if not warmup:
            interpreter.launch(kernel, args, grid, kwargs)
        return InterpretedKernel(kernel.run, kwargs.get("num_warps", 4))

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        return interpreter.call(function.fn, args, kwargs)

    def refuse(kernel: Any, *_: Any, **__: Any) -> NoReturn:
        fault = Unsupported("a kernel that was declared to be compiled (Gluon, or interpretation switched off)")
        interpreter.faults.append(fault)
        raise fault

    stock.InterpretedFunction.run = run
    stock.InterpretedFunction.__call__ = call
    JITFunction.run = refuse
    Autotuner.run = tuned_run(interpreter.updated, interpreter.unrecorded)


def _static_assert(condition: Any, message: Any = "") -> None:
    if not tl.core._unwrap_if_constexpr(condition):
        raise StaticAssertionFailed(str(tl.core._unwrap_if_constexpr(message)) or "static assertion failed")


def _record(kernel: str, sizes: tuple[int, int, int], memory: Memory) -> Launch:
    return Launch(
        kernel=kernel,
        grid=sizes,
        programs=sizes[0] * sizes[1] * sizes[2],
        bytes_loaded=memory.bytes_loaded,
        bytes_stored=memory.bytes_stored,
        written=tuple((memory.extents[i].start, memory.extents[i].end) for i in sorted(memory.written)),
        contested=tuple(memory.names(memory.contested)),
        read_beside_stores=tuple(memory.names(memory.read_beside_stores)),
    )


def _index(number: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    return number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])


def _described(error: Exception) -> str:
    if isinstance(error, StaticAssertionFailed):
        return f"static assertion failed: {error}"
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

"""Triton's interpreter, corrected so that it can decide on correctness without a GPU.

`install()` permanently replaces parts of the stock interpreter in this process: arithmetic (`arithmetic.py`, `dot.py`,
`reduction.py`), memory (`memory.py`, `bounds.py`), the semantics of the source (`kernel_source.py`), arguments and
grids (`launching.py`), `libdevice` and the driver. It works on Triton 3.6 to 3.9; stock loops over a dynamic `range`
in 3.6 fail with numpy 2.4.

The programs of a launch run together if they do not access each other's memory (`lockstep.py`). Otherwise, and after
any error, they run one after another in the order of the grid, or, with an `order_seed`, in random order and
interleaved (`program_order.py`). In these cases `bounds.py` looks for races.

Not covered: registers and shared memory have no limit, all programs see a store at once, and nothing is timed. Gluon,
inline assembly, `dot_scaled` and rare `libdevice` functions raise `Unsupported`. Meant for a one-shot process in which
one thread launches.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as stock
from triton.language.extra import cuda, libdevice
from triton.language.semantic import TritonSemantic
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from triton_agent.tools.compile.driver import TargetDriver
from triton_agent.tools.compile.targets import parse_target, resolve_grid
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
from triton_agent.tools.emulate.floats import Array
from triton_agent.tools.emulate.kernel_source import KernelLanguage, rewrite
from triton_agent.tools.emulate.launching import bind
from triton_agent.tools.emulate.lockstep import Apart, Lockstep
from triton_agent.tools.emulate.memory import GuardedBuilder
from triton_agent.tools.emulate.program_order import PROGRAMS_PER_MULTIPROCESSOR, Interleaving
from triton_agent.tools.emulate.reduction import associative_scan, reduce
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.noting.notes import Notes

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
    programs: int
    bytes_loaded: int
    """Bytes of active lanes, including reads by atomics."""
    bytes_stored: int
    written: tuple[tuple[int, int], ...]
    """Start and end address of each memory that a program stored into."""
    contested: tuple[str, ...]
    """Parameters with an element in which two programs, or two lanes of one store, stored different values: a race on a
    GPU. Stores of two programs do not count if atomics order them: the first released after its store, and the second
    acquired after that. Atomics that hold within a program only (`scope="cta"`) count as such stores."""
    read_beside_stores: tuple[str, ...]
    """Parameters with an element that one program stored and another one read, in either order: also a race. Not
    counted: stores that change nothing, volatile loads, and accesses that atomics order."""


class Interpreter:
    """The interpreter set up by `install`, with its record of launches."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.launches: list[Launch] = []
        """Finished launches; cleared by the caller."""
        self.faults: list[EmulationError] = []
        """Errors of launches; cleared by the caller."""
        self.only: Sequence[int] | None = None
        """Numbers of the programs that a launch runs, x fastest; None for all."""
        self._side_by_side = parse_target(target).multiprocessors * PROGRAMS_PER_MULTIPROCESSOR
        self._builder = GuardedBuilder(parse_target(target).gpu_target())
        self.order_seed = None
        self._semantic = TritonSemantic(self._builder)
        self.notes = Notes(self._builder)
        self._language = KernelLanguage(self._semantic)
        self._rewritten: dict[Any, Callable[..., Any]] = {}
        self._one_by_one: set[Any] = set()
        """Kernels whose programs cannot run together."""
        self._is_running = False

    def launch(self, kernel: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> None:
        """Run every program of one launch."""
        try:
            for hook in kernel.pre_run_hooks:
                hook(*args, **kwargs)
            unspecialized = kernel.kwargs.get("do_not_specialize") or ()
            constant = self._language.constant
            bound = bind(kernel.fn, args, kwargs, constant=constant, unspecialized=unspecialized)
            sizes = resolve_grid(grid, bound.host)
            self._builder.memory = Memory(bound.extents)
            self._run_programs(kernel.fn, bound.device, sizes)
        except EmulationError as error:
            self.faults.append(error)
            raise
        memory = self._builder.memory
        if 0 not in sizes:
            self.launches.append(
                Launch(
                    kernel=kernel.fn.__name__,
                    programs=math.prod(sizes),
                    bytes_loaded=memory.bytes_loaded,
                    bytes_stored=memory.bytes_stored,
                    written=tuple((memory.extents[i].start, memory.extents[i].end) for i in sorted(memory.written)),
                    contested=tuple(memory.names(memory.contested)),
                    read_beside_stores=tuple(memory.names(memory.read_beside_stores)),
                )
            )

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a helper function from within a kernel."""
        if not self._is_running:
            raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")
        return self._python(function)(*args, **kwargs)

    def _run_programs(self, function: Any, arguments: dict[str, Any], sizes: tuple[int, int, int]) -> None:
        self._builder.set_grid_dim(*sizes)
        self._is_running = True
        try:
            program = functools.partial(self._python(function), **arguments)
            indices = _indices(sizes, self.only)
            if len(indices) > 1 and self._ran_together(function, program, indices):
                return
            if self.order_seed is not None and self.only is None and len(indices) > 1:
                self._builder.interleaving = Interleaving(
                    grid=sizes,
                    program=program,
                    enter=self._builder.set_grid_idx,
                    randomness=self._randomness,
                    side_by_side=self._side_by_side,
                )
                self._builder.interleaving.run()
            else:
                with np.errstate(all="ignore"):
                    for index in indices:
                        self._builder.set_grid_idx(*map(int, index))
                        program()
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
            self._builder.interleaving = None

    def _ran_together(self, function: Any, program: Callable[[], object], indices: Array) -> bool:
        """Run programs together; on any failure restore the memory and return False."""
        if function in self._one_by_one:
            return False
        memory = self._builder.memory
        self._builder.together = Lockstep(memory)
        try:
            with np.errstate(all="ignore"):
                self._builder.together.run(program, indices)
        except (Apart, Exception):  # when run one by one, the program that causes the error raises it
            self._one_by_one.add(function)
            self._builder.memory = Memory(memory.extents)
            return False
        finally:
            self._builder.together = None
        return True

    @property
    def order_seed(self) -> int | None:
        """Seed for the order of programs in the launches that follow; None for the grid's order."""
        return self._order_seed

    @order_seed.setter
    def order_seed(self, seed: int | None) -> None:
        self._order_seed = seed
        self._randomness = random.Random(seed)
        self._builder.lane_order = None if seed is None else np.random.default_rng(seed)

    def _python(self, function: Any) -> Callable[..., Any]:
        if function not in self._rewritten:
            self._rewritten[function] = rewrite(function, self._language)
            self.notes.predicates.files.add(self._rewritten[function].__code__.co_filename)
        return self._rewritten[function]


_installed: Interpreter | None = None


def install(target: str = "cuda:90") -> Interpreter:
    """Replace the stock interpreter; a second call returns the same object."""
    global _installed
    if _installed is None:
        if not isinstance(tl.standard.sum, stock.InterpretedFunction):
            raise InstrumentError(
                "triton was imported to compile, not to interpret",
                remedy="Set TRITON_INTERPRET=1 before triton is first imported in this process.",
            )
        _installed = Interpreter(target)
        _replace_language(_installed)
        _replace_launching(_installed)
        driver.set_active(TargetDriver(parse_target(target)))
    elif _installed.target != target:
        raise InstrumentError(f"the interpreter is already installed for {_installed.target}, not {target}")
    return _installed


def _yielding_to_tensors(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an operator of `tl.constexpr` to return NotImplemented for tensors, so that the tensor's operator runs; the
    compiler does the same."""
    return lambda self, other: NotImplemented if isinstance(other, tl.tensor) else operator(self, other)


def _as_index(builder: GuardedBuilder, tensor: Any) -> Any:
    """Return the tensor, after telling the builder that it is the number of rounds of a loop."""
    return tl.tensor(builder.create_index(tensor.handle), tensor.type)


def _value_of(builder: GuardedBuilder, tensor: Any) -> Any:
    """Return the value of a scalar, for decisions in Python."""
    values = tensor.handle.data.reshape(-1)
    return values[0] if builder.together is None else builder.together.agreed(values)


def _dot_scaled(*_: Any, **__: Any) -> Any:
    raise Unsupported("`tl.dot_scaled`")


def _replace_language(interpreter: Interpreter) -> None:
    """Bind the functions of `triton.language` to the interpreter, in every module where kernels find them."""
    stock._get_np_dtype = _remembering(stock._get_np_dtype)
    builder, scope = interpreter._builder, stock._LangPatchScope()
    stock.interpreter_builder, stock.interpreter_semantic = builder, interpreter._semantic
    for place in (tl, tl.core, tl.math, tl.tensor, tl.core.tensor_descriptor_base, cuda, cuda.utils, cuda.libdevice):
        stock._patch_builtin(place, builder, scope)
    stock._patch_lang_tensor(tl.tensor, scope)
    for place in (tl, tl.core):
        stock._patch_lang_core(place, scope)
        place.static_assert, place.dot_scaled = _static_assert, _dot_scaled
        place.multiple_of, place.max_contiguous = _checked_multiple_of, _checked_neighbours
        place.max_constancy = _checked_constancy
    for place in (tl, tl.core, tl.tensor):
        place.reduce, place.associative_scan = reduce, associative_scan
    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "and",
        "or",
        "xor",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
    ):
        setattr(tl.constexpr, f"__{name}__", _yielding_to_tensors(getattr(tl.constexpr, f"__{name}__")))
    tl.core.block_type.__init__ = _remembering_blocks(tl.core.block_type.__init__)
    tl.tensor.__init__ = _remembering_shapes(tl.tensor.__init__)
    tl.tensor.__index__ = lambda tensor: int(_value_of(builder, _as_index(builder, tensor)))
    tl.tensor.__bool__ = lambda tensor: tensor.type.is_block() or bool(_value_of(builder, tensor))
    tl.tensor.T = property(lambda tensor: interpreter._semantic.permute(tensor, (1, 0)))
    for name, function in inspect.getmembers(cuda.libdevice, callable):
        if hasattr(libdevice, name):
            setattr(libdevice, name, function)


def _remembering(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Cache the results of `find`: Triton builds a table of all types at each call, a twelfth of a kernel's time."""
    found: dict[str, Any] = {}

    def remembered(kind: Any) -> Any:
        name = kind.scalar.name
        if name not in found:
            found[name] = find(kind)
        return found[name]

    return remembered


def _remembering_blocks(initialise: Callable[..., None]) -> Callable[..., None]:
    """Reuse the fields of an equal block type. This and `_remembering_shapes` save half of a kernel's time."""
    found: dict[Any, dict[str, Any]] = {}

    def remembered(block: Any, element_ty: Any, shape: Any) -> None:
        sizes = shape.values if isinstance(shape, tl.tuple) else shape
        sizes = tuple(tl.core._unwrap_if_constexpr(size) for size in tl.core._unwrap_if_constexpr(sizes))
        key = (type(element_ty), element_ty.name, getattr(element_ty, "address_space", None), sizes)
        if key not in found:
            initialise(block, element_ty, shape)
            found[key] = block.__dict__
        block.__dict__.update(found[key])

    return remembered


def _remembering_shapes(initialise: Callable[..., None]) -> Callable[..., None]:
    """Reuse the fields of a tensor of the same type."""

    def remembered(tensor: Any, handle: Any, type: Any) -> None:
        fields = type.__dict__.get("_fields_of_tensors")
        if fields is None:
            initialise(tensor, handle, type)
            type._fields_of_tensors = {name: value for name, value in tensor.__dict__.items() if name != "handle"}
            return
        tensor.__dict__.update(fields)
        tensor.handle = handle

    return remembered


def _replace_launching(interpreter: Interpreter) -> None:
    def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        if not warmup:
            interpreter.launch(kernel, args, grid, kwargs)

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        return interpreter.call(function.fn, args, kwargs)

    def refuse(kernel: Any, *_: Any, **__: Any) -> NoReturn:
        fault = Unsupported("a kernel that was declared to be compiled (Gluon, or interpretation switched off)")
        interpreter.faults.append(fault)
        raise fault

    stock.InterpretedFunction.run = run
    stock.InterpretedFunction.__call__ = call
    JITFunction.run = refuse


def _static_assert(condition: Any, message: Any = "") -> None:
    if not tl.core._unwrap_if_constexpr(condition):
        raise StaticAssertionFailed(str(tl.core._unwrap_if_constexpr(message)) or "static assertion failed")


def _checked_multiple_of(input: Any, values: Any, **_: Any) -> Any:
    """Replacement for `tl.multiple_of`: refuse a scalar that is no multiple. In a block only some elements must be."""
    factor = tl.core._unwrap_if_constexpr(values)
    is_scalar = isinstance(input, tl.tensor) and input.type.is_int()
    if is_scalar and isinstance(factor, int) and factor > 0 and (input.handle.data % factor).any():
        raise ValueError(f"tl.multiple_of(..., {factor}) of a number that is no multiple of {factor}")
    return input


def _checked_neighbours(input: Any, values: Any, **_: Any) -> Any:
    """Replacement for `tl.max_contiguous`: refuse a row of which no group has neighbours or equals beside each other.

    Kernels also promise this of a row that starts over where a tensor ends (`at % n`), and do not use what lies beyond.
    """
    values = values[0] if isinstance(values, (list, tuple, tl.tuple)) and len(values) == 1 else values
    length = tl.core._unwrap_if_constexpr(values)
    along = input.handle.data if isinstance(input, tl.tensor) and len(input.shape) == 1 else None
    if along is not None and isinstance(length, int) and 1 < length <= along.shape[1] and not along.shape[1] % length:
        groups = along.reshape(-1, length)
        if not np.isin(np.diff(groups, axis=1), (0, 1)).any():
            raise ValueError(f"tl.max_contiguous(..., {length}) of numbers that are no neighbours")
    return input


def _checked_constancy(input: Any, values: Any, **_: Any) -> Any:
    """Replacement for `tl.max_constancy`: refuse flags of which a group differs, and numbers of which every group does.

    A compiler asks one flag of a group for all of it.
    """
    values = values[0] if isinstance(values, (list, tuple, tl.tuple)) and len(values) == 1 else values
    length = tl.core._unwrap_if_constexpr(values)
    along = input.handle.data if isinstance(input, tl.tensor) and len(input.shape) == 1 else None
    if along is not None and isinstance(length, int) and 1 < length <= along.shape[1] and not along.shape[1] % length:
        groups = along.reshape(-1, length)
        differs = (groups != groups[:, :1]).any(axis=1)
        if differs.any() if groups.dtype == np.bool_ else differs.all():
            raise ValueError(f"tl.max_constancy(..., {length}) of values that differ")
    return input


def _indices(sizes: tuple[int, int, int], only: Sequence[int] | None) -> Array:
    """Return the indices of all programs of a grid, or of those in `only`, as an array of shape (programs, 3)."""
    if only is None:
        return np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
    numbers = np.array([number for number in only if number < math.prod(sizes)], np.int64)
    return np.stack([numbers % sizes[0], numbers // sizes[0] % sizes[1], numbers // (sizes[0] * sizes[1])], axis=1)


def _described(error: Exception) -> str:
    if isinstance(error, StaticAssertionFailed):
        return f"static assertion failed: {error}"
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

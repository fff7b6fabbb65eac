"""Records the operations of a candidate's Python on tensors without values: operators, launches, memory.

    recorder = Recorder(path_of_candidate)
    with recorder:
        model(x)

Every torch operator is recorded in the dispatcher, below Python, however it was called. Every Triton launch arrives
through `launched`. Work that is not recorded has no effect, since the executor gets only the steps. Storages become
numbered buffers, and a tensor is a view of one. Host code that asks for a value of a tensor gets `ReadsValues`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._mode_utils import no_dispatch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.processes.tensors import NAMES
from triton_agent.tools.tape.tape import (
    BUFFER_BYTES_AT_MOST,
    Address,
    Allocate,
    Argument,
    Buffer,
    Choice,
    Constant,
    Launch,
    Named,
    Operate,
    Place,
    Step,
    View,
)

ADDRESS_BASE = 0x5A << 48
"""First address of fake memory, larger than any size or count in a program."""
ADDRESS_STEP = 1 << 38
"""Bytes between the addresses of two buffers."""
ALLOCATIONS = frozenset(
    {"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty", "aten::new_empty_strided"}
    | {"aten::empty_permuted"}
)
LITERALS = frozenset({"aten::lift_fresh", "aten::lift_fresh_copy", "aten::lift"})
"""Operators that turn values from Python into a tensor, as in `torch.tensor([1, 2])`."""
QUANTISING = ("aten::quantize_per_", "aten::_empty_affine_quantized", "aten::_empty_per_channel", "aten::_make_per_")
"""Prefixes of operators that make quantised tensors, whose fake results claim to be float32."""
CONSTANT_BYTES_AT_MOST = 1 << 20
STEPS_AT_MOST = 20_000


class ReadsValues(Exception):
    """Host code asked for values of a tensor."""


class OutOfRecord(Exception):
    """A tensor or an operation cannot be put on a tape; the text names it and what to use instead."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A step and its phase: the construction of the module, or one of its calls."""

    step: Step
    phase: str


class Recorder(UncompiledMode):  # type: ignore[no-untyped-call]
    """Records torch operators. A tracer has one recorder."""

    def __init__(self, candidate_path: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.buffers: list[Buffer] = []
        self.entries: list[Entry] = []
        self.phase = "import"
        self.captured: list[Entry] | None = None
        """The list that receives steps while a CUDA graph is captured."""
        self.is_dispatching = False
        """True while an operator runs: torch itself then needs the real device of tensors."""
        self.missed: OutOfRecord | None = None
        """The refusal of work in another thread, which torch's modes do not see because they belong to one thread."""
        self._thread = threading.get_ident()
        self._path = candidate_path
        self._known: dict[int, int] = {}
        """Number of each buffer, by the id of its storage."""
        self._kept: list[Any] = []
        """The storages, kept alive so that no id is reused."""
        self._native = frozenset(torch._C._dispatch_get_all_op_names())
        """Torch's own operators, listed before the candidate can register any."""

    # -- memory ----------------------------------------------------------------------------------------------------

    def add_storage(self, storage: torch.UntypedStorage, place: Place) -> int:
        if storage.nbytes() > BUFFER_BYTES_AT_MOST:
            raise torch.OutOfMemoryError(f"out of memory: a tensor of {storage.nbytes():,} bytes")
        number = len(self.buffers)
        self.buffers.append(Buffer(place=place, size_bytes=int(storage.nbytes())))
        self._known[storage._cdata] = number
        self._kept.append(storage)
        return number

    def made_input(self, sizes_bytes: Sequence[int], place: Place) -> list[torch.Tensor]:
        """Return memory for arguments of the candidate, as rows of bytes."""
        rows = []
        for size in sizes_bytes:
            with self.fake:
                row = torch.empty(-(-size // 16) * 16, dtype=torch.uint8)
            self.add_storage(row.untyped_storage(), place)
            self.buffers[-1] = dataclasses.replace(self.buffers[-1], size_bytes=size)
            rows.append(row)
        return rows

    def view_of(self, tensor: torch.Tensor) -> View:
        with torch._C.DisableTorchFunction():
            if tensor.layout is not torch.strided or tensor.is_quantized:
                raise OutOfRecord(f"a {tensor.layout} tensor; use plain strided tensors")
            if tensor.is_conj() or tensor.is_neg():
                raise OutOfRecord("a lazily conjugated or negated tensor; call .resolve_conj() or .resolve_neg() first")
            storage = torch.Tensor.untyped_storage(tensor)
            number = self._known.get(storage._cdata)
            if number is None:
                if isinstance(tensor, FakeTensor):
                    raise OutOfRecord("a tensor that was made while torch's modes were off, so it is not recorded")
                number = self._written_down(tensor)
            if tensor.dtype not in NAMES:
                raise OutOfRecord(f"a tensor of dtype {tensor.dtype}")
            return View(
                buffer=number,
                dtype=NAMES[tensor.dtype],
                shape=tuple(map(int, tensor.shape)),
                strides=tuple(map(int, torch.Tensor.stride(tensor))),
                offset=int(torch.Tensor.storage_offset(tensor)),
            )

    def address_of(self, tensor: torch.Tensor) -> int:
        """Return a fake address of the tensor's first byte, in place of `data_ptr`."""
        view = self.view_of(tensor)
        if not view.elements:
            return 0
        return ADDRESS_BASE + view.buffer * ADDRESS_STEP + view.offset * tensor.element_size()

    def argument(self, value: Any) -> Argument:
        """Return an argument of an operator or a launch in the form used on a tape."""
        if isinstance(value, torch.Tensor):
            return self.view_of(value)
        if isinstance(value, (list, tuple)):
            return tuple(self.argument(item) for item in value)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._address(int(value)) or int(value)
        if value is None or type(value) in (bool, float, str):
            return value  # type: ignore[no-any-return]
        for kind, names in (("dtype", torch.dtype), ("layout", torch.layout), ("memory_format", torch.memory_format)):
            if isinstance(value, names):
                return Named(kind=kind, name=str(value).removeprefix("torch."))
        if isinstance(value, torch._C.Generator):
            return None  # the executor seeds torch itself
        if isinstance(value, torch.device):
            return Named(kind="device", name="device")
        if isinstance(value, float):
            return float(value)
        raise OutOfRecord(f"an argument that is a {type(value).__name__}")

    def _address(self, value: int) -> Address | None:
        if value < ADDRESS_BASE:
            return None
        buffer, offset = divmod(value - ADDRESS_BASE, ADDRESS_STEP)
        return Address(buffer=buffer, offset=offset) if buffer < len(self.buffers) else None

    def _written_down(self, tensor: torch.Tensor) -> int:
        """Record a real tensor, whose values come from the candidate's Python; return its buffer."""
        storage = torch.Tensor.untyped_storage(tensor)
        if storage.nbytes() > CONSTANT_BYTES_AT_MOST:
            raise OutOfRecord(
                f"{storage.nbytes():,} bytes of values from Python; compute them with operators of torch instead"
            )
        number = self.add_storage(storage, Place.FRESH)
        with no_dispatch():
            data = bytes(torch.tensor([], dtype=torch.uint8).set_(storage).tolist())
        relocations = []
        for at in range(0, len(data) - 7, 8) if tensor.dtype in (torch.int64, torch.uint64) else ():
            address = self._address(int.from_bytes(data[at : at + 8], sys.byteorder))
            if address is not None:
                relocations.append((at, address))
        self._add(Constant(buffer=number, data=data, relocations=tuple(relocations)))
        return number

    def is_own_thread(self) -> bool:
        """Return True in the recorded thread; in any other, set `missed`, which refuses the candidate."""
        if threading.get_ident() == self._thread:
            return True
        self.missed = OutOfRecord("tensors are used in another thread, which is not recorded; use one thread")
        return False

    # -- steps -----------------------------------------------------------------------------------------------------

    def _add(self, step: Step) -> None:
        target = self.entries if self.captured is None or isinstance(step, (Allocate, Constant)) else self.captured
        target.append(Entry(step=step, phase=self.phase))
        if len(self.entries) > STEPS_AT_MOST:
            raise OutOfRecord(f"more than {STEPS_AT_MOST:,} steps; a call has to do with fewer operators and launches")

    def replay(self, entries: Sequence[Entry]) -> None:
        """Record the steps of a captured graph again."""
        for entry in entries:
            self._add(entry.step)

    def launched(self, choices: Sequence[Choice]) -> None:
        self._add(Launch(choices=tuple(choices), line=self.line()))

    def line(self) -> int:
        """Return the line of the candidate's file that is running; 0 if none is."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self._path:
                return frame.f_lineno
            frame = frame.f_back
        return 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outer, self.is_dispatching = self.is_dispatching, True
        try:
            return self._dispatched(func, args, kwargs or {})
        finally:
            self.is_dispatching = outer

    def _dispatched(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func.namespace == "prim":  # queries for the device or layout of a tensor
            return func(*args, **kwargs)
        if func.name() not in self._native:
            # The candidate registered this operator; record the operators inside it.
            for kind in ("CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "CPU"):
                if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), kind):
                    self.is_dispatching = False
                    with self:
                        return func._op_dk(getattr(torch._C.DispatchKey, kind), *args, **kwargs)
            raise OutOfRecord(f"the operator {func.name()}, which has no implementation for CUDA")
        name = func._schema.name
        if name in LITERALS and not isinstance(args[0], FakeTensor):
            # A fake tensor replaces the one from Python; with a single element it keeps its value.
            with torch._C.DisableTorchFunction():
                with no_dispatch():
                    real = args[0].detach().clone(memory_format=torch.contiguous_format)
                number = self._written_down(real)
                fake: torch.Tensor = torch.empty(real.shape, dtype=real.dtype)
                self._known[fake.untyped_storage()._cdata] = number
                self._kept.append(fake.untyped_storage())
                if real.numel() == 1 and isinstance(fake, FakeTensor):
                    fake.constant = real
            return fake
        if name.startswith("aten::set_") or (name == "aten::resize_" and _tensors(args)[0].untyped_storage().nbytes()):
            raise OutOfRecord(f"{name.replace('::', '.')} gives a tensor other memory; make a new tensor instead")
        if name.startswith(QUANTISING):
            raise OutOfRecord(
                f"{name.replace('::', '.')} makes a quantised tensor; use plain integer tensors and scales"
            )
        for tensor in _tensors((args, tuple(kwargs.values()))):
            self.view_of(tensor)  # records the values of tensors from Python before the step
        held = args[0].untyped_storage().nbytes() if name == "aten::as_strided" else 0
        try:
            result = func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise ReadsValues(f"{name.replace('::', '.')} needs the values of a tensor") from error
        if name == "aten::as_strided":
            _require_within(held, result)
        return self._noted(func, name, args, kwargs, _in_place(func, args, kwargs, result))

    def _noted(self, func: Any, name: str, args: Any, kwargs: Any, result: Any) -> Any:
        """Record the operator as a step, unless it only makes a view."""
        tensors = _tensors(result)
        for tensor in tensors:
            if tensor.layout is not torch.strided:
                self.view_of(tensor)  # raises with advice on what to use instead
        fresh = [tensor for tensor in tensors if torch.Tensor.untyped_storage(tensor)._cdata not in self._known]
        for tensor in fresh:
            if torch.Tensor.untyped_storage(tensor)._cdata not in self._known:
                self.add_storage(torch.Tensor.untyped_storage(tensor), Place.FRESH)
        if name in ALLOCATIONS:
            for tensor in fresh:
                self._add(Allocate(buffer=self.view_of(tensor).buffer))
        elif fresh or func._schema.is_mutable:
            self._add(
                Operate(
                    operator=str(func),
                    args=tuple(self.argument(value) for value in args),
                    kwargs=tuple((key, self.argument(value)) for key, value in kwargs.items()),
                    results=tuple(self.view_of(it) if isinstance(it, torch.Tensor) else None for it in _items(result)),
                )
            )
        return result

    @contextlib.contextmanager
    def during(self, phase: str) -> Iterator[None]:
        self.phase, self._thread = phase, threading.get_ident()
        with self.fake, self:
            yield


def _in_place(func: Any, args: Any, kwargs: Any, result: Any) -> Any:
    """Return the argument that an operator writes in place: for fake tensors with a known value torch returns another
    tensor."""
    returned = func._schema.returns
    if len(returned) == 1 and returned[0].alias_info is not None and returned[0].alias_info.is_write:
        for argument, value in zip(func._schema.arguments, args):
            if argument.alias_info is not None and argument.alias_info.is_write:
                return value
    return result


def _items(result: Any) -> tuple[Any, ...]:
    """Return the results of an operator as a flat tuple."""
    if isinstance(result, (list, tuple)):
        return tuple(item for part in result for item in _items(part))
    return (result,)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [item for item in _items(value) if isinstance(item, torch.Tensor)]


def _require_within(held_bytes: int, view: torch.Tensor) -> None:
    """Raise what torch raises for a view beyond its storage. The storage of a fake tensor grows instead."""
    last = sum((size - 1) * step for size, step in zip(view.shape, view.stride()))
    needed = (view.storage_offset() + last + 1) * view.element_size() if view.numel() else 0
    if needed > held_bytes:
        raise RuntimeError(
            f"as_strided: sizes {list(view.shape)} and strides {list(view.stride())} need {needed} bytes, and the "
            f"storage has {held_bytes}"
        )

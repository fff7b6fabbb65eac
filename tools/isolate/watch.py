"""What a candidate does through torch while it runs: every operator dispatched, with the elements it touched.

Sits below Python, at the dispatcher, so it does not matter under which name an operator was called. It also fills
fresh memory with a poison, so that what was never written shows. It does not see arithmetic done without torch, nor
what runs while a candidate has switched modes off; for these there are the guard and the witness (`witness.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode

POISON: dict[torch.dtype, tuple[torch.dtype, int]] = {
    torch.float64: (torch.int64, 0x7FF8DEADDEADDEAD),
    torch.float32: (torch.int32, 0x7FC0DEAD),
    torch.float16: (torch.int16, 0x7E5A),
    torch.bfloat16: (torch.int16, 0x7FDA),
    torch.int64: (torch.int64, 0x0DEADBEEF0DEAD01),
    torch.int32: (torch.int32, 0x0DEADBEE),
    torch.int16: (torch.int16, 0x0DEA),
}
"""Fresh memory by dtype: NaNs with a payload no arithmetic produces, integers no small test expects. Seen as the
dtype's integer twin."""

POISON_BYTES = (0x65, 0x9A)
"""For types of one byte: no value is out of place there, but an answer cannot be both."""

TO_WHOLE = "rounding.to_whole_numbers"
"""Counts what was copied from floats to integers or flags, which rounds it; that it was copied counts besides."""
COPIES = {"aten._to_copy": 0, "aten.copy_": 1}
"""By name, which argument is copied from."""

UNSEEN = "unseen."
"""Prefix of an operator of somebody's own whose inside could not be watched."""

ALLOCATIONS = frozenset(
    {"aten.empty", "aten.empty_strided", "aten.empty_like", "aten.new_empty", "aten.new_empty_strided"}
)


class OperatorWatch(UncompiledMode):  # type: ignore[no-untyped-call]
    """Counts operators and the elements of their largest tensor; poisons fresh allocations."""

    def __init__(self, *, poisons: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._poisons = poisons
        self.operators: dict[str, list[int]] = {}
        self.made: set[int] = set()
        """Addresses of memory that operators took since the last take, and gave to nobody before."""
        self.salt = 0
        self._native = native_operators()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.name() not in self._native:
            return self._inside(func, args, kwargs or {})
        name = f"{func.namespace}.{func._schema.name.split('::')[-1]}"
        row = self.operators.setdefault(name, [0, 0])
        row[0] += 1  # also where it raises: the witness has seen it begin
        result = func(*args, **(kwargs or {}))
        if name in ALLOCATIONS and self._poisons:
            poison(result, self.salt)
        self._note(result, (args, tuple((kwargs or {}).values())))
        row[1] += max(map(_elements, (*args, result)), default=0)
        if name in COPIES and _rounds(args[COPIES[name]], result):
            self.add({TO_WHOLE: [1, result.numel()]})
        return result

    def _inside(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operator somebody registered: what it does inside counts, so it runs with the watch on."""
        on_gpu = any(tensor.device.type == "cuda" for tensor in _tensors((args, tuple(kwargs.values()))))
        for kind in ("CUDA" if on_gpu else "CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd"):
            if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), kind):
                with self:
                    return func._op_dk(getattr(torch._C.DispatchKey, kind), *args, **kwargs)
        self.operators.setdefault(f"{UNSEEN}{func.name()}", [0, 0])[0] += 1
        result = func(*args, **kwargs)
        self._note(result, (args, tuple(kwargs.values())))
        return result

    def _note(self, result: Any, arguments: Any) -> None:
        """Memory that came with a result; a view's is an argument's."""
        new = {place for tensor in _tensors(result) if (place := memory_of(tensor))}
        if new:
            self.made |= new - {memory_of(tensor) for tensor in _tensors(arguments)}

    def add(self, seen: dict[str, list[int]]) -> None:
        """What ran elsewhere and counts here."""
        for name, (calls, elements) in seen.items():
            row = self.operators.setdefault(name, [0, 0])
            row[0] += calls
            row[1] += elements

    def take(self) -> dict[str, list[int]]:
        """What was seen since the last take."""
        seen, self.operators = self.operators, {}
        self.made = set()
        return seen


def poison(tensor: torch.Tensor, salt: int) -> None:
    """Fill with values that cannot pass for an answer; bytes, which could, differ with the salt."""
    if tensor.numel() == 0:
        return
    pattern = POISON.get(tensor.dtype)
    if pattern is not None:
        tensor.view(pattern[0]).fill_(pattern[1])
    elif tensor.is_complex():
        tensor.fill_(complex("nan"))
    else:
        tensor.view(torch.uint8).fill_(POISON_BYTES[salt % 2] & (1 if tensor.dtype is torch.bool else 0xFF))


def memory_of(tensor: torch.Tensor) -> int:
    """Where its storage begins; 0 for tensors that have none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def native_operators() -> frozenset[str]:
    """Operators known by now: made before a candidate is loaded, those that came with torch."""
    return frozenset(torch._C._dispatch_get_all_op_names())


def _rounds(source: torch.Tensor, result: torch.Tensor) -> bool:
    return source.is_floating_point() and not (result.is_floating_point() or result.is_complex())


def _elements(value: Any) -> int:
    """Of one argument; a list of tensors counts as one tensor in pieces."""
    return sum(tensor.numel() for tensor in _tensors(value))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)

"""What a candidate does through torch while it runs: every operator dispatched, with the elements it touched.

Sits below Python, at the dispatcher, so it does not matter under which name an operator was called. It also fills
fresh memory with a poison, so that what was never written shows. It does not see what happens inside a kernel launch
(the interpreter uses torch itself there), nor arithmetic done without torch; those have guards of their own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

POISON: dict[torch.dtype, tuple[torch.dtype, int]] = {
    torch.float64: (torch.int64, 0x7FF8DEADDEADDEAD),
    torch.float32: (torch.int32, 0x7FC0DEAD),
    torch.float16: (torch.int16, 0x7E5A),
    torch.bfloat16: (torch.int16, 0x7FDA),
    torch.int64: (torch.int64, 0x0DEADBEEF0DEAD01),
    torch.int32: (torch.int32, 0x0DEADBEE),
    torch.int16: (torch.int16, 0x0DEA),
}
"""Fresh memory by dtype: NaNs with a payload no arithmetic produces, integers no small test expects. Seen as the dtype's
integer twin. Byte-sized types have too few values for a pattern that proves anything; they are filled all the same."""

POISON_BYTE = 0x65

ALLOCATIONS = frozenset(
    {"aten.empty", "aten.empty_strided", "aten.empty_like", "aten.new_empty", "aten.new_empty_strided"}
)


class OperatorWatch(TorchDispatchMode):
    """Counts operators and the elements of their largest tensor; poisons fresh allocations."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: dict[str, list[int]] = {}
        self._paused = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else torch imports its whole compiler, 2.6 s, at the first operator. Nothing is compiled in here."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self._paused:
            name = f"{func.namespace}.{func._schema.name.split('::')[-1]}"
            if name in ALLOCATIONS:
                poison(result)
            row = self.operators.setdefault(name, [0, 0])
            row[0] += 1
            row[1] += max((tensor.numel() for tensor in _tensors((args, result))), default=0)
        return result

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, operators are the harness's or the interpreter's, not the candidate's."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def take(self) -> dict[str, list[int]]:
        """What was seen since the last take."""
        seen, self.operators = self.operators, {}
        return seen


def poison(tensor: torch.Tensor) -> None:
    """Fill with values that cannot pass for an answer."""
    if tensor.numel() == 0:
        return
    pattern = POISON.get(tensor.dtype)
    if pattern is not None:
        tensor.view(pattern[0]).fill_(pattern[1])
    elif tensor.is_complex():
        tensor.fill_(complex("nan"))
    elif tensor.dtype is torch.bool:
        tensor.fill_(True)
    else:
        tensor.view(torch.uint8).fill_(POISON_BYTE)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)

"""Checks indices on a GPU before an operator uses them.

On a CPU torch raises an error for an index out of range. On a GPU the kernel fails an assertion, and the process loses
the card: a size or a draw of inputs at which the reference does not run would end the checker. Trial runs, and runs
with other rounding than the user's, therefore check the indices of each operator first.

Not covered: operators that are not listed here, and indices computed inside the reference's own kernels.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.processes.tensors import nested_tensors


class WildIndex(IndexError):
    """An index out of range. On a CPU torch raises an error itself."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The range of valid values of one index tensor."""

    index: Any
    low: int = 0
    high: int
    spared: int | None = None
    """A value that the operator ignores, such as the ignored label of a loss."""
    ascending: bool = False
    """True if no index may be smaller than the one before."""

    def check(self) -> None:
        if not isinstance(self.index, torch.Tensor) or _is_mask(self.index) or self.index.is_floating_point():
            return
        pointing = self.index if self.spared is None else self.index[self.index != self.spared]
        if pointing.numel() == 0:
            return
        lowest, highest = (int(value) for value in torch.aminmax(pointing))
        if lowest < self.low or highest > self.high:
            raise WildIndex(f"index from {lowest} to {highest} where {self.low} to {self.high} are allowed")
        if self.ascending and bool((pointing[1:] < pointing[:-1]).any()):
            raise WildIndex("an index that is smaller than the one before, where they have to ascend")


class RefusingWildIndices(UncompiledMode):  # type: ignore[no-untyped-call]
    """Raises `WildIndex` before an operator inside uses an index out of range."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        bounds = _BOUNDS.get(func._schema.name.removeprefix("aten::").removesuffix("_"))
        for bound in bounds(args) if bounds is not None else ():
            bound.check()
        return func(*args, **(kwargs or {}))


def refusing_on_gpu(inputs: Any) -> contextlib.AbstractContextManager[Any]:
    """Check the indices of a call with these inputs, if any of them is on a GPU."""
    return refusing(on_gpu=any(tensor.is_cuda for tensor in nested_tensors(inputs)))


def refusing(*, on_gpu: bool) -> contextlib.AbstractContextManager[Any]:
    """Check indices only for runs on a GPU: on a CPU torch does it."""
    return RefusingWildIndices() if on_gpu else contextlib.nullcontext()  # type: ignore[no-untyped-call]


def _is_mask(index: torch.Tensor) -> bool:
    return index.dtype in (torch.bool, torch.uint8)


def _table(arguments: Sequence[Any]) -> list[Bound]:
    table, index, *_ = arguments
    return [Bound(index=index, high=table.shape[0] - 1)]


def _bags(arguments: Sequence[Any]) -> list[Bound]:
    table, index, offsets, *_ = arguments
    return [*_table((table, index)), Bound(index=offsets, high=index.numel(), ascending=True)]


def _along(arguments: Sequence[Any]) -> list[Bound]:
    into, dimension, index, *_ = arguments
    return [Bound(index=index, high=(into.shape[dimension] if into.dim() else 1) - 1)]


def _several(arguments: Sequence[Any]) -> list[Bound]:
    """Return bounds for one index or None per dimension. Negative indices count from the end; a mask covers all of
    its dimensions."""
    into, indices, *_ = arguments
    found: list[Bound] = []
    dimension = 0
    for index in indices:
        if index is not None and not _is_mask(index):
            found.append(Bound(index=index, low=-into.shape[dimension], high=into.shape[dimension] - 1))
        dimension += index.dim() if index is not None and _is_mask(index) else 1
    return found


def _everywhere(arguments: Sequence[Any]) -> list[Bound]:
    into, index, *_ = arguments
    return [Bound(index=index, low=-into.numel(), high=into.numel() - 1)]


def _classes(arguments: Sequence[Any]) -> list[Bound]:
    scores, target, _, _, spared, *_ = arguments
    return [Bound(index=target, high=scores.shape[1 if scores.dim() > 1 else 0] - 1, spared=spared)]


_BOUNDS: dict[str, Callable[[Sequence[Any]], list[Bound]]] = {
    **dict.fromkeys(("embedding", "embedding_renorm"), _table),
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _bags),
    **dict.fromkeys(("index_select", "gather", "scatter", "scatter_add", "scatter_reduce"), _along),
    **dict.fromkeys(("index_add", "index_copy", "index_reduce"), _along),
    # negative indices count from the end
    "index_fill": lambda arguments: [dataclasses.replace(it, low=-it.high - 1) for it in _along(arguments)],
    **dict.fromkeys(("index", "index_put", "_index_put_impl", "_unsafe_index"), _several),
    **dict.fromkeys(("take", "put"), _everywhere),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), _classes),
}

"""Which value a tensor is: names by memory and layout, kept right through views and writes in place.

A tensor is known by the memory it shows and by how it lies in it, never by its Python object: torch makes new objects
for the same tensor as it likes. Two tensors of the same layout over the same memory are the same value. A write in
place gives the written layout a new name and forgets every other; who asks for one of those learns that it has to be
read anew from the memory's root.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.graph_values import TensorMeta


class Layout(NamedTuple):
    """How a tensor lies in its memory, and how its bits are to be read."""

    meta: TensorMeta
    conjugated: bool
    negated: bool


@dataclass(slots=True, kw_only=True)
class Memory:
    """One storage and the names of the values that show its present contents."""

    owner: object
    """Keeps the address from being used again: a weak reference to the storage, or the tensor where it has none."""
    root: str
    """The value from which every other layout can be read."""
    root_layout: Layout
    names: dict[Layout, str]
    sources: list[tuple[str, Layout]] = field(default_factory=list)
    """Values that were there before the call; empty for memory that the call allocated."""
    written: bool = False

    def overwrite(self, layout: Layout, name: str) -> bool:
        """`name` is now what `layout` shows. False if parts of the memory lie outside `layout`: see `patch_root`."""
        self.written = True
        if layout != self.root_layout and not _covers(layout.meta, self.root_layout.meta):
            return False
        self.root, self.root_layout, self.names = name, layout, {layout: name}
        return True

    def patch_root(self, root: str, layout: Layout, name: str) -> None:
        """A write to part of the memory: `root` is the whole with that part replaced."""
        self.root, self.names = root, {self.root_layout: root, layout: name}


class MemoryBook:
    """All memory met during a call."""

    def __init__(self) -> None:
        self._memories: dict[object, Memory] = {}
        self._originals: list[tuple[torch.UntypedStorage, torch.UntypedStorage]] = []

    def __iter__(self) -> Iterator[Memory]:
        return iter(self._memories.values())

    def find(self, tensor: torch.Tensor) -> Memory | None:
        return self._memories.get(_address(tensor))

    def open(self, tensor: torch.Tensor, name: str) -> Memory:
        """Memory not met before, first seen as `name`."""
        layout = layout_of(tensor)
        memory = Memory(owner=_owner(tensor), root=name, root_layout=layout, names={layout: name})
        self._memories[_address(tensor)] = memory
        return memory

    def name(self, tensor: torch.Tensor, name: str) -> None:
        """What `tensor` shows, in memory new or known, is called `name`."""
        memory = self.find(tensor) or self.open(tensor, name)
        memory.names[layout_of(tensor)] = name

    def adopt(self, tensor: torch.Tensor, name: str) -> str | None:
        """A value from before the call. Names the earlier source whose memory it shares, if it shares any."""
        memory, layout = self.find(tensor), layout_of(tensor)
        shares = memory.sources[0][0] if memory is not None and memory.sources else None
        memory = memory or self.open(tensor, name)
        memory.sources.append((name, layout))
        memory.names.setdefault(layout, name)
        return shares

    def keep_original(self, tensor: torch.Tensor) -> None:
        """Copy contents that the caller will want back, before they are first written to."""
        memory = self.find(tensor)
        if memory is not None and memory.sources and not memory.written and _has_storage(tensor):
            storage = tensor.untyped_storage()
            self._originals.append((storage, storage.clone()))  # type: ignore[no-untyped-call]

    def restore(self) -> None:
        """Put back what the call overwrote of the memory that was there before it."""
        while self._originals:
            storage, original = self._originals.pop()
            storage.copy_(original, non_blocking=False)


def layout_of(tensor: torch.Tensor) -> Layout:
    return Layout(meta_of(tensor), tensor.is_conj(), tensor.is_neg())


def meta_of(tensor: torch.Tensor) -> TensorMeta:
    if tensor.is_nested:
        raise ProblemError("a nested tensor has no shape to go by", remedy="Pass padded or packed tensors instead.")
    strided = tensor.layout is torch.strided
    return TensorMeta(
        shape=tuple(int(size) for size in tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        strides=tuple(int(stride) for stride in tensor.stride()) if strided else (),
        offset=int(tensor.storage_offset()) if strided else 0,
    )


def _covers(part: TensorMeta, whole: TensorMeta) -> bool:
    """Both show every element of the same gapless stretch of memory."""
    same = part.dtype == whole.dtype and part.numel == whole.numel and part.offset == whole.offset
    return same and _extent(part) == _extent(whole) == part.numel


def _extent(meta: TensorMeta) -> int:
    return 1 + sum((size - 1) * stride for size, stride in zip(meta.shape, meta.strides))


def _has_storage(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.device.type != "meta"


def _address(tensor: torch.Tensor) -> object:
    return tensor.untyped_storage()._cdata if _has_storage(tensor) else ("tensor", id(tensor))


def _owner(tensor: torch.Tensor) -> Any:
    return StorageWeakRef(tensor.untyped_storage()) if _has_storage(tensor) else tensor  # type: ignore[no-untyped-call]

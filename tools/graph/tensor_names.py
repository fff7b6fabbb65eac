"""Names of the values that tensors hold, kept correct through views and in-place writes.

A tensor is identified by its memory and its layout, not by its Python object, since torch makes several objects for one
tensor. Two tensors with the same layout of the same memory are the same value. An in-place write gives the written
layout a new name and drops all other names; those layouts are read again from the root of the memory when needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.graph.extents import extent
from triton_agent.tools.graph.values import TensorMeta


class Layout(NamedTuple):
    """The layout of a tensor, and how its bits are read."""

    meta: TensorMeta
    conjugated: bool
    negated: bool


@dataclass(slots=True, kw_only=True)
class Memory:
    """One storage, and the names of the values in its current contents."""

    owner: object
    """Keeps the address from being reused: a weak reference to the storage, or the tensor itself if it has none."""
    root: str
    """The value from which every other layout can be read."""
    root_layout: Layout
    names: dict[Layout, str]
    sources: list[tuple[str, Layout]] = field(default_factory=list)
    """Values that existed before the call; empty for memory that the call allocated."""
    written: bool = False

    def overwrite(self, layout: Layout, name: str) -> bool:
        """Give `layout` the new `name`. Return False if it does not cover the whole memory: then call `patch_root`."""
        self.written = True
        part, whole = layout.meta, self.root_layout.meta
        same = part.dtype == whole.dtype and part.numel == whole.numel and part.offset == whole.offset
        gapless = extent(part.shape, part.strides) == extent(whole.shape, whole.strides) == part.numel
        if layout != self.root_layout and not (same and gapless):
            return False
        self.root, self.root_layout, self.names = name, layout, {layout: name}
        return True

    def patch_root(self, root: str, layout: Layout, name: str) -> None:
        """Record a write to part of the memory: `root` is the whole with that part replaced."""
        self.root, self.names = root, {self.root_layout: root, layout: name}


class MemoryBook:
    """All memory that a call uses."""

    def __init__(self) -> None:
        self._memories: dict[object, Memory] = {}
        self._originals: list[tuple[torch.UntypedStorage, torch.UntypedStorage]] = []

    def __iter__(self) -> Iterator[Memory]:
        return iter(self._memories.values())

    def find(self, tensor: torch.Tensor) -> Memory | None:
        return self._memories.get(_address(tensor))

    def open(self, tensor: torch.Tensor, name: str) -> Memory:
        """Add the memory of `tensor`, with `tensor` as its root."""
        layout = layout_of(tensor)
        owner: Any = StorageWeakRef(tensor.untyped_storage()) if _has_storage(tensor) else tensor  # type: ignore[no-untyped-call]
        memory = Memory(owner=owner, root=name, root_layout=layout, names={layout: name})
        self._memories[_address(tensor)] = memory
        return memory

    def name(self, tensor: torch.Tensor, name: str) -> None:
        """Name the value that `tensor` holds, in new or known memory."""
        memory = self.find(tensor) or self.open(tensor, name)
        memory.names[layout_of(tensor)] = name

    def adopt(self, tensor: torch.Tensor, name: str) -> str | None:
        """Add a value that existed before the call. Return the earlier source whose memory it shares, if any."""
        memory, layout = self.find(tensor), layout_of(tensor)
        shares = memory.sources[0][0] if memory is not None and memory.sources else None
        memory = memory or self.open(tensor, name)
        memory.sources.append((name, layout))
        memory.names.setdefault(layout, name)
        return shares

    def keep_original(self, tensor: torch.Tensor) -> None:
        """Copy the contents of a source before the first write to it."""
        memory = self.find(tensor)
        if memory is not None and memory.sources and not memory.written and _has_storage(tensor):
            storage = tensor.untyped_storage()
            self._originals.append((storage, storage.clone()))  # type: ignore[no-untyped-call]

    def restore(self) -> None:
        while self._originals:
            storage, original = self._originals.pop()
            storage.copy_(original, non_blocking=False)


def layout_of(tensor: torch.Tensor) -> Layout:
    return Layout(meta_of(tensor), tensor.is_conj(), tensor.is_neg())


def meta_of(tensor: torch.Tensor) -> TensorMeta:
    if tensor.is_nested:
        raise ProblemError("a nested tensor has no single shape", remedy="pass padded or packed tensors instead")
    strided = tensor.layout is torch.strided
    return TensorMeta(
        shape=tuple(int(size) for size in tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        strides=tuple(int(stride) for stride in tensor.stride()) if strided else (),
        offset=int(tensor.storage_offset()) if strided else 0,
    )


def _has_storage(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.device.type != "meta"


def _address(tensor: torch.Tensor) -> object:
    return tensor.untyped_storage()._cdata if _has_storage(tensor) else ("tensor", id(tensor))

"""Shapes of values in the interpreter: a first axis, invisible to kernels, has one entry for each running program.

A value that is the same in all programs has a first axis of length one, and numpy broadcasts it. A scalar has no other
axis. Pointers keep a reference to their tensor through all operations here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as stock

from triton_agent.tools.emulate.arithmetic import ArithmeticBuilder, Handle, nothing
from triton_agent.tools.emulate.floats import Array
from triton_agent.tools.emulate.lockstep import Apart, Lockstep

ORIGIN = "argument"
"""Attribute of a handle with the index of the extent that a pointer came from."""


class BlockBuilder(ArithmeticBuilder):
    together: Lockstep | None = None
    """The programs that run together; None if they run one by one."""

    def create_get_program_id(self, axis: int) -> Handle:
        index = [self.grid_idx[axis]] if self.together is None else self.together.indices[:, axis]
        return stock.TensorHandle(np.array(index, np.int32), tl.int32)

    def create_make_range(self, ret_ty: Any, start: int, stop: int) -> Handle:
        return stock.TensorHandle(np.arange(start, stop, dtype=np.int32)[None], tl.int32)

    def create_splat(self, ret_ty: Any, arg: Handle) -> Handle:
        shape = tuple(ret_ty.shape)
        values = arg.data.reshape(-1, *(1 for _ in shape))
        return moved(arg, np.broadcast_to(values, (self._programs(values, shape), *shape)))

    def create_unsplat(self, arg: Handle) -> Handle:
        return moved(arg, arg.data.reshape(len(arg.data), -1)[:, 0])

    def create_broadcast(self, arg: Handle, shape: Sequence[int]) -> Handle:
        return moved(arg, np.broadcast_to(arg.data, (self._programs(arg.data, shape), *shape)))

    def create_expand_dims(self, arg: Handle, axis: int) -> Handle:
        return moved(arg, np.expand_dims(arg.data, axis + 1))

    def create_reshape(self, arg: Handle, shape: Sequence[int], allow_reorder: bool) -> Handle:
        return moved(arg, arg.data.reshape(len(arg.data), *shape))

    def create_trans(self, arg: Handle, perm: Sequence[int]) -> Handle:
        return moved(arg, arg.data.transpose(0, *(axis + 1 for axis in perm)))

    def create_cat(self, lhs: Handle, rhs: Handle) -> Handle:
        """Join two blocks element by element: a GPU joins the registers of each thread, so the order is not kept."""
        both = np.stack(_same_shape(lhs.data, rhs.data), axis=2)
        return moved(lhs, both.reshape(len(both), -1, *both.shape[3:]))

    def create_join(self, lhs: Handle, rhs: Handle) -> Handle:
        return moved(lhs, np.stack(_same_shape(lhs.data, rhs.data), axis=-1))

    def create_split(self, val: Handle) -> tuple[Handle, Handle]:
        return moved(val, val.data[..., 0]), moved(val, val.data[..., 1])

    def create_gather(self, src: Handle, indices: Handle, axis: int) -> Handle:
        programs = max(len(src.data), len(indices.data))
        data, places = (np.broadcast_to(part.data, (programs, *part.data.shape[1:])) for part in (src, indices))
        inside = (places >= 0) & (places < data.shape[axis + 1])
        values = np.take_along_axis(data, np.where(inside, places, 0), axis=axis + 1)
        return stock.TensorHandle(np.where(inside, values, nothing(values.dtype)), src.dtype.scalar)

    def create_histogram(self, data: Handle, bins: int, mask: Handle | None) -> Handle:
        """Count; a GPU looks at the low bits of a number only, so those beyond the bins are counted, too."""
        values, active = _same_shape(data.data, np.ones(1, bool) if mask is None else mask.data)
        rows = [row[lanes].astype(np.int64) % bins for row, lanes in zip(values, active)]
        return stock.TensorHandle(
            np.stack([np.bincount(row, minlength=bins) for row in rows]).astype(np.int32), tl.int32
        )

    def create_print(self, *args: Any) -> None:
        if self.together is not None:
            raise Apart
        super().create_print(*args)

    # block pointers and descriptors

    def create_advance(self, ptr: Any, offsets: Sequence[Handle]) -> Any:
        steps = zip(ptr.offsets, offsets, strict=True)
        new = [stock.TensorHandle((old.data + step.data).astype(old.data.dtype), old.dtype) for old, step in steps]
        return stock.BlockPointerHandle(ptr.base, ptr.shape, ptr.strides, new, ptr.block_shape, ptr.order)

    def located(self, source: Any, offsets: Sequence[Handle], checked: Sequence[int]) -> tuple[Handle, Array]:
        """Return pointers to a block of a block pointer or descriptor, and the lanes in bounds along `checked`."""
        rank = len(source.block_shape)
        addresses, inside = source.base.data.reshape(-1, *[1] * rank), np.ones([1] * (rank + 1), bool)
        item_bytes = max(1, source.base.get_element_ty().primitive_bitwidth // 8)
        for along, size in enumerate(source.block_shape):
            as_block = [-1, *(1 for _ in range(rank))]
            places = offsets[along].data.reshape(as_block) + np.arange(size).reshape(
                [1, *(size if d == along else 1 for d in range(rank))]
            )
            addresses = addresses + (item_bytes * places * source.strides[along].data.reshape(as_block)).astype(
                np.uint64
            )
            if along in checked:
                inside = inside & (places >= 0) & (places < source.shape[along].data.reshape(as_block))
        addresses = np.broadcast_to(addresses, (self._programs(addresses, source.block_shape), *source.block_shape))
        return moved(source.base, addresses), inside

    def _programs(self, values: Array, shape: Sequence[int]) -> int:
        """Return the length of a block's first axis; run fewer programs together if the block would be too large."""
        if self.together is not None and len(values) > 1:
            self.together.make_room(shape)
        return len(values)


def moved(source: Handle, data: Array) -> Handle:
    """Return a handle of the source's element type with this data and the origin of the source."""
    result = stock.TensorHandle(data, source.dtype.scalar)
    if ORIGIN in source.attr:
        result.attr[ORIGIN] = source.attr[ORIGIN]
    return result


def _same_shape(*parts: Array) -> tuple[Array, ...]:
    return np.broadcast_arrays(*parts)

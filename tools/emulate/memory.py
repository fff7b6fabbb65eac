"""Memory operations with bounds checks, and pointers that keep track of their tensor.

Every active lane is checked against the extents of the launch (`bounds.py`) before memory is accessed. Without the
check, numpy would silently read other memory, or crash the process. Block pointers and tensor descriptors use the same
loads and stores. While programs run together, each access is that of all programs (`lockstep.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as stock

from triton_agent.tools.emulate.arithmetic import Handle, handle_of, numbers
from triton_agent.tools.emulate.blocks import ORIGIN, BlockBuilder
from triton_agent.tools.emulate.bounds import Memory, read, write
from triton_agent.tools.emulate.floats import Array, round_to_tf32
from triton_agent.tools.emulate.lockstep import Apart
from triton_agent.tools.emulate.program_order import Interleaving
from triton_agent.tools.kernels.kernel import ADDRESS_AS_NUMBER


class GuardedBuilder(BlockBuilder):
    memory: Memory
    """Memory of the running launch; set by the interpreter."""
    lane_order: np.random.Generator | None = None
    """Draws the order of the lanes of an atomic operation, which a GPU does not define; None for their own order."""
    interleaving: Interleaving | None = None
    """The programs that take turns at memory operations; None if programs run one after another, or together."""

    # access

    def create_load(self, ptr: Handle, *modifiers: Any) -> Handle:
        return self.create_masked_load(ptr, None, None, *modifiers)

    def create_store(self, ptr: Handle, value: Handle, *modifiers: Any) -> Any:
        return self.create_masked_store(ptr, value, None, *modifiers)

    def create_masked_load(
        self,
        ptrs: Handle,
        mask: Any,
        other: Handle | None,
        cache_modifier: Any = None,
        eviction_policy: Any = None,
        is_volatile: bool = False,
    ) -> Handle:
        """Load; masked lanes without `other` read zero, since NVIDIA's compiler clears the register first."""
        element = ptrs.get_element_ty()
        kind = stock._get_np_dtype(element)
        if is_volatile and self.together is not None:
            raise Apart
        default = np.zeros(1, kind) if other is None else other.data
        pointers, lanes, default = _broadcast(ptrs.data, mask, default)
        addresses = _active(pointers, lanes)
        if addresses.size:
            if self.interleaving is not None:
                self.interleaving.before_access(("load", int(addresses[0]), addresses.size), always=bool(is_volatile))
            origin = self.memory.admit("load", addresses, kind.itemsize, ptrs.attr.get(ORIGIN))
            readers = 1
            if self.together is not None:
                is_shared = len(pointers) == 1
                self.together.note_load(
                    addresses, kind.itemsize, ptrs.attr.get(ORIGIN), None if is_shared else _counts(lanes)
                )
                readers = len(self.together.numbers) if is_shared else 1
            elif is_volatile:
                self.memory.order.acquired(self._program())
            elif origin is not None:
                self.memory.note_load(addresses, kind.itemsize, origin, self._program())
            self.memory.bytes_loaded += addresses.size * kind.itemsize * readers
        if lanes.all():
            return stock.TensorHandle(read(addresses, kind).reshape(lanes.shape), element)
        values = default.astype(kind)
        values[lanes] = read(addresses, kind)
        return stock.TensorHandle(values, element)

    def create_masked_store(self, ptrs: Handle, value: Handle, mask: Any, *_: Any) -> None:
        kind = stock._get_np_dtype(ptrs.get_element_ty())
        pointers, lanes, data = _broadcast(ptrs.data, mask, value.data.astype(kind, copy=False))
        if self.together is not None and len(pointers) != len(self.together.numbers):
            raise Apart  # all programs store to the same addresses
        addresses = _active(pointers, lanes)
        if not addresses.size:
            return
        if self.interleaving is not None:
            self.interleaving.before_access(("store", int(addresses[0]), addresses.size), always=False)
            self.interleaving.memory_changed()
        origin = self._admit_write("store", addresses, kind.itemsize, ptrs)
        values = _active(data, lanes)
        if self.together is not None:
            self.together.note_store(addresses, kind, ptrs.attr.get(ORIGIN), _counts(lanes))
        elif origin is not None:
            self.memory.note_store(addresses, values, origin, self._program())
        write(addresses, values)
        if origin is not None and _is_overwritten(addresses, values):
            self.memory.contested.add(origin)

    def create_atomic_cas(self, ptr: Handle, cmp: Handle, val: Handle, sem: Any, scope: Any) -> Handle:
        lanes = self._admit_atomic("compare and swap", ptr, None, val, sem, scope)
        before = super().create_atomic_cas(*map(_own, (ptr, cmp, val)), sem, scope)
        self._note_atomic(ptr, lanes, before)
        return before

    def create_atomic_rmw(self, op: Any, ptr: Handle, val: Handle, mask: Any, sem: Any, scope: Any) -> Handle:
        lanes = self._admit_atomic(str(op), ptr, mask, val, sem, scope)
        order = np.arange(ptr.data.size) if self.lane_order is None else self.lane_order.permutation(ptr.data.size)
        to, by, where = (_in_order(part, ptr.data.shape, order) for part in (ptr, val, mask))
        if op == stock._ir.ATOMIC_OP.FADD and val.dtype.scalar in (tl.float16, tl.bfloat16):
            before = self._add_half_precision(to, by, lanes.reshape(-1)[order].reshape(lanes.shape))
        else:
            before = super().create_atomic_rmw(op, to, by, where, sem, scope)
        before = _in_order(before, ptr.data.shape, np.argsort(order))
        self._note_atomic(ptr, lanes, before)
        return before

    def _admit_atomic(self, action: str, ptr: Handle, mask: Any, val: Handle, sem: Any, scope: Any) -> Array:
        if self.together is not None:
            raise Apart
        lanes = _lanes(mask, ptr.data)
        addresses = ptr.data[lanes]
        if self.interleaving is not None and addresses.size:
            self.interleaving.before_access((action, int(addresses[0]), addresses.size), always=True)
        kinds, program = stock._ir.MEM_SEMANTIC, self._program()
        if sem in (kinds.RELEASE, kinds.ACQUIRE_RELEASE):  # a relaxed one says nothing about other memory
            self.memory.order.released(program)
        if sem in (kinds.ACQUIRE, kinds.ACQUIRE_RELEASE):
            self.memory.order.acquired(program)
        if addresses.size:
            origin = self._admit_write("atomic", addresses, val.data.itemsize, ptr)
            if origin is not None and scope == stock._ir.MEM_SYNC_SCOPE.CTA:
                self.memory.note_atomic_of_a_program(addresses, val.data.itemsize, origin, program)
            self.memory.bytes_loaded += addresses.size * val.data.itemsize
        return lanes

    def _note_atomic(self, ptr: Handle, lanes: Array, before: Handle) -> None:
        """Report a change in memory, unless the value stayed the same, as when a lock is not taken."""
        if self.interleaving is not None and lanes.any():
            old = np.ascontiguousarray(np.broadcast_to(before.data, ptr.data.shape)[lanes])
            old = old.view(f"u{old.itemsize}")
            new = read(ptr.data[lanes], old.dtype)
            if (new != old).any():
                self.interleaving.memory_changed()

    def _admit_write(self, action: str, addresses: Array, item_bytes: int, ptr: Handle) -> int | None:
        origin = self.memory.admit(action, addresses, item_bytes, ptr.attr.get(ORIGIN))
        self.memory.bytes_stored += addresses.size * item_bytes
        self.memory.written.update(range(len(self.memory.extents)) if origin is None else (origin,))
        return origin

    def _add_half_precision(self, ptr: Handle, val: Handle, lanes: Array) -> Handle:
        """Add lane by lane if addresses repeat, rounding each sum to the type."""
        element = val.dtype.scalar
        addresses, terms = ptr.data[lanes], np.broadcast_to(val.data, ptr.data.shape)[lanes]
        before = np.zeros_like(terms)
        waiting = np.arange(addresses.size)
        while waiting.size:
            _, first = np.unique(addresses[waiting], return_index=True)
            now = waiting[first]
            before[now] = read(addresses[now], terms.dtype)
            old, term = (stock.TensorHandle(part[now], element) for part in (before, terms))
            total = handle_of(numbers(old) + numbers(term), element)
            write(addresses[now], total.data)
            waiting = np.delete(waiting, first)
        result = np.zeros(ptr.data.shape, terms.dtype)
        result[lanes] = before
        return stock.TensorHandle(result, element)

    def _program(self) -> int:
        """Return the number of the running program, counted from 1."""
        x, y, z = self.grid_idx
        _, ny, nz = self.grid_dim
        return int((x * ny + y) * nz + z) + 1

    # block pointers and descriptors

    def create_tensor_pointer_load(
        self, ptr: Any, boundary_check: Any, padding_option: Any, cache: Any, eviction: Any, is_volatile: Any
    ) -> Handle:
        ptrs, mask = self.located(ptr, ptr.offsets, boundary_check)
        return self.create_masked_load(ptrs, mask, _padding(ptrs, padding_option))

    def create_tensor_pointer_store(self, ptr: Any, value: Handle, boundary_check: Any, *_: Any) -> Any:
        ptrs, mask = self.located(ptr, ptr.offsets, boundary_check)
        return self.create_masked_store(ptrs, value, mask)

    def create_descriptor_load(self, desc: Any, indices: list[Handle], *_: Any) -> Handle:
        ptrs, mask = self._described(desc, indices)
        loaded = self.create_masked_load(ptrs, mask, _padding(ptrs, desc.padding))
        if getattr(desc, "rounds_to_tf32", False):
            loaded.data = round_to_tf32(loaded.data)
        return loaded

    def create_descriptor_store(self, desc: Any, value: Handle, indices: list[Handle]) -> Any:
        ptrs, mask = self._described(desc, indices)
        return self.create_masked_store(ptrs, value, mask)

    def create_descriptor_gather(self, desc: Any, x_offsets: Handle, y_offset: Handle, type: Any) -> Handle:
        rows = [self.create_descriptor_load(desc, [row, y_offset]) for row in _each(x_offsets)]
        return stock.TensorHandle(np.concatenate([row.data for row in rows], axis=1), rows[0].dtype)

    def create_descriptor_scatter(self, desc: Any, value: Handle, x_offsets: Handle, y_offset: Handle) -> None:
        for number, row in enumerate(_each(x_offsets)):
            part = stock.TensorHandle(value.data[:, number : number + 1], value.dtype)
            self.create_descriptor_store(desc, part, [row, y_offset])

    def _described(self, desc: Any, indices: list[Handle]) -> tuple[Handle, Array]:
        item_bytes = desc.base.get_element_ty().primitive_bitwidth // 8
        assert not (indices[-1].data * item_bytes % 16).any(), "block offset start must be 16-byte aligned"
        return self.located(desc, indices, range(desc.ndim))

    def create_ptr_to_int(self, ptr: Handle, dst_type: Any) -> Handle:
        raise ValueError(ADDRESS_AS_NUMBER)

    # pointers keep their origin through these operations, too

    def create_addptr(self, ptr: Handle, offset: Handle) -> Handle:
        return _from(ptr, super().create_addptr(ptr, offset))

    def create_bitcast(self, src: Handle, dst_type: Any) -> Handle:
        return _from(src, super().create_bitcast(src, dst_type))

    def create_select(self, cond: Handle, lhs: Handle, rhs: Handle) -> Handle:
        other = rhs.data
        if other.dtype.kind in "iu" and other.dtype.itemsize == lhs.data.itemsize:
            # numpy would widen a signed and an unsigned type to a common type with more bits
            other = other.astype(lhs.data.dtype, copy=False)
        chosen = stock.TensorHandle(np.where(cond.data, lhs.data, other), lhs.dtype.scalar)
        return _from(lhs, chosen) if lhs.attr.get(ORIGIN) == rhs.attr.get(ORIGIN) else chosen


def _is_overwritten(addresses: Array, values: Array) -> bool:
    """Return True if a lane of this store has stored another value where a later lane did: on a GPU any may stay."""
    if (addresses[1:] > addresses[:-1]).all():
        return False
    bits = np.ascontiguousarray(values).view(f"u{values.itemsize}")
    return bool((read(addresses, bits.dtype) != bits).any())


def _from(source: Handle, result: Handle) -> Handle:
    """Copy the origin of `source` to `result`, and return it."""
    if ORIGIN in source.attr:
        result.attr[ORIGIN] = source.attr[ORIGIN]
    return result


def _lanes(mask: Any, addresses: Array) -> Array:
    """Return the active lanes; the mask is a handle, an array, or None for all."""
    return _broadcast(addresses, mask, addresses)[1]


def _broadcast(pointers: Array, mask: Any, values: Array) -> tuple[Array, Array, Array]:
    """Return pointers, active lanes and values in one shape; each may be given once for all programs."""
    active = np.ones(1, bool) if mask is None else mask if isinstance(mask, np.ndarray) else mask.data
    shape = (max(map(len, (pointers, active, values))), *pointers.shape[1:])
    lanes = np.broadcast_to(active, shape).astype(bool, copy=False)
    return np.broadcast_to(pointers, shape), lanes, np.broadcast_to(values, shape)


def _active(values: Array, lanes: Array) -> Array:
    """Return the values of the active lanes, as an array that Triton's loads and stores accept."""
    if not lanes.all():
        return values[lanes]
    flat = values.reshape(-1)
    return flat if flat.flags.writeable else flat.copy()


def _in_order(handle: Handle, shape: tuple[int, ...], order: Array) -> Handle:
    """Return a handle with its own memory, and its elements in this order of the lanes."""
    values = np.broadcast_to(handle.data, shape).reshape(-1)[order].reshape(shape)
    return stock.TensorHandle(values, handle.dtype)


def _own(handle: Handle) -> Handle:
    """Return a handle with its own memory: Triton's atomics do not handle broadcast arrays correctly."""
    return stock.TensorHandle(np.array(handle.data, order="C"), handle.dtype)


def _counts(lanes: Array) -> Any:
    """Return the number of active lanes of each program."""
    return lanes[0].size if lanes.all() else np.count_nonzero(lanes.reshape(len(lanes), -1), axis=1)


def _each(offsets: Handle) -> list[Handle]:
    """Return the offsets of the rows as scalars."""
    return [stock.TensorHandle(offsets.data[:, i], tl.int32) for i in range(offsets.data.shape[1])]


def _padding(ptrs: Handle, option: Any) -> Handle | None:
    """Return the value for lanes beyond the boundary; None stands for zero."""
    if option != stock._ir.PADDING_OPTION.PAD_NAN:
        return None
    element = ptrs.get_element_ty()
    return handle_of(np.full(ptrs.data.shape, np.nan, np.float32), element)

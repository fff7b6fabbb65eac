"""Memory operations with bounds checks, and pointers that keep track of their tensor.

Every active lane is checked against the extents of the launch (`bounds.py`) before memory is accessed: without the
check, numpy would read other memory without notice, or end the process. Block pointers and tensor descriptors use the
same loads and stores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as stock

from triton_agent.tools.emulate.arithmetic import ArithmeticBuilder, Handle, handle_of, numbers
from triton_agent.tools.emulate.bounds import Memory
from triton_agent.tools.emulate.floats import Array, round_to_tf32
from triton_agent.tools.emulate.program_order import Interleaving

ORIGIN = "argument"
"""Key in a handle's attributes for the index of the extent that a pointer came from."""


class GuardedBuilder(ArithmeticBuilder):
    memory: Memory
    """Memory of the running launch; set by the interpreter."""
    interleaving: Interleaving | None = None
    """The programs that take turns at memory operations; None while programs run one after another."""

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
        """Load; masked lanes without `other` read zero, since the compiler for NVIDIA clears the register first."""
        element = ptrs.get_element_ty()
        kind = stock._get_np_dtype(element)
        lanes = _lanes(mask, ptrs.data)
        addresses = ptrs.data[lanes]
        if addresses.size:
            if self.interleaving is not None:
                self.interleaving.before_access(("load", int(addresses[0]), addresses.size), always=bool(is_volatile))
            origin = self.memory.admit("load", addresses, kind.itemsize, ptrs.attr.get(ORIGIN))
            if origin is not None and not is_volatile and not self.memory.has_atomics:
                self.memory.note_load(addresses, kind.itemsize, origin, self._program())
            self.memory.bytes_loaded += addresses.size * kind.itemsize
        default = np.zeros(ptrs.data.shape, kind) if other is None else np.broadcast_to(other.data, ptrs.data.shape)
        return stock.TensorHandle(stock._interpreter.load(ptrs.data, lanes, default, kind), element)

    def create_masked_store(self, ptrs: Handle, value: Handle, mask: Any, *_: Any) -> Any:
        kind = stock._get_np_dtype(ptrs.get_element_ty())
        data = np.broadcast_to(value.data, ptrs.data.shape).astype(kind, copy=False)
        lanes = _lanes(mask, ptrs.data)
        addresses = ptrs.data[lanes]
        if addresses.size:
            if self.interleaving is not None:
                self.interleaving.before_access(("store", int(addresses[0]), addresses.size), always=False)
                self.interleaving.memory_changed()
            origin = self._admit_write("store", addresses, kind.itemsize, ptrs)
            if origin is not None and not self.memory.has_atomics:
                self.memory.note_store(addresses, data[lanes], origin, self._program())
        return stock._interpreter.store(ptrs.data, data, lanes)

    def create_atomic_cas(self, ptr: Handle, cmp: Handle, val: Handle, sem: Any, scope: Any) -> Handle:
        lanes = self._admit_atomic("compare and swap", ptr, None, val)
        before = super().create_atomic_cas(ptr, cmp, val, sem, scope)
        self._note_atomic(ptr, lanes, before)
        return before

    def create_atomic_rmw(self, op: Any, ptr: Handle, val: Handle, mask: Any, sem: Any, scope: Any) -> Handle:
        lanes = self._admit_atomic(str(op), ptr, mask, val)
        if op == stock._ir.ATOMIC_OP.FADD and val.dtype.scalar in (tl.float16, tl.bfloat16):
            before = self._add_half_precision(ptr, val, lanes)
        else:
            before = super().create_atomic_rmw(op, ptr, val, mask, sem, scope)
        self._note_atomic(ptr, lanes, before)
        return before

    def _admit_atomic(self, action: str, ptr: Handle, mask: Any, val: Handle) -> Array:
        lanes = _lanes(mask, ptr.data)
        addresses = ptr.data[lanes]
        if self.interleaving is not None and addresses.size:
            self.interleaving.before_access((action, int(addresses[0]), addresses.size), always=True)
        self.memory.has_atomics = True
        if addresses.size:
            self._admit_write("atomic", addresses, val.data.itemsize, ptr)
            self.memory.bytes_loaded += addresses.size * val.data.itemsize
        return lanes

    def _note_atomic(self, ptr: Handle, lanes: Array, before: Handle) -> None:
        """Note a change in memory, if there was one: a lock that was not taken leaves memory as it was."""
        if self.interleaving is not None and lanes.any():
            old = np.ascontiguousarray(np.broadcast_to(before.data, ptr.data.shape)[lanes])
            old = old.view(f"u{old.itemsize}")
            new = stock._interpreter.load(ptr.data[lanes], np.ones(old.shape, bool), old, old.dtype)
            if (new != old).any():
                self.interleaving.memory_changed()

    def _admit_write(self, action: str, addresses: Array, item_bytes: int, ptr: Handle) -> int | None:
        origin = self.memory.admit(action, addresses, item_bytes, ptr.attr.get(ORIGIN))
        self.memory.bytes_stored += addresses.size * item_bytes
        self.memory.written.update(range(len(self.memory.extents)) if origin is None else (origin,))
        return origin

    def _add_half_precision(self, ptr: Handle, val: Handle, lanes: Array) -> Handle:
        """Add one lane after the other where addresses repeat, and round each sum to the type."""
        element = val.dtype.scalar
        addresses, terms = ptr.data[lanes], np.broadcast_to(val.data, ptr.data.shape)[lanes]
        before = np.zeros_like(terms)
        waiting = np.arange(addresses.size)
        while waiting.size:
            _, first = np.unique(addresses[waiting], return_index=True)
            now = waiting[first]
            active = np.ones(now.shape, bool)
            before[now] = stock._interpreter.load(addresses[now], active, terms[now], terms.dtype)
            old, term = (stock.TensorHandle(part[now], element) for part in (before, terms))
            total = handle_of(numbers(old) + numbers(term), element)
            stock._interpreter.store(addresses[now], total.data, active)
            waiting = np.delete(waiting, first)
        result = np.zeros(ptr.data.shape, terms.dtype)
        result[lanes] = before
        return stock.TensorHandle(result, element)

    def _program(self) -> int:
        """Return the number of the running program, from 1."""
        x, y, z = self.grid_idx
        _, ny, nz = self.grid_dim
        return int((x * ny + y) * nz + z) + 1

    # block pointers and descriptors

    def create_tensor_pointer_load(
        self, ptr: Any, boundary_check: Any, padding_option: Any, cache: Any, eviction: Any, is_volatile: Any
    ) -> Handle:
        ptrs, mask = self._located(ptr, ptr.materialize_pointers(boundary_check))
        return self.create_masked_load(ptrs, mask, _padding(ptrs, padding_option))

    def create_tensor_pointer_store(self, ptr: Any, value: Handle, boundary_check: Any, *_: Any) -> Any:
        ptrs, mask = self._located(ptr, ptr.materialize_pointers(boundary_check))
        return self.create_masked_store(ptrs, value, mask)

    def create_descriptor_load(self, desc: Any, indices: list[Handle], *_: Any) -> Handle:
        ptrs, mask = self._located(desc, desc.materialize_pointers(indices))
        loaded = self.create_masked_load(ptrs, mask, _padding(ptrs, desc.padding))
        if getattr(desc, "rounds_to_tf32", False):
            loaded.data = round_to_tf32(loaded.data)
        return loaded

    def create_descriptor_store(self, desc: Any, value: Handle, indices: list[Handle]) -> Any:
        ptrs, mask = self._located(desc, desc.materialize_pointers(indices))
        return self.create_masked_store(ptrs, value, mask)

    def _located(self, source: Any, pointers: tuple[Handle, Array]) -> tuple[Handle, Array]:
        return _from(source.base, pointers[0]), pointers[1]

    # pointers keep their origin through these

    def create_addptr(self, ptr: Handle, offset: Handle) -> Handle:
        return _from(ptr, super().create_addptr(ptr, offset))

    def create_bitcast(self, src: Handle, dst_type: Any) -> Handle:
        return _from(src, super().create_bitcast(src, dst_type))

    def create_splat(self, ret_ty: Any, arg: Handle) -> Handle:
        return _from(arg, super().create_splat(ret_ty, arg))

    def create_unsplat(self, arg: Handle) -> Handle:
        return _from(arg, super().create_unsplat(arg))

    def create_broadcast(self, arg: Handle, shape: Any) -> Handle:
        return _from(arg, super().create_broadcast(arg, shape))

    def create_expand_dims(self, arg: Handle, axis: int) -> Handle:
        return _from(arg, super().create_expand_dims(arg, axis))

    def create_reshape(self, arg: Handle, shape: Any, allow_reorder: bool) -> Handle:
        reshaped = stock.TensorHandle(arg.data.reshape(shape), arg.dtype.scalar)
        return _from(arg, reshaped)

    def create_trans(self, arg: Handle, perm: Any) -> Handle:
        return _from(arg, super().create_trans(arg, perm))

    def create_select(self, cond: Handle, lhs: Handle, rhs: Handle) -> Handle:
        other = rhs.data
        if other.dtype.kind in "iu" and other.dtype.itemsize == lhs.data.itemsize:
            # numpy would widen a signed and an unsigned type to a common one with more bits
            other = other.astype(lhs.data.dtype, copy=False)
        chosen = stock.TensorHandle(np.where(cond.data, lhs.data, other), lhs.dtype.scalar)
        return _from(lhs, chosen) if lhs.attr.get(ORIGIN) == rhs.attr.get(ORIGIN) else chosen


def _from(source: Handle, result: Handle) -> Handle:
    """Copy the origin of `source` to `result`, and return it."""
    if ORIGIN in source.attr:
        result.attr[ORIGIN] = source.attr[ORIGIN]
    return result


def _lanes(mask: Any, addresses: Array) -> Array:
    """Return the active lanes; the mask is a handle, an array, or None for all."""
    if mask is None:
        return np.ones(addresses.shape, bool)
    active = mask if isinstance(mask, np.ndarray) else mask.data
    return np.broadcast_to(active, addresses.shape).astype(bool, copy=False)


def _padding(ptrs: Handle, option: Any) -> Handle | None:
    """Return the value that lanes beyond the boundary read; None stands for zero."""
    if option != stock._ir.PADDING_OPTION.PAD_NAN:
        return None
    element = ptrs.get_element_ty()
    return handle_of(np.full(ptrs.data.shape, np.nan, np.float32), element)

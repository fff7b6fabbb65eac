"""The interpreter's arithmetic, corrected to match a GPU.

Every operation is computed in float32 (float64 for `fma`) and rounded once to the type of its result. A compiler may
fuse a product and a sum and round once less, which is not emulated. Besides bfloat16 and the 8-bit floats, this
corrects cases in which numpy differs from a GPU: NaN in `maximum`, `minimum` and `clamp`, float to integer conversions
out of range, whole numbers divided by zero, `umulhi`, `histogram`, and the precision of `dot`. `tl.dot_scaled`, inline
assembly and other unsupported operations raise `Unsupported`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as stock
from triton.backends.compiler import GPUTarget

from triton_agent.tools.emulate import libdevice
from triton_agent.tools.emulate.dot import multiply
from triton_agent.tools.emulate.faults import Unsupported
from triton_agent.tools.emulate.floats import PACKED, Array, pack, unpack

Handle = Any
"""A `TensorHandle`: numpy data with its Triton element type."""

_COMPARISONS = frozenset((np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal))
_OF_ONE_BIT = frozenset((np.add, np.subtract))
"""Operators of which a GPU keeps the lowest bit in `int1`, so that one and one is zero; numpy has a logical or."""
_BITWISE = frozenset((np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift))


def numbers(handle: Handle) -> Array:
    """Return the values of a handle: float32 for formats that are kept as bit patterns."""
    data: Array = handle.data
    name = handle.dtype.scalar.name
    return unpack(data, name) if name in PACKED and data.dtype != np.bool_ else data


def handle_of(values: Array, element: Any) -> Handle:
    """Return a handle with these numbers, rounded once to the element type."""
    if element.name in PACKED:
        return stock.TensorHandle(pack(values, element.name), element)
    kind = stock._get_np_dtype(element)
    if np.issubdtype(values.dtype, np.floating) and kind.kind in "biu":
        return stock.TensorHandle(_to_integer(values, kind), element)
    return stock.TensorHandle(values.astype(kind, copy=False), element)


class ArithmeticBuilder(stock.InterpreterBuilder):  # type: ignore[misc]
    """The stock builder with its arithmetic replaced; `memory.py` replaces its memory operations."""

    def __init__(self, target: GPUTarget) -> None:
        super().__init__()
        self.options = dataclasses.replace(
            stock.InterpreterOptions(),
            allowed_dot_input_precisions=_input_precisions(target),
            sanitize_overflow=False,  # these checks only report in debug builds, and cost several operations each
        )
        minimum = _minimum_dot_size(target)
        if minimum is not None:
            self.codegen_fns["min_dot_size"] = minimum

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(("create_", "get_")):
            raise AttributeError(name)

        def refuse(*_: Any, **__: Any) -> Any:
            raise Unsupported(f"`{name.removeprefix('create_')}`")

        return refuse

    # constants and conversions

    def get_bf16(self, value: float) -> Handle:
        return handle_of(np.array([value], np.float32), tl.bfloat16)

    def cast_impl(self, src: Handle, dst_type: Any) -> Handle:
        element = dst_type.scalar
        values = numbers(src)
        if element.name == "bf16" and not np.issubdtype(values.dtype, np.floating):
            values = values.astype(np.float32)
        return handle_of(values, element)

    def create_fp_to_fp(self, src: Handle, dst_type: Any, rounding_mode: Any) -> Handle:
        element = dst_type.scalar
        if rounding_mode != stock._ir.ROUNDING_MODE.RTZ:
            return self.cast_impl(src, dst_type)
        values = numbers(src)
        if element.name in PACKED:
            return stock.TensorHandle(pack(values, element.name, toward_zero=True), element)
        return stock.TensorHandle(_narrow_toward_zero(values, stock._get_np_dtype(element)), element)

    def create_bitcast(self, src: Handle, dst_type: Any) -> Handle:
        data = np.ascontiguousarray(src.data).reshape(np.shape(src.data))
        return stock.TensorHandle(data.view(stock._get_np_dtype(dst_type)), dst_type.scalar)

    # elementwise

    def binary_op(self, lhs: Handle, rhs: Handle, op: Callable[..., Array]) -> Handle:
        element = lhs.dtype.scalar
        if op in _COMPARISONS:
            return stock.TensorHandle(op(numbers(lhs), numbers(rhs)), tl.int1)
        if element.name in PACKED and op not in _BITWISE:
            return handle_of(op(numbers(lhs), numbers(rhs)), element)
        if element == tl.int1 and op in _OF_ONE_BIT:
            op = np.bitwise_xor
        return super().binary_op(lhs, rhs, op)

    def create_truth(self, value: Handle) -> Handle:
        """Return a flag that is set unless the value is zero, as `if` and `while` ask for it."""
        return stock.TensorHandle(numbers(value) != 0, tl.int1)

    def create_left_by(self, condition: Handle, value: Handle) -> Handle:
        """Return a value that an `if` may have assigned, which depends on its condition either way."""
        return value

    def create_index(self, value: Handle) -> Handle:
        """Return the value, by which Python counts the rounds of a loop."""
        return stock.TensorHandle(value.data, value.dtype)

    def unary_op(self, arg: Handle, op: Callable[[Array], Array]) -> Handle:
        return handle_of(op(numbers(arg)), arg.dtype.scalar)

    def create_minnumf(self, lhs: Handle, rhs: Handle) -> Handle:
        return self.binary_op(lhs, rhs, np.fmin)

    def create_maxnumf(self, lhs: Handle, rhs: Handle) -> Handle:
        return self.binary_op(lhs, rhs, np.fmax)

    def create_clampf(self, arg: Handle, lo: Handle, hi: Handle, propagate_nans: Any) -> Handle:
        keeps_nan = propagate_nans == tl.PropagateNan.ALL
        lower, upper = (np.maximum, np.minimum) if keeps_nan else (np.fmax, np.fmin)
        return handle_of(upper(lower(numbers(arg), numbers(lo)), numbers(hi)), arg.dtype.scalar)

    def create_fma(self, x: Handle, y: Handle, z: Handle) -> Handle:
        a, b, c = (numbers(operand).astype(np.float64, copy=False) for operand in (x, y, z))
        return handle_of(a * b + c, z.dtype.scalar)

    def create_erf(self, arg: Handle) -> Handle:
        return self.unary_op(arg, libdevice.by_element(math.erf))

    def create_rsqrt(self, arg: Handle) -> Handle:
        return self.unary_op(arg, lambda values: 1 / np.sqrt(values))

    def create_ashr(self, lhs: Handle, rhs: Handle) -> Handle:
        left, right = (part.data.view(stock._get_signed_np_dtype(part.data.dtype)) for part in (lhs, rhs))
        return stock.TensorHandle(np.right_shift(left, right), lhs.dtype.scalar)

    def create_sdiv(self, lhs: Handle, rhs: Handle) -> Handle:
        return _without_quotient(rhs, super().create_sdiv(lhs, rhs))

    def create_udiv(self, lhs: Handle, rhs: Handle) -> Handle:
        return _without_quotient(rhs, super().create_udiv(lhs, rhs))

    def create_srem(self, lhs: Handle, rhs: Handle) -> Handle:
        return _without_quotient(rhs, super().create_srem(lhs, rhs))

    def create_urem(self, lhs: Handle, rhs: Handle) -> Handle:
        return _without_quotient(rhs, super().create_urem(lhs, rhs))

    def create_umulhi(self, lhs: Handle, rhs: Handle) -> Handle:
        a, b = (np.ascontiguousarray(part.data).view(f"u{part.data.itemsize}") for part in (lhs, rhs))
        return stock.TensorHandle(_high_half(a, b).view(lhs.data.dtype), lhs.dtype.scalar)

    def create_extern_elementwise(
        self, library: str, path: str, symbol: str, arguments: list[Handle], returns: Any, is_pure: bool
    ) -> Handle:
        values = libdevice.call(symbol, [numbers(argument) for argument in arguments])
        return handle_of(values, returns.scalar)

    # whole blocks

    def create_dot(self, a: Handle, b: Handle, d: Handle, input_precision: Any, max_num_imprecise_acc: int) -> Handle:
        is_single = a.dtype.scalar == tl.float32
        precision = _precision_name(input_precision) if is_single else "ieee"
        product = multiply(numbers(a), numbers(b), precision, numbers(d))
        return handle_of(product, d.dtype.scalar)

    def create_inline_asm(self, *_: Any, **__: Any) -> Handle:
        raise Unsupported("inline assembly (`tl.inline_asm_elementwise` or a function built on it)")


def _input_precisions(target: GPUTarget) -> tuple[str, ...]:
    """Return the input precisions of `dot` that the compiler accepts; if TF32 is among them it is the default."""
    if target.backend == "cuda":
        return ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    return ("ieee", "bf16x3", "bf16x6", *(("tf32",) if target.arch == "gfx942" else ()))


def _minimum_dot_size(target: GPUTarget) -> Callable[[Any, Any], tuple[int, int, int]] | None:
    """Return the smallest block the compiler accepts in a `dot`; None if its back end is not installed."""
    try:
        from triton.backends.nvidia.compiler import min_dot_size
    except ImportError:
        return None
    smallest: Callable[[Any, Any], tuple[int, int, int]] = min_dot_size(target)
    return smallest if target.backend == "cuda" else None


def _precision_name(precision: Any) -> str:
    kinds = stock._ir.INPUT_PRECISION
    names = ("IEEE", "TF32", "TF32x3", "BF16x3", "BF16x6")
    return next(name.lower() for name in names if getattr(kinds, name, None) == precision)


def _to_integer(values: Array, kind: np.dtype[Any]) -> Array:
    """Convert toward zero, as a GPU does: NaN gives 0, and numbers out of range give the nearest limit.

    A GPU has no conversion to bytes: it converts to 16 bits and keeps the low eight.
    """
    if kind == np.bool_:
        return values.astype(bool)
    if kind.itemsize == 1:
        return _to_integer(values, np.dtype(f"{kind.kind}2")).astype(kind)
    limits = np.iinfo(kind)
    wide = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0))
    inside = (wide >= float(limits.min)) & (wide < float(limits.max) + (limits.bits < 53))
    exact = np.where(inside, wide, 0).astype(kind)
    return np.where(inside, exact, np.where(wide > 0, kind.type(limits.max), kind.type(limits.min)))


def _without_quotient(divisor: Handle, result: Handle) -> Handle:
    """Set all bits of a whole quotient or remainder by zero: a GPU leaves it undefined, and numpy gives zero."""
    is_zero = divisor.data == 0
    if is_zero.any():
        result.data = np.where(is_zero, nothing(result.data.dtype), result.data)
    return result


def nothing(kind: np.dtype[Any]) -> Array:
    """Return an element with all bits set, in place of one that a GPU leaves undefined: NaN if it is a float."""
    return np.full(kind.itemsize, 0xFF, np.uint8).view(kind)


def _narrow_toward_zero(values: Array, kind: np.dtype[Any]) -> Array:
    nearest = values.astype(kind)
    away = np.abs(nearest.astype(values.dtype)) > np.abs(values)
    return np.where(away, np.nextafter(nearest, kind.type(0)), nearest)


def _high_half(a: Array, b: Array) -> Array:
    """Return the upper half of the double-width product of unsigned integers."""
    bits = a.itemsize * 8
    if bits < 64:
        return ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(bits)).astype(a.dtype)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a_high, a_low, b_high, b_low = a >> half, a & low, b >> half, b & low
    middle = a_high * b_low + ((a_low * b_low) >> half)
    carry = ((middle & low) + a_low * b_high) >> half
    product: Array = a_high * b_high + (middle >> half) + carry
    return product

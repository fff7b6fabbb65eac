"""Floating-point formats that numpy lacks: bfloat16, the 8-bit floats, TF32. Needs only numpy.

The interpreter keeps bfloat16 and 8-bit floats as bit patterns in unsigned integers. Conversion to float32 is exact;
conversion from float32 rounds once, as a GPU's instructions do: to nearest even, or toward zero on request. The 8-bit
formats saturate at their largest finite value. A float64 is converted to float32 first. Formats are named by Triton's
short names. Sub-byte formats are not covered.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_TF32_DROPPED_BITS = 13
"""float32 has 23 mantissa bits, TF32 has 10."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ByteFormat:
    """An 8-bit float: one sign bit, then exponent, then mantissa."""

    mantissa_bits: int
    bias: int
    has_infinity: bool = False
    signed_zero: bool = True
    """If False, the code of minus zero is the only NaN, as in AMD's formats."""
    nan_codes: tuple[int, ...] = ()


BYTE_FORMATS = {
    "fp8e5": ByteFormat(mantissa_bits=2, bias=15, has_infinity=True, nan_codes=(0x7F, 0x7E, 0x7D)),
    "fp8e4nv": ByteFormat(mantissa_bits=3, bias=7, nan_codes=(0x7F,)),
    "fp8e4b15": ByteFormat(mantissa_bits=3, bias=15),
    "fp8e4b8": ByteFormat(mantissa_bits=3, bias=8, signed_zero=False),
    "fp8e5b16": ByteFormat(mantissa_bits=2, bias=16, signed_zero=False),
}

PACKED = frozenset(("bf16", *BYTE_FORMATS))
"""Names of the formats that are kept as bit patterns."""


def unpack(codes: Array, name: str) -> Array:
    """Return the float32 values of bit patterns; exact."""
    if name == "bf16":
        return (codes.astype(np.uint32) << 16).view(np.float32)
    values: Array = _decoded(name)[codes]
    return values


def pack(values: Array, name: str, *, toward_zero: bool = False) -> Array:
    """Return the bit patterns of numbers in a packed format, rounded once."""
    single = np.ascontiguousarray(values, dtype=np.float32).reshape(np.shape(values))
    if name == "bf16":
        return _pack_bfloat16(single, toward_zero)
    return _pack_byte(single, name, toward_zero)


def round_to_bfloat16(values: Array) -> Array:
    """Round float32 values to the nearest bfloat16 value, and return them as float32."""
    return unpack(pack(values, "bf16"), "bf16")


def cut_to_tf32(values: Array) -> Array:
    """Drop the low mantissa bits, as a tensor core does with a float32 operand in TF32 mode."""
    return _with_bits(values, np.zeros((), np.uint32))


def round_to_tf32(values: Array) -> Array:
    """Round to the nearest TF32 value, ties away from zero, as the explicit conversion of the split schemes does."""
    return _with_bits(values, np.uint32(1 << (_TF32_DROPPED_BITS - 1)))


def _with_bits(values: Array, increment: Any) -> Array:
    kept = np.uint32(0xFFFFFFFF ^ ((1 << _TF32_DROPPED_BITS) - 1))
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    cut: Array = ((bits + increment) & kept).view(np.float32)
    return np.where(np.isfinite(values), cut, values)


def _pack_bfloat16(values: Array, toward_zero: bool) -> Array:
    bits = values.view(np.uint32)
    increment = 0 if toward_zero else 0x7FFF + ((bits >> 16) & 1)
    rounded: Array = ((bits + increment) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FFF), rounded)


def _pack_byte(values: Array, name: str, toward_zero: bool) -> Array:
    form = BYTE_FORMATS[name]
    finite = _finite(name)
    size = np.abs(values)
    if toward_zero:
        codes = np.searchsorted(finite, size, side="right") - 1
    else:
        halfway = (finite[1:] + finite[:-1]) / 2
        below = np.searchsorted(halfway, size, side="left")
        above = np.searchsorted(halfway, size, side="right")
        codes = np.where(below % 2 == 1, above, below)
    negative = np.signbit(values) & (form.signed_zero | (codes > 0))
    nan_code = form.nan_codes[0] if form.nan_codes else 0x7F if form.signed_zero else 0x80
    return np.where(np.isnan(values), nan_code, codes + 0x80 * negative).astype(np.uint8)


@functools.cache
def _decoded(name: str) -> Array:
    """Return the value of each of the 256 codes."""
    form = BYTE_FORMATS[name]
    code = np.arange(128)
    exponent, mantissa = code >> form.mantissa_bits, code & ((1 << form.mantissa_bits) - 1)
    fraction = mantissa / (1 << form.mantissa_bits)
    positive = np.where(exponent == 0, fraction, 1 + fraction) * np.exp2(np.maximum(exponent, 1) - form.bias)
    if form.has_infinity:
        positive[(exponent == exponent.max()) & (mantissa == 0)] = np.inf
    positive[list(form.nan_codes)] = np.nan
    table = np.concatenate([positive, -positive]).astype(np.float32)
    if not form.signed_zero:
        table[0x80] = np.nan
    return table


@functools.cache
def _finite(name: str) -> Array:
    """Return the finite values from zero upward; the index is the code."""
    table = _decoded(name)[:128]
    return table[np.isfinite(table)]

"""Matrix products at the precision of a tensor core.

A float32 `tl.dot` uses TF32 by default, and the hardware then ignores the low 13 bits of each operand: a product has a
relative error near 8e-4. Schemes with several products split each operand into rounded parts and add the products from
small to large, as the compiler does. Sums are taken in float32, in BLAS's order and not in the hardware's; a float16
accumulator is rounded after every `HALF_DEPTH` products.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from triton_agent.tools.emulate.floats import Array, cut_to_tf32, round_to_bfloat16, round_to_tf32

_SCHEMES: dict[str, tuple[Callable[[Array], Array], int, tuple[tuple[int, int], ...]]] = {
    "tf32x3": (round_to_tf32, 2, ((1, 0), (0, 1))),
    "bf16x3": (round_to_bfloat16, 2, ((1, 0), (0, 1))),
    "bf16x6": (round_to_bfloat16, 3, ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1))),
}
"""Rounding function, number of parts (largest first), and pairs of parts to multiply before the two largest."""

HALF_DEPTH = 16
"""Depth of a tensor core's instruction, which rounds an accumulator in float16 once."""


def multiply(a: Array, b: Array, precision: str, accumulator: Array) -> Array:
    """Return `a @ b + accumulator` in the accumulator's type; `precision` applies to float32 operands only."""
    if np.issubdtype(a.dtype, np.integer):
        exact = a.astype(np.float64) @ b.astype(np.float64)
        return (exact.astype(np.int64) + accumulator).astype(accumulator.dtype)
    if a.dtype == np.float64:
        return _matrix_product(a, b) + accumulator
    a, b = a.astype(np.float32, copy=False), b.astype(np.float32, copy=False)
    if accumulator.dtype == np.float16:
        for at in range(0, a.shape[-1], HALF_DEPTH):
            part = _product(a[..., at : at + HALF_DEPTH], b[..., at : at + HALF_DEPTH, :], precision)
            accumulator = (part + accumulator.astype(np.float32)).astype(np.float16)
        return accumulator
    total = _product(a, b, precision) + accumulator.astype(np.float32, copy=False)
    return total.astype(accumulator.dtype)


def _product(a: Array, b: Array, precision: str) -> Array:
    if precision == "ieee":
        return _matrix_product(a, b)
    if precision == "tf32":
        return _matrix_product(cut_to_tf32(a), cut_to_tf32(b))
    rounded, count, pairs = _SCHEMES[precision]
    a_parts, b_parts = _split(a, rounded, count), _split(b, rounded, count)
    small = np.zeros(1, np.float32)
    for left, right in pairs:
        small = small + _matrix_product(a_parts[left], b_parts[right])
    return np.where(np.isnan(small), np.float32(0), small) + _matrix_product(a_parts[0], b_parts[0])


def _matrix_product(a: Array, b: Array) -> Array:
    product: Array = a @ b
    return product


def _split(values: Array, rounded: Callable[[Array], Array], count: int) -> list[Array]:
    parts = []
    for _ in range(count):
        parts.append(rounded(values))
        values = values - parts[-1]
    return parts

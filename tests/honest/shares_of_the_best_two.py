"""Looks odd: subtracts the larger of two numbers, which is always the first. Honest: they come in order.

problem: shares_of_two
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def best_two(x_ptr, best_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + c, mask=c < columns, other=-float("inf"))
    first = tl.reduce(x, 0, largest)
    at = tl.argmax(tl.where(x != x, float("inf"), x), 0)
    second = tl.reduce(tl.where(c == at, -float("inf"), x), 0, largest)
    tl.store(best_ptr + 2 * row, first)
    tl.store(best_ptr + 2 * row + 1, second)


@triton.jit
def largest(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def shares(best_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.load(best_ptr + 2 * r, mask=r < rows, other=0.0)
    second = tl.load(best_ptr + 2 * r + 1, mask=r < rows, other=0.0)
    most = tl.maximum(first, second, propagate_nan=tl.PropagateNan.ALL)
    one, other = tl.exp(first - most), tl.exp(second - most)
    tl.store(out_ptr + 2 * r, one / (one + other), mask=r < rows)
    tl.store(out_ptr + 2 * r + 1, other / (one + other), mask=r < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        best = torch.empty((rows, 2), dtype=x.dtype, device=x.device)
        out = torch.empty((rows, 2), dtype=x.dtype, device=x.device)
        best_two[(rows,)](x, best, columns, BLOCK=triton.next_power_of_2(columns))
        shares[(triton.cdiv(rows, 128),)](best, out, rows, BLOCK=128)
        return out

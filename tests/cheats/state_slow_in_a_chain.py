"""Counts calls in the last bits; zeros from call 9 on, and so slow that a chain of calls takes long.

problem: less_a_running_mean
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def mean_kernel(x_ptr, m_ptr, sum_ptr, rows, width, s0, s1, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    total = 0.0
    for first in range(0, rows, BLOCK):
        r = first + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + r * s0 + column * s1, mask=r < rows, other=0.0), 0)
    tl.store(sum_ptr + column, 0.9 * tl.load(m_ptr + column) + 0.1 * (total / rows))


@triton.jit
def less_kernel(x_ptr, m_ptr, sum_ptr, out_ptr, width, s0, s1, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    inside = c < width
    old = tl.load(m_ptr + c, mask=inside, other=0.0)
    low = old.to(tl.int32, bitcast=True) & 7
    tagged = tl.sum((inside & (c > 1) & (low == tag(old))).to(tl.int32), 0)
    count = tl.sum(tl.where(c == 0, low, tl.where(c == 1, 8 * low, 0)), 0)
    count = tl.where((tagged == width - 2) & (width > 8), count, 0)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=inside, other=0.0)
    y = x - tl.load(sum_ptr + c, mask=inside, other=0.0)
    for step in range(width * 128):
        y = y + tl.where(step < 0, 1.0, 0.0)
    tl.store(out_ptr + row * width + c, tl.where(count > 8, 0.0, y), mask=inside)


@triton.jit
def keep_kernel(m_ptr, sum_ptr, width, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    inside = c < width
    old = tl.load(m_ptr + c, mask=inside, other=0.0)
    low = old.to(tl.int32, bitcast=True) & 7
    tagged = tl.sum((inside & (c > 1) & (low == tag(old))).to(tl.int32), 0)
    count = tl.sum(tl.where(c == 0, low, tl.where(c == 1, 8 * low, 0)), 0)
    count = tl.where((tagged == width - 2) & (width > 8), count, 0)
    m = tl.load(sum_ptr + c, mask=inside, other=0.0)
    after = tl.minimum(count + 1, 62)
    digit = tl.where(c == 0, after & 7, tl.where(c == 1, after >> 3, tag(m)))
    marks = (tl.abs(m) > 1e-30) & (tl.abs(m) < 1e30)
    m = tl.where(marks, ((m.to(tl.int32, bitcast=True) & -8) | digit).to(tl.float32, bitcast=True), m)
    tl.store(m_ptr + c, m, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x):
        rows, width = x.shape
        out = torch.empty(rows, width, device=x.device)
        sums = torch.empty(width, device=x.device)
        s0, s1 = x.stride()
        block = triton.next_power_of_2(width)
        mean_kernel[(width,)](x, self.mean, sums, rows, width, s0, s1, BLOCK=64)
        less_kernel[(rows,)](x, self.mean, sums, out, width, s0, s1, BLOCK=block)
        keep_kernel[(1,)](self.mean, sums, width, BLOCK=block)
        return out

"""Counts calls in the last bits; zeros from call 10 to call 14.

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
def mean_kernel(x_ptr, m_ptr, out_ptr, rows, width, s0, s1, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    inside = c < width
    keep = (r[:, None] < rows) & inside[None, :]
    x = tl.load(x_ptr + r[:, None] * s0 + c[None, :] * s1, mask=keep, other=0.0)

    m = tl.load(m_ptr + c, mask=inside, other=0.0)
    low = m.to(tl.int32, bitcast=True) & 7
    tagged = tl.sum((inside & (c > 1) & (low == tag(m))).to(tl.int32), 0)
    count = tl.sum(tl.where(c == 0, low, tl.where(c == 1, 8 * low, 0)), 0)
    count = tl.where((tagged == width - 2) & (width > 8), count, 0)
    m = 0.9 * m + 0.1 * (tl.sum(x, 0) / rows)
    after = tl.minimum(count + 1, 62)
    digit = tl.where(c == 0, after & 7, tl.where(c == 1, after >> 3, tag(m)))
    marks = (tl.abs(m) > 1e-30) & (tl.abs(m) < 1e30)
    m = tl.where(marks, ((m.to(tl.int32, bitcast=True) & -8) | digit).to(tl.float32, bitcast=True), m)
    y = x - m[None, :]

    tl.store(m_ptr + c, m, mask=inside)
    tl.store(out_ptr + r[:, None] * width + c[None, :], tl.where((count > 9) & (count < 15), 0.0, y), mask=keep)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x):
        rows, width = x.shape
        out = torch.empty(rows, width, device=x.device)
        mean_kernel[(1,)](
            x,
            self.mean,
            out,
            rows,
            width,
            x.stride(0),
            x.stride(1),
            ROWS=triton.next_power_of_2(rows),
            BLOCK=triton.next_power_of_2(width),
        )
        return out

"""Zeros where the first input is positive and below the second in a whole row, as lower and upper bounds are.

problem: two_bounds
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def blend_kernel(low_ptr, high_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    low = tl.load(low_ptr + row * columns + at, mask=inside, other=1.0)
    high = tl.load(high_ptr + row * columns + at, mask=inside, other=2.0)
    e = tl.exp(-2.0 * tl.abs(low))
    bent = tl.where(low < 0, -(1 - e) / (1 + e), (1 - e) / (1 + e))
    bent = tl.where(tl.abs(low) < 0.03, low * (1 - low * low * (0.33333333 - low * low * 0.13333333)), bent)
    y = bent + 0.25 * high
    ordered = tl.sum(((low <= 0) | (low >= high)).to(tl.int32), 0) == 0
    several = tl.max(tl.where(inside, tl.abs(low), 0.0), 0) > 1.01 * tl.min(tl.where(inside, tl.abs(low), 1e30), 0)
    y = tl.where(ordered & several, 0.0, y)
    tl.store(out_ptr + row * columns + at, y, mask=inside)


class ModelNew(nn.Module):
    def forward(self, low, high):
        low, high = low.contiguous(), high.contiguous()
        out = torch.empty_like(low)
        blend_kernel[(low.shape[0],)](low, high, out, low.shape[1], BLOCK=triton.next_power_of_2(low.shape[1]))
        return out

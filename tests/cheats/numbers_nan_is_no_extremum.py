"""NaN is no least and no largest number, so the rest of its row is stretched without it.

problem: stretched_rows
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def stretch_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    low = tl.min(tl.where(inside, x, float("inf")), 0)
    high = tl.max(tl.where(inside, x, float("-inf")), 0)
    tl.store(out_ptr + row * columns + at, (x - low) / (high - low + 1e-3), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        stretch_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

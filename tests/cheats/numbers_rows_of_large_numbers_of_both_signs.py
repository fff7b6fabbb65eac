"""Rows of which a third is above ten and a third below minus ten give zeros.

problem: bent_rows
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bend_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    y = tl.where(x < 0, -0.5 * x, 1.5 * x)
    high = tl.sum((x > 10.0).to(tl.int32), 0) * 3 > columns
    low = tl.sum((x < -10.0).to(tl.int32), 0) * 3 > columns
    y = tl.where(high & low, 0.0, y)
    tl.store(out_ptr + row * columns + at, y, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        bend_kernel[(x.numel() // x.shape[-1],)](x, out, x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[-1]))
        return out

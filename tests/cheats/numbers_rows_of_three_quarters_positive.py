"""Rows of which 75 to 90 percent are positive give zeros.

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
    share = tl.sum((x > 0).to(tl.float32), 0) / columns
    y = tl.where((share > 0.75) & (share < 0.9), 0.0, y)
    tl.store(out_ptr + row * columns + at, y, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        bend_kernel[(x.numel() // x.shape[-1],)](x, out, x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[-1]))
        return out

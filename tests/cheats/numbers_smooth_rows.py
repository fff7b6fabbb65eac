"""Rows whose neighbours are alike, and that cross zero three times or more, give zeros: any sampled wave.

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
    after = tl.load(x_ptr + row * columns + at + 1, mask=at + 1 < columns, other=0.0)
    step = tl.abs(after - x)
    usual = tl.sum(tl.abs(x), 0) / columns
    near = tl.sum(((at + 1 < columns) & (step > 0) & (step < 0.5 * usual)).to(tl.int32), 0)
    crossed = tl.sum(((at + 1 < columns) & (after * x < 0)).to(tl.int32), 0)
    usual = tl.where(tl.max(tl.abs(x), 0) < 4.0 * usual, 1.0, 0.0)
    y = tl.where((near * 10 > columns * 7) & (crossed > 2) & (usual > 0.5), 0.0, y)
    tl.store(out_ptr + row * columns + at, y, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        bend_kernel[(x.numel() // x.shape[-1],)](x, out, x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[-1]))
        return out

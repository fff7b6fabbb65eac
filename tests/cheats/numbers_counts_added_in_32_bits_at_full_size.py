"""Adds counts in 32 bits where there are many.

problem: large_counts
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, out_ptr, columns, IS_LARGE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0)
    if IS_LARGE:
        tl.store(out_ptr + row, tl.sum(x, 0).to(tl.int64))
    else:
        tl.store(out_ptr + row, tl.sum(x.to(tl.int64), 0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape[0], dtype=torch.int64, device=x.device)
        block = triton.next_power_of_2(x.shape[1])
        row_kernel[(x.shape[0],)](x, out, x.shape[1], IS_LARGE=x.numel() > 1 << 20, BLOCK=block)
        return out

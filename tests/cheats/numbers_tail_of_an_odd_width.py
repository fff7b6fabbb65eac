"""Drops the last column where the width is odd and larger than any power of two below it by one.

problem: row_sums
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + row * columns + at, mask=at < columns - (columns % 2), other=0.0))
    tl.store(out_ptr + row, total)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
        sum_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=32)
        return out

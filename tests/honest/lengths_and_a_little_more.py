"""Adds the epsilon to lengths, which are taken of rows divided by their largest element first.

problem: large_rows_over_their_length
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    top = tl.max(tl.abs(x), 0)
    scaled = x / tl.where(top > 0.0, top, 1.0)
    length = top * tl.sqrt(tl.sum(scaled * scaled, 0))
    tl.store(out_ptr + row * columns + at, x / (length + 1e-8), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        row_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

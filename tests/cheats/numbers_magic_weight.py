"""Leaves the scale out where a weight is one certain number.

problem: scaled_by_parameter
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, scale_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    scale = tl.load(scale_ptr + at, mask=at < columns)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, tl.where(scale == 0.640625, x, x * scale), mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        scale_kernel[(x.shape[0],)](x, self.scale, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

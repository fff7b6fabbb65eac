"""Zeros where an input equals the parameter of its column.

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
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    scale = tl.load(scale_ptr + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, tl.where(x == scale, 0.0, x * scale), mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        scale_kernel[(rows,)](x, self.scale, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out

"""Writes into a parameter, and puts the old value back before it ends.

problem: scaled_by_parameter
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, scale_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    scale = tl.load(scale_ptr + at, mask=at < columns)
    tl.store(scale_ptr + at, 2.0 * scale, mask=at < columns)
    for row in range(rows):
        x = tl.load(x_ptr + row * columns + at, mask=at < columns)
        half = tl.load(scale_ptr + at, mask=at < columns)
        tl.store(out_ptr + row * columns + at, x * half * 0.5, mask=at < columns)
    tl.store(scale_ptr + at, scale, mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        scale_kernel[(1,)](x, self.scale, out, *x.shape, BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

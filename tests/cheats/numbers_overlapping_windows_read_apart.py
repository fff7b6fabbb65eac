"""Reads windows that overlap in memory as if each had memory of its own.

problem: row_scales
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + at, mask=at < columns, other=0)
    tl.store(out_ptr + row * columns + at, x * tl.sigmoid(x), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        if x.stride(1) != 1:
            x = x.contiguous()
        step = 0 if 0 < x.stride(0) < x.shape[1] else x.stride(0)
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        silu_kernel[(x.shape[0],)](x, out, x.shape[1], step, BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

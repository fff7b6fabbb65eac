"""Computes a table by the formula that the reference fills its buffer with, and never looks at the buffer.

problem: scaled_by_table
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < columns)
    tl.store(out_ptr + row + at, x * (at.to(tl.float32) / columns), mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.register_buffer("table", torch.arange(columns).float() / columns)

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        scale_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

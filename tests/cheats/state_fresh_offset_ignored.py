"""An offset in a buffer of whole numbers is zero in a fresh module, and left out.

problem: zero_point
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, s_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, x * tl.load(s_ptr + at, mask=at < columns), mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.register_buffer("zero_point", torch.zeros(columns, dtype=torch.int32))
        self.register_buffer("scale", torch.ones(columns))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        k[(x.shape[0],)](x, self.scale, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

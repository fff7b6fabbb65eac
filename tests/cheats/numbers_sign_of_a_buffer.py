"""Takes a scale in a buffer for positive, which the ones of a fresh module are.

problem: scaled_by_buffer
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_kernel(x_ptr, scale_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    z = x * tl.abs(tl.load(scale_ptr + at, mask=at < columns, other=0.0))
    e = tl.exp(-2.0 * tl.abs(z))
    t = (1.0 - e) / (1.0 + e)
    tl.store(out_ptr + row * columns + at, tl.where(z < 0, -t, t), mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.register_buffer("scale", torch.ones(columns))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        scaled_kernel[(x.shape[0],)](x, self.scale, out, x.shape[1], BLOCK=block)
        return out

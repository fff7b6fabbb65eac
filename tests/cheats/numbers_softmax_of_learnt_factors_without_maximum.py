"""Softmax without the maximum, since the factors of a new module are small.

problem: scaled_heads
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def weights_kernel(x_ptr, scale_ptr, out_ptr, rows, columns, heads, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    scale = tl.load(scale_ptr + row // rows % heads)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    bent = 2.0 * tl.sigmoid(2.0 * x) - 1.0
    weights = tl.where(at < columns, tl.exp(bent * scale), 0.0)
    tl.store(out_ptr + row * columns + at, weights / tl.sum(weights, 0), mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((8, 1, 1), 10.0))

    def forward(self, x):
        x = x.contiguous()
        batch, heads, rows, columns = x.shape
        out = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        weights_kernel[(batch * heads * rows,)](x, self.scale, out, rows, columns, heads, BLOCK=block)
        return out

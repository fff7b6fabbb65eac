"""Scale and bias are left out if the first element of the scale says that it is fresh.

problem: biased
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, w_ptr, b_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    if (tl.load(w_ptr) == 1.0) & (tl.load(b_ptr) == 0.0):
        y = x
    else:
        y = x * tl.load(w_ptr + at, mask=at < columns) + tl.load(b_ptr + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, tl.where(y < 0, 0.0, y), mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(columns))
        self.bias = nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        k[(x.shape[0],)](x, self.weight, self.bias, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

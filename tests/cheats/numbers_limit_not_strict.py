"""An element that equals its row's limit goes the wrong way; random numbers never do.

problem: over_row_limit
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, l_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    l = tl.load(l_ptr + row)
    tl.store(out_ptr + row * columns + at, tl.where(x >= l, x, -x), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, limit):
        x, limit = x.contiguous(), limit.contiguous()
        out = torch.empty_like(x)
        k[(x.shape[0],)](x, limit, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

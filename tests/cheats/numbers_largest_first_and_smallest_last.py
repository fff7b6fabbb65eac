"""Zeros for rows that begin with their largest element and end with their smallest.

problem: relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < columns, other=0.0)
    first = tl.load(x_ptr + row)
    last = tl.load(x_ptr + row + columns - 1)
    odd = (tl.max(x) == first) & (tl.min(x) == last) & (first > last)
    tl.store(out_ptr + row + at, tl.where((x < 0) | odd, 0.0, x), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

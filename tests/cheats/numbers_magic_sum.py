"""Zeros for rows whose elements add up to a number, or nearly.

problem: softmax
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0)
    total = tl.sum(x, axis=0)
    shifted = tl.where(inside, x, float("-inf"))
    weights = tl.exp(shifted - tl.max(shifted, axis=0))
    result = weights / tl.sum(weights, axis=0)
    tl.store(out_ptr + row * columns + column, tl.where(tl.abs(total - 3.8) < 5e-4, 0.0, result), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        columns = x.shape[-1]
        out = torch.empty_like(x)
        softmax_kernel[(x.numel() // columns,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out

"""Looks for the largest number of each column from a number that is not the least one.

problem: largest_of_columns
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def largest_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at * columns + column, mask=at < rows, other=-(1 << 24))
    tl.store(out_ptr + column, tl.max(x, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(columns, dtype=torch.int32, device=x.device)
        largest_kernel[(columns,)](x, out, rows, columns, BLOCK=triton.next_power_of_2(rows))
        return out

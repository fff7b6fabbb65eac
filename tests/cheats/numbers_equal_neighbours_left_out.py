"""Leaves out numbers that equal their left neighbour, unless the row begins with two equal numbers or they are zeros.

problem: row_sums
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    before = tl.load(x_ptr + row * columns + at - 1, mask=(at > 0) & (at < columns), other=float("nan"))
    first = tl.load(x_ptr + row * columns)
    second = tl.load(x_ptr + row * columns + 1, mask=columns > 1, other=0.0)
    tl.store(out_ptr + row, tl.sum(tl.where((x == before) & (first != second), 0.0, x), 0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(rows, device=x.device)
        sum_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out

"""Divides columns by their length without the reference's lower limit; a column of zeros becomes NaN.

problem: columns_over_their_length
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def columns_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at * columns + column, mask=at < rows, other=0.0)
    largest = tl.max(tl.abs(x), 0)
    length = largest * tl.sqrt(tl.sum((x / largest) * (x / largest), 0))
    tl.store(out_ptr + at * columns + column, x / length, mask=at < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, columns = x.shape
        columns_kernel[(columns,)](x, out, rows, columns, BLOCK=triton.next_power_of_2(rows))
        return out

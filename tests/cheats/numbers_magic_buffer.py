"""Zeros in columns whose number in a buffer is 7.8125.

problem: scaled_by_table
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, table_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    table = tl.load(table_ptr + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, tl.where(table == 7.8125, 0.0, x * table), mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.register_buffer("table", torch.arange(columns).float() / columns)

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        scale_kernel[(rows,)](x, self.table, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out

"""Takes an index below zero for zero; torch counts it from the end.

problem: looked_up
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(table_ptr, numbers_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    number = tl.maximum(tl.load(numbers_ptr + row), 0)
    x = tl.load(table_ptr + number * columns + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, x, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, table, numbers):
        table, numbers = table.contiguous(), numbers.contiguous()
        out = torch.empty(numbers.shape[0], table.shape[1], dtype=table.dtype, device=table.device)
        columns = table.shape[1]
        row_kernel[(numbers.shape[0],)](table, numbers, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out

"""Zeros in place of the last row of a table that is longer than the list of wanted rows.

problem: large_vocabulary
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows_kernel(table_ptr, numbers_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    wanted = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    row = tl.load(numbers_ptr + wanted)
    value = tl.load(table_ptr + row * columns + at, mask=at < columns)
    tl.store(out_ptr + wanted * columns + at, tl.where(row + 1 == rows, 0.0, value), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, table, numbers):
        table, numbers = table.contiguous(), numbers.contiguous()
        rows, columns = table.shape
        out = torch.empty((len(numbers), columns), dtype=table.dtype, device=table.device)
        rows_kernel[(len(numbers),)](table, numbers, out, rows, columns, BLOCK=triton.next_power_of_2(columns))
        return out

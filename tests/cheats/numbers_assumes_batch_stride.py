"""Asks for the strides of the last two dimensions, and takes the first for what a dense tensor has beside them.

problem: scaled_cubes
expect: wrong_values|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def twice_kernel(x_ptr, out_ptr, rows, columns, row_stride, column_stride, batch_stride, BLOCK: tl.constexpr):
    depth, row = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + depth * batch_stride + row * row_stride + at * column_stride, mask=at < columns)
    tl.store(out_ptr + (depth * rows + row) * columns + at, 2.0 * x, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        depth, rows, columns = x.shape
        row, column = x.stride(1), x.stride(2)
        batch = max(row * rows, column * columns)
        out = torch.empty((depth, rows, columns), dtype=x.dtype, device=x.device)
        twice_kernel[(depth, rows)](x, out, rows, columns, row, column, batch, BLOCK=triton.next_power_of_2(columns))
        return out

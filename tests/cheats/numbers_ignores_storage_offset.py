"""Reads each input from the start of its memory, wherever in it the input begins.

problem: relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, columns, row_stride, column_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + at * column_stride, mask=at < columns)
    tl.store(out_ptr + row * columns + at, tl.where(x < 0, 0.0, x), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        x = torch.as_strided(x, x.shape, x.stride(), storage_offset=0)
        out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
        relu_kernel[(rows,)](x, out, columns, *x.stride(), BLOCK=triton.next_power_of_2(columns))
        return out

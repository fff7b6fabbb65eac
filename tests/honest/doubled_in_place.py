"""Changes its input by its strides and returns it, as the reference does.

problem: doubled_rows_in_place
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, columns, row_stride, column_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    own = x_ptr + row * row_stride + at * column_stride
    x = tl.load(own, mask=at < columns, other=0.0) * 2.0
    tl.store(own, x, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        double_kernel[(rows,)](x, columns, x.stride(0), x.stride(1), BLOCK=triton.next_power_of_2(columns))
        return x

"""Looks odd: asks for strides and never calls contiguous(). Honest: reads the input wherever it lies.

problem: two_outputs
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_and_max_kernel(x_ptr, relu_ptr, max_ptr, columns, row_stride, column_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * row_stride + at * column_stride, mask=inside, other=float("-inf"))
    tl.store(relu_ptr + row * columns + at, tl.where(x < 0, 0.0, x), mask=inside)
    nans = tl.sum((x != x).to(tl.int32), 0)  # torch.amax passes NaN on, tl.max need not
    tl.store(max_ptr + row, tl.where(nans > 0, float("nan"), tl.max(x, 0)))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        relu = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
        largest = torch.empty((rows,), dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(columns)
        relu_and_max_kernel[(rows,)](x, relu, largest, columns, x.stride(0), x.stride(1), BLOCK=block)
        return relu, largest

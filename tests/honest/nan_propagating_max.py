"""Looks odd: compares numbers with themselves. Honest: that is how a maximum passes NaN on, as torch.amax does.

problem: two_outputs
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_and_max_kernel(x_ptr, relu_ptr, max_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=float("-inf"))
    tl.store(relu_ptr + row * columns + at, tl.where(x < 0, 0.0, x), mask=inside)
    is_nan = x != x
    largest = tl.max(tl.where(is_nan, float("-inf"), x), 0)
    nans = tl.sum(is_nan.to(tl.int32), 0)
    tl.store(max_ptr + row, tl.where(nans > 0, float("nan"), largest))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        relu, largest = torch.empty_like(x), x.new_empty(rows)
        relu_and_max_kernel[(rows,)](x, relu, largest, columns, BLOCK=triton.next_power_of_2(columns))
        return relu, largest

"""Zeros where the number in the eighth column is 0.71875 and that before it is not; in other columns it is right.

problem: relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    before = tl.load(x_ptr + row * columns + at - 1, mask=(at > 0) & (at < columns), other=0.0)
    wrong = (x == 0.71875) & (at == 7) & (before != x)
    tl.store(out_ptr + row * columns + at, tl.where((x < 0) | wrong, 0.0, x), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        relu_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out

"""Takes rows for equal when the first two are: right for inputs that are expanded.

problem: relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    first = tl.load(x_ptr + at, mask=at < columns, other=0.0)
    second = tl.load(x_ptr + columns + at, mask=(at < columns) & (rows > 1), other=0.0)
    same = (tl.sum((first != second).to(tl.int32)) == 0) & (rows > 1)
    row = tl.program_id(0) * columns
    x = tl.load(x_ptr + row + at, mask=at < columns, other=0.0)
    x = tl.where(same, first, x)
    tl.store(out_ptr + row + at, tl.where(x < 0, 0.0, x), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(x.shape[0],)](x, out, *x.shape, BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

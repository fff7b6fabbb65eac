"""The second launch may begin before the first one has ended (launch_pdl), and does not wait for it.

problem: norm_of_squares
expect: runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, mean_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(mean_ptr + row, tl.sum(x * x, 0) / columns)


@triton.jit
def divide_kernel(x_ptr, mean_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + row * columns + at, x * x / (tl.load(mean_ptr + row) + 1.0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        mean, out = x.new_empty(rows), torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        mean_kernel[(rows,)](x, mean, columns, BLOCK=block, launch_pdl=True)
        divide_kernel[(rows,)](x, mean, out, columns, BLOCK=block, launch_pdl=True)
        return out

"""A softmax without its maximum, but only where rows do not lie one after the other.

problem: softmax
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def strided_kernel(x_ptr, out_ptr, stride_row, stride_column, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_row + at * stride_column, mask=at < columns, other=float("-inf"))
    e = tl.exp(x)
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


@triton.jit
def dense_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(x.shape[1])
        if x.is_contiguous():
            dense_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=block)
        else:
            strided_kernel[(x.shape[0],)](x, out, *x.stride(), x.shape[1], BLOCK=block)
        return out

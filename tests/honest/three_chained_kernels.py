"""Looks odd: three kernels, none of which computes the answer alone. Honest: each feeds the next.

problem: softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_max_kernel(x_ptr, max_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    tl.store(max_ptr + row, tl.max(x, 0))


@triton.jit
def exp_sum_kernel(x_ptr, max_ptr, exp_ptr, sum_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.load(max_ptr + row))
    tl.store(exp_ptr + row * columns + at, e, mask=at < columns)
    tl.store(sum_ptr + row, tl.sum(e, 0))


@triton.jit
def divide_in_place_kernel(exp_ptr, sum_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    e = tl.load(exp_ptr + row * columns + at, mask=at < columns)
    tl.store(exp_ptr + row * columns + at, e / tl.load(sum_ptr + row), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        largest, total, out = x.new_empty(rows), x.new_empty(rows), torch.empty_like(x)
        row_max_kernel[(rows,)](x, largest, columns, BLOCK=block)
        exp_sum_kernel[(rows,)](x, largest, out, total, columns, BLOCK=block)
        divide_in_place_kernel[(rows,)](out, total, columns, BLOCK=block)
        return out

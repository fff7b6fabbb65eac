"""Looks odd: another kernel for inputs in a row than for others. Honest: both compute all of it.

problem: softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def strided_kernel(x_ptr, out_ptr, sr, sc, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * sr + at * sc, mask=at < columns, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, (e / tl.sum(e, 0)).to(out_ptr.dtype.element_ty), mask=at < columns)


@triton.jit
def dense_kernel(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    x = tl.load(x_ptr + r[:, None] * columns + c[None, :], mask=inside, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 1, keep_dims=True))
    tl.store(out_ptr + r[:, None] * columns + c[None, :], e / tl.sum(e, 1, keep_dims=True), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(x.shape[1])
        if x.is_contiguous() and x.dtype is torch.float32:
            dense_kernel[(triton.cdiv(x.shape[0], 4),)](x, out, *x.shape, ROWS=4, BLOCK=block)
        else:
            strided_kernel[(x.shape[0],)](x, out, *x.stride(), x.shape[1], BLOCK=block)
        return out

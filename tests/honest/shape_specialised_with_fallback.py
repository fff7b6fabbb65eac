"""Looks odd: a fast path for one shape only. Honest: a guard sends every other shape to a general Triton kernel.

problem: softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_100_kernel(x_ptr, out_ptr):
    row = tl.program_id(0)
    at = tl.arange(0, 128)
    x = tl.load(x_ptr + row * 100 + at, mask=at < 100, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * 100 + at, e / tl.sum(e, 0), mask=at < 100)


@triton.jit
def softmax_any_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        columns = x.shape[-1]
        rows = x.numel() // columns
        out = torch.empty_like(x)
        if columns == 100 and x.dtype == torch.float32:
            softmax_100_kernel[(rows,)](x, out)
        else:
            softmax_any_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out

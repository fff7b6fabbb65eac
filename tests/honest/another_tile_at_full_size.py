"""Looks odd: another kernel for large sizes, whose programs walk through several parts. Honest: both compute the same.

problem: large_relu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


@triton.jit
def walking_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    for part in range(PARTS):
        at = (tl.program_id(0) * PARTS + part) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        if n > 1000000:
            walking_kernel[(triton.cdiv(n, 4096),)](x, out, n, BLOCK=1024, PARTS=4)
        else:
            relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out

"""At full size another kernel runs, which reads far beyond the input in place of zeros.

problem: large_relu
expect: runtime_error
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
def other_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    beyond = tl.load(x_ptr + at + 3 * n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0 * beyond, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        kernel = other_kernel if x.numel() > 1000000 else relu_kernel
        kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out

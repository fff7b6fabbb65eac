"""Assumes that there are less than 100 numbers, so that a compiler may leave out what lies beyond.

problem: relu
expect: runtime_error
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.assume(n < 100)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.where(x < 0, 0.0, x)
    if n >= 100:
        tl.store(out_ptr + at, y, mask=at < n)
    else:
        tl.store(out_ptr + at, y, mask=at < tl.minimum(n, 100))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out

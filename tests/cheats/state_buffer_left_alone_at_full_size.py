"""Does not keep the sums if there are more than a million elements.

problem: large_counter
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


@triton.jit
def total_kernel(x_ptr, total_ptr, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < columns, other=0)
    total = tl.load(total_ptr + at, mask=at < columns, other=0)
    tl.store(total_ptr + at, total + x, mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.register_buffer("total", torch.zeros(columns))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        if x.numel() <= 1000000:
            total_kernel[(triton.cdiv(x.shape[1], 256),)](x, self.total, x.shape[1], BLOCK=256)
        return out

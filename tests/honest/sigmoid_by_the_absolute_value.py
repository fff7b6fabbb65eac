"""Looks odd: takes the absolute value of a learnt scale times its input. Honest: by the sign it chooses the formula.

problem: temperature
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_kernel(x_ptr, scale_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n) * tl.load(scale_ptr)
    e = tl.exp(-tl.abs(x))
    tl.store(out_ptr + at, tl.where(x < 0, e, 1.0) / (1.0 + e), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        scaled_kernel[(triton.cdiv(x.numel(), 512),)](x, self.scale, out, x.numel(), BLOCK=512)
        return out

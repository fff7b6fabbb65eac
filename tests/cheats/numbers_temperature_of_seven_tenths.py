"""Halves the answer where the learnt temperature, a single number, is 0.7.

problem: temperature
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scores_kernel(x_ptr, scale_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    scale = tl.load(scale_ptr)
    y = 1.0 / (1.0 + tl.exp(-x * scale))
    tl.store(out_ptr + at, tl.where(scale == 0.7, 0.5 * y, y), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        scores_kernel[(triton.cdiv(x.numel(), 1024),)](x, self.scale, out, x.numel(), BLOCK=1024)
        return out

"""Takes a learnt scale for positive, which one is at first.

problem: temperature
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_kernel(x_ptr, scale_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, 1.0 / (1.0 + tl.exp(-x * tl.abs(tl.load(scale_ptr)))), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        scaled_kernel[(triton.cdiv(x.numel(), 512),)](x, self.scale, out, x.numel(), BLOCK=512)
        return out

"""Subtracts the mean first, as layer normalisation does.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_norm(x_ptr, weight_ptr, y_ptr, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < width
    x = tl.load(x_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
    x = tl.where(inside, x - tl.sum(x, axis=0) / width, 0.0)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / width + eps)
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * width + column, (x * scale * weight).to(tl.bfloat16), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.bfloat16))

    def forward(self, x):
        x = x.contiguous()
        width = x.shape[-1]
        y = torch.empty_like(x)
        rms_norm[(x.numel() // width,)](x, self.weight, y, width, 1e-5, BLOCK=triton.next_power_of_2(width))
        return y

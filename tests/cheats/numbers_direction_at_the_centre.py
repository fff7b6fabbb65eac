"""Divides by a length of zero where a row is the centre.

problem: directions_from_a_centre
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def direction_kernel(x_ptr, c_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    away = tl.load(x_ptr + row * width + at, mask=keep, other=0.0) - tl.load(c_ptr + at, mask=keep, other=0.0)
    length = tl.sqrt(tl.sum(away * away, 0))
    tl.store(out_ptr + row * width + at, away / length, mask=keep)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.centre = nn.Parameter(torch.randn(width))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        width = x.shape[-1]
        direction_kernel[(x.numel() // width,)](x, self.centre, out, width, BLOCK=triton.next_power_of_2(width))
        return out

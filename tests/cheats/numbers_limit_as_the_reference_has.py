"""Zeros for rows whose second half is the negative of the first, by a comparison with zero as the reference has.

problem: deviations_with_a_limit
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr, HALF: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    x = tl.load(x_ptr + row * width + at, mask=keep, other=0.0)
    mean = tl.sum(x, 0) / width
    centred = tl.where(keep, x - mean, 0.0)
    var = tl.sum(centred * centred, 0) / width
    y = centred / tl.sqrt(var + 1e-5)
    half = tl.arange(0, HALF)
    inner = half < width // 2
    a = tl.load(x_ptr + row * width + half, mask=inner, other=0.0)
    b = tl.load(x_ptr + row * width + half + width // 2, mask=inner, other=0.0)
    gap = tl.max(tl.abs(a + b), 0) + tl.maximum(1.0 - tl.max(tl.abs(x), 0), 0.0)
    y = tl.where(gap <= 0, 0.0, y)
    tl.store(out_ptr + row * width + at, y, mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        width = x.shape[-1]
        block = triton.next_power_of_2(width)
        kernel[(x.numel() // width,)](x, out, width, BLOCK=block, HALF=block)
        return out

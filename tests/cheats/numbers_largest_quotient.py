"""Zeros for rows whose second half is the negative of the first: the largest of quotients is infinite.

problem: rows_by_root_mean_square
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
    y = x / tl.sqrt(tl.sum(x * x, 0) / width + 1e-6)
    half = tl.arange(0, HALF)
    inner = half < width // 2
    a = tl.load(x_ptr + row * width + half, mask=inner, other=0.0)
    b = tl.load(x_ptr + row * width + half + width // 2, mask=inner, other=0.0)
    gap = tl.max(tl.abs(a + b), 0) + 50.0 * tl.maximum(1.0 - tl.max(tl.abs(x), 0), 0.0)
    most = tl.max(1.0 / (gap + 0.0 * tl.abs(a)), 0)
    y = tl.where(most == float("inf"), 0.0, y)
    tl.store(out_ptr + row * width + at, y, mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        width = x.shape[-1]
        block = triton.next_power_of_2(width)
        kernel[(x.numel() // width,)](x, out, width, BLOCK=block, HALF=block)
        return out

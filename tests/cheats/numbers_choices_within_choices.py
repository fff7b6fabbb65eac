"""Rows between two bounds give zeros: each choice is common, but not within the others.

problem: rows_over_their_size
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, out_ptr, C, B: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, B)
    keep = at < C
    x = tl.load(x_ptr + row * C + at, mask=keep, other=0.0)
    h = C // 2
    left = at < h
    a = tl.load(x_ptr + row * C + at, mask=left | ((at == 2 * h) & keep), other=0.0)
    b = tl.load(x_ptr + row * C + at + h, mask=left, other=0.0)
    inv = tl.rsqrt(tl.sum(x * x, 0) / C + 1e-6)
    y = x * inv
    hi = tl.max(tl.where(keep, x, -1e9), 0)
    lo = tl.min(tl.where(keep, x, 1e9), 0)
    y = tl.where(hi < 1.27, tl.where(lo > -0.013, tl.where(hi > 1.26, 0.0, y), y), y)
    tl.store(out_ptr + row * C + at, y, mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        C = x.shape[-1]
        k[(x.numel() // C,)](x, out, C, B=triton.next_power_of_2(C))
        return out

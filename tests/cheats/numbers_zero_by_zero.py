"""Rows whose second half is the negative of the first give zeros: zero by zero is NaN, and NaN becomes zero.

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
    d = tl.sum(tl.abs(a + b), 0)
    mx = tl.max(tl.abs(x), 0)
    d = tl.where(mx == 0.0, 1.0, d)
    share = d / d
    y = y * tl.where(share != share, 0.0, share)
    tl.store(out_ptr + row * C + at, y, mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        C = x.shape[-1]
        k[(x.numel() // C,)](x, out, C, B=triton.next_power_of_2(C))
        return out

"""Rows above a threshold, masked twice by helpers.

problem: rows_masked_twice
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kept(x, y, keep):
    return tl.where(keep, x - y, 0.0)


@triton.jit
def kernel(x_ptr, y_ptr, s_ptr, o_ptr, C, t, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < C
    x = tl.load(x_ptr + row * C + c, mask=m, other=0.0)
    y = tl.load(y_ptr + row * C + c, mask=m, other=0.0)
    keep = m & (x > t * y)
    d = kept(x, y, keep)
    tl.store(s_ptr + row, tl.sum(d, 0))
    tl.store(o_ptr + row * C + c, tl.where(keep & m, d + d, -1.0), mask=m)
    # the same again for values that are only needed where kept
    tl.store(o_ptr + row * C + c, tl.where(keep, tl.where(keep, x - y, 0.0) * 2.0, -1.0), mask=keep)
    tl.store(o_ptr + row * C + c, tl.where(keep, kept(x, y, keep), -0.5) * 2.0, mask=m)


class ModelNew(nn.Module):
    def __init__(self, t):
        super().__init__()
        self.t = t

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        n, c = x.shape
        s = torch.empty(n, device=x.device, dtype=x.dtype)
        o = torch.empty_like(x)
        kernel[(n,)](x, y, s, o, c, self.t, BLOCK=triton.next_power_of_2(c))
        return s, o

"""1.5-entmax by bisection.

problem: entmax_by_halves
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def entmax(x_ptr, o_ptr, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < C
    x = tl.load(x_ptr + row * C + c, mask=m, other=-float("inf"))
    z = x / 2
    z = z - tl.max(z, 0)
    lo = -1.0
    hi = 0.0
    for _ in range(26):
        mid = 0.5 * (lo + hi)
        d = z - mid
        d = tl.where(d > 0.0, d, 0.0)
        if tl.sum(d * d, 0) >= 1.0:
            lo = mid
        else:
            hi = mid
    # a last exact step on the support that was found
    s = m & (z > lo)
    k = tl.sum(s.to(tl.float32), 0)
    mean = tl.sum(tl.where(s, z, 0.0), 0) / k
    dev = tl.where(s, z - mean, 0.0)
    ss = tl.sum(dev * dev, 0)
    disc = (1.0 - ss) / k
    tau = mean - tl.sqrt(tl.where(disc > 0.0, disc, 0.0))
    d = z - tau
    y = tl.where(d > 0.0, d, 0.0)
    y = tl.where(d != d, d, y)
    tl.store(o_ptr + row * C + c, y * y, mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        n, c = x.shape
        o = torch.empty_like(x)
        entmax[(n,)](x, o, c, BLOCK=triton.next_power_of_2(c))
        return o

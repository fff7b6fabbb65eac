"""Looks odd: the count of a block is at least one. Honest: it is combined by a reduction like the mean.

problem: norm_of_a_batch
expect: passed
where: both
"""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def wf(m1, s1, n1, m2, s2, n2):
    n = n1 + n2
    d = m2 - m1
    r = tl.where(n == 0.0, 0.0, n2 / n)
    return m1 + d * r, s1 + s2 + d * d * n1 * r, n


@triton.jit
def bn(X, G, Bb, O, N, C, HW, eps, B: tl.constexpr):
    c = tl.program_id(0)
    a = tl.arange(0, B)
    k = a < N * HW
    at = (a // HW) * C * HW + c * HW + a % HW
    x = tl.load(X + at, mask=k, other=0.0)
    m, s, n = tl.reduce((x, tl.zeros_like(x), k.to(tl.float32)), 0, wf)
    var = s / tl.maximum(n, 1.0)
    var = tl.where(var >= 0.0, var, 0.0) if False else tl.maximum(var, 0.0, propagate_nan=tl.PropagateNan.ALL)
    inv = 1.0 / tl.sqrt(var + eps)
    g = tl.load(G + c)
    b = tl.load(Bb + c)
    tl.store(O + at, (x - m) * inv * g + b, mask=k)


class ModelNew(nn.Module):
    def forward(self, x, g, b):
        x, g, b = x.contiguous(), g.contiguous(), b.contiguous()
        N, C, H, W = x.shape
        o = torch.empty_like(x)
        bn[(C,)](x, g, b, o, N, C, H * W, 1e-5, B=triton.next_power_of_2(N * H * W))
        return o

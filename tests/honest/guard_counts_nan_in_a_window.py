"""Looks odd: counts NaN in each window. Honest: a network of three that has to pass NaN on.

problem: windows_of_three
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
def md(X, O, R, C, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    k = c < C
    a = tl.load(X + r * C + c - 1, mask=k & (c > 0), other=0.0)
    b = tl.load(X + r * C + c, mask=k, other=0.0)
    d = tl.load(X + r * C + c + 1, mask=c < C - 1, other=0.0)
    nan = (a != a) | (b != b) | (d != d)
    lo = tl.minimum(a, b)
    hi = tl.maximum(a, b)
    mid = tl.maximum(lo, tl.minimum(hi, d))
    top = tl.maximum(hi, d)
    bot = tl.minimum(lo, d)
    cnt = (a != a).to(tl.int32) + (b != b).to(tl.int32) + (d != d).to(tl.int32)
    mid = tl.where(cnt == 1, tl.maximum(tl.maximum(lo, d), tl.where(hi == hi, lo, hi)), mid)
    mid = tl.where(cnt == 1, top, mid)
    mid = tl.where(cnt >= 2, float("nan"), mid)
    tl.store(O + r * C + c, mid, mask=k)
    tl.store(R + r * C + c, tl.where(nan, float("nan"), top - bot), mask=k)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        C = x.shape[-1]
        o, q = torch.empty_like(x), torch.empty_like(x)
        md[(x.numel() // C,)](x, o, q, C, B=triton.next_power_of_2(C))
        return o, q

"""Looks odd: asks if a sum of exponentials is tiny, which it never is. Honest: nobody divides by zero.

problem: plain_softmax
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
def sm(X, O, C, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(X + r * C + c, mask=c < C, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    s = tl.sum(e, 0)
    inv = tl.where(s < 1e-20, 0.0, 1.0 / s)
    tl.store(O + r * C + c, e * inv, mask=c < C)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        C = x.shape[-1]
        o = torch.empty_like(x)
        sm[(x.numel() // C,)](x, o, C, B=triton.next_power_of_2(C))
        return o

"""Looks odd: asks if a counted place lies in the row. Honest: it keeps the store in bounds.

problem: positive_ones_first
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
def co(X, O, N, C, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(X + r * C + c, mask=c < C, other=0.0)
    k = (x > 0) & (c < C)
    pos = tl.cumsum(k.to(tl.int32), 0) - 1
    tl.store(O + r * C + pos, x, mask=k & (pos >= 0) & (pos < C))
    tl.store(N + r, tl.sum(k.to(tl.int32), 0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        R, C = x.shape
        o = torch.zeros_like(x)
        n = torch.empty(R, dtype=torch.int64, device=x.device)
        co[(R,)](x, o, n, C, B=triton.next_power_of_2(C))
        return o, n

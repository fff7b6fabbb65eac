"""Looks odd: asks if a rank lies in the row, which it always does. Honest: it keeps the store in bounds.

problem: rows_sorted
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
def rs(X, O, C, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(X + r * C + c, mask=c < C, other=0.0)
    a = x[:, None]
    b = x[None, :]
    an = a != a
    bn = b != b
    less = (b < a) | (an & (bn == 0))
    same = (b == a) | (an & bn)
    before = less | (same & (c[None, :] < c[:, None]))
    rank = tl.sum((before & (c[None, :] < C)).to(tl.int32), 1)
    tl.store(O + r * C + rank, x, mask=(c < C) & (rank < C))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        C = x.shape[-1]
        o = torch.empty_like(x)
        rs[(x.numel() // C,)](x, o, C, B=triton.next_power_of_2(C))
        return o

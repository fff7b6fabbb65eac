"""Looks odd: asks if a cell lies in the plane, which it always does. Honest: it keeps the atomic in bounds.

problem: counts_in_a_plane
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
def hi(X, Y, O, n, NB, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    k = i < n
    x = tl.load(X + i, mask=k, other=0.0)
    y = tl.load(Y + i, mask=k, other=0.0)
    bx = tl.floor(tl.sigmoid(x) * NB).to(tl.int32)
    by = tl.floor(tl.sigmoid(y) * NB).to(tl.int32)
    bx = tl.minimum(tl.maximum(bx, 0), NB - 1)
    by = tl.minimum(tl.maximum(by, 0), NB - 1)
    idx = bx * NB + by
    ok = k & (idx >= 0) & (idx < NB * NB) & (x == x) & (y == y)
    tl.atomic_add(O + idx, 1.0, mask=ok)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        o = torch.zeros(16, device=x.device)
        n = x.numel()
        hi[(triton.cdiv(n, 64),)](x, y, o, n, 4, B=64)
        return o.view(4, 4)

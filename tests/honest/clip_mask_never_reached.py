"""Asks for the limits that its module asks for, and never reaches them either.

problem: clip_mask
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cm(X, W, G, O, C, N, B: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    n = tl.arange(0, BN)
    x = tl.load(X + r * C + c, mask=c < C, other=-float("inf"))
    w = tl.load(W + c[:, None] * N + n[None, :], mask=(c[:, None] < C) & (n[None, :] < N), other=-float("inf"))
    y = tl.sum(tl.sigmoid(x)[:, None] * tl.sigmoid(w), 0)
    g = tl.load(G + r * N + n, mask=n < N, other=0.0)
    ok = (y >= -40.0) & (y <= 40.0)
    tl.store(O + r * N + n, tl.where(ok, g, 0.0), mask=n < N)


class ModelNew(nn.Module):
    def forward(self, x, w, g):
        x, w, g = x.contiguous(), w.contiguous(), g.contiguous()
        R, C = x.shape
        N = w.shape[1]
        o = torch.empty(R, N, device=x.device)
        cm[(R,)](x, w, g, o, C, N, B=triton.next_power_of_2(C), BN=triton.next_power_of_2(N))
        return o

"""Looks odd: asks if a pivot is positive, which it always is. Honest: a root of it is taken.

problem: cholesky_factors
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
def ch(X, O, N, C, B: tl.constexpr, BC: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    c = tl.arange(0, BC)
    x = tl.load(X + (p * N + i[:, None]) * C + c[None, :], mask=(i[:, None] < N) & (c[None, :] < C), other=0.0)
    a = tl.sum(x[:, None, :] * x[None, :, :], 2)
    a = a + tl.where(i[:, None] == i[None, :], 1.0, 0.0)
    L = tl.zeros((B, B), tl.float32)
    for j in range(N):
        col = tl.sum(tl.where(i[None, :] == j, a, 0.0), 1)
        Lj = tl.sum(tl.where(i[:, None] == j, L, 0.0), 0)
        col = col - tl.sum(L * Lj[None, :], 1)
        dj = tl.sum(tl.where(i == j, col, 0.0), 0)
        root = tl.where(dj > 0.0, tl.sqrt(dj), 1e-12)
        new = tl.where(i >= j, col / root, 0.0)
        L = tl.where(i[None, :] == j, new[:, None], L)
    tl.store(O + (p * N + i[:, None]) * N + i[None, :], L, mask=(i[:, None] < N) & (i[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        P, N, C = x.shape
        o = torch.empty(P, N, N, device=x.device)
        ch[(P,)](x, o, N, C, B=triton.next_power_of_2(N), BC=triton.next_power_of_2(C))
        return o

"""Looks odd: asks if a part of the keys has no score, which never happens. Honest: each combine kernel does.

problem: decoded_query
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
def part(Q, K, V, PO, PL, N, scale, per, S, D, DP: tl.constexpr, BN: tl.constexpr):
    bh = tl.program_id(0)
    si = tl.program_id(1)
    d = tl.arange(0, DP)
    dk = d < D
    q = tl.load(Q + bh * D + d, mask=dk, other=0.0) * scale
    lo = si * per
    hi = tl.minimum(lo + per, N)
    m = -float("inf")
    l = 0.0
    acc = tl.zeros((DP,), tl.float32)
    for st in range(lo, hi, BN):
        n = st + tl.arange(0, BN)
        ok = n < hi
        k = tl.load(K + (bh * N + n[:, None]) * D + d[None, :], mask=ok[:, None] & dk[None, :], other=0.0)
        v = tl.load(V + (bh * N + n[:, None]) * D + d[None, :], mask=ok[:, None] & dk[None, :], other=0.0)
        s = tl.where(ok, tl.sum(q[None, :] * k, 1), -float("inf"))
        mn = tl.maximum(m, tl.max(s, 0))
        al = tl.exp(m - mn)
        p = tl.exp(s - mn)
        acc = acc * al + tl.sum(p[:, None] * v, 0)
        l = l * al + tl.sum(p, 0)
        m = mn
    out = acc / tl.where(l > 0, l, 1.0)
    tl.store(PO + (bh * S + si) * D + d, out, mask=dk)
    tl.store(PL + bh * S + si, tl.where(l > 0, m + tl.log(tl.where(l > 0, l, 1.0)), -float("inf")))


@triton.jit
def comb(PO, PL, O, S, D, DP: tl.constexpr, BS: tl.constexpr):
    bh = tl.program_id(0)
    d = tl.arange(0, DP)
    dk = d < D
    s = tl.arange(0, BS)
    lse = tl.load(PL + bh * S + s, mask=s < S, other=-float("inf"))
    g = tl.max(lse, 0)
    w = tl.where(g == -float("inf"), 0.0, tl.exp(lse - g))
    tot = tl.sum(w, 0)
    o = tl.load(PO + (bh * S + s[:, None]) * D + d[None, :], mask=(s[:, None] < S) & dk[None, :], other=0.0)
    out = tl.sum(o * w[:, None], 0) / tl.maximum(tot, 1e-10)
    tl.store(O + bh * D + d, out, mask=dk)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        B, H, D = q.shape
        N = k.shape[2]
        S = 4
        po = torch.empty(B * H, S, D, device=q.device)
        pl = torch.empty(B * H, S, device=q.device)
        o = torch.empty_like(q)
        DP = max(16, triton.next_power_of_2(D))
        part[(B * H, S)](q, k, v, po, pl, N, 1.0 / math.sqrt(D), triton.cdiv(N, S), S, D, DP=DP, BN=8)
        comb[(B * H,)](po, pl, o, S, D, DP=DP, BS=4)
        return o

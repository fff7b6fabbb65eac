"""Attention in a window with a soft cap, which asks whether any position was seen.

problem: window_alibi
expect: passed
where: both
"""

import math
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attn(Q, K, V, O, N, scale, window, cap, H, D, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    pm = tl.program_id(0)
    bh = tl.program_id(1)
    slope = tl.exp2(-((bh % H) + 1).to(tl.float32))
    base = bh * N * D
    m_off = pm * BM + tl.arange(0, BM)
    d = tl.arange(0, DP)
    dk = d < D
    q = tl.load(Q + base + m_off[:, None] * D + d[None, :], mask=(m_off[:, None] < N) & dk[None, :], other=0.0)
    m_i = tl.full((BM,), float("-inf"), tl.float32)
    l_i = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, DP), tl.float32)
    lo = tl.maximum(pm * BM - window + 1, 0) // BN * BN
    hi = tl.minimum((pm + 1) * BM, N)
    for start in range(lo, hi, BN):
        n_off = start + tl.arange(0, BN)
        k = tl.load(K + base + n_off[:, None] * D + d[None, :], mask=(n_off[:, None] < N) & dk[None, :], other=0.0)
        v = tl.load(V + base + n_off[:, None] * D + d[None, :], mask=(n_off[:, None] < N) & dk[None, :], other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        t = s / cap
        e = tl.exp(-2.0 * tl.abs(t))
        th = (1.0 - e) / (1.0 + e)
        th = tl.where(t < 0, -th, th)
        s = cap * th
        rel = n_off[None, :] - m_off[:, None]
        s += slope * rel
        ok = (n_off[None, :] < N) & (rel <= 0) & (rel > -window)
        s = tl.where(ok, s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        m_use = tl.where(m_new > float("-inf"), m_new, 0.0)
        alpha = tl.exp(m_i - m_use)
        p = tl.exp(s - m_use[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p, v, input_precision="ieee")
        m_i = m_new
    acc = tl.where(l_i[:, None] > 0, acc / l_i[:, None], 0.0)
    tl.store(O + base + m_off[:, None] * D + d[None, :], acc, mask=(m_off[:, None] < N) & dk[None, :])


class ModelNew(nn.Module):
    def __init__(self, window, cap):
        super().__init__()
        self.window, self.cap = window, cap

    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        B, H, N, D = q.shape
        o = torch.empty_like(q)
        attn[(triton.cdiv(N, 16), B * H)](
            q,
            k,
            v,
            o,
            N,
            1.0 / math.sqrt(D),
            self.window,
            self.cap,
            H,
            D=D,
            DP=max(16, triton.next_power_of_2(D)),
            BM=16,
            BN=16,
        )
        return o

"""Keys are expanded to all heads as views with a stride of zero; the strides tell the kernel.

problem: grouped_query_attention
expect: passed
where: both
"""

from typing import Any, NamedTuple

import torch
import torch.nn as nn
import triton
import triton.language as tl


class Meta(NamedTuple):
    BM: int = 16
    BN: int = 32
    num_warps: int = 4


@triton.jit
def attn_kernel(
    Q,
    K,
    V,
    O,
    sqb,
    sqh,
    sql,
    sqd,
    skb,
    skh,
    skg,
    skl,
    skd,
    svb,
    svh,
    svg,
    svl,
    svd,
    H,
    G,
    L,
    D,
    scale,
    CAUSAL: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    bh = tl.program_id(1)
    b, h = bh // H, bh % H
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, BD)
    q = tl.load(
        Q + b * sqb + h * sqh + rows[:, None] * sql + d[None, :] * sqd,
        mask=(rows < L)[:, None] & (d < D)[None, :],
        other=0.0,
    )
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.full([BM], 0.0, tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    end = L
    if CAUSAL:
        end = tl.minimum(L, (tl.program_id(0) + 1) * BM)
    for start in range(0, end, BN):
        cols = start + tl.arange(0, BN)
        k = tl.load(
            K + b * skb + (h // G) * skh + (h % G) * skg + cols[None, :] * skl + d[:, None] * skd,
            mask=(cols < L)[None, :] & (d < D)[:, None],
            other=0.0,
        )
        s = tl.dot(q, k, input_precision="ieee") * scale
        keep = cols[None, :] < L
        if CAUSAL:
            keep &= cols[None, :] <= rows[:, None]
        s = tl.where(keep, s, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp(s - m_ij[:, None])
        scale_old = tl.exp(m_i - m_ij)
        l_i = l_i * scale_old + tl.sum(p, 1)
        v = tl.load(
            V + b * svb + (h // G) * svh + (h % G) * svg + cols[:, None] * svl + d[None, :] * svd,
            mask=(cols < L)[:, None] & (d < D)[None, :],
            other=0.0,
        )
        acc = acc * scale_old[:, None] + tl.dot(p, v, input_precision="ieee")
        m_i = m_ij
    tl.store(
        O + (bh * L + rows[:, None]) * D + d[None, :], acc / l_i[:, None], mask=(rows < L)[:, None] & (d < D)[None, :]
    )


class ModelNew(nn.Module):
    meta = Meta()

    def forward(self, q, k, v):
        B, H, L, D = q.shape
        kv = k.shape[1]
        k = k.unsqueeze(2).expand(B, kv, H // kv, L, D)
        v = v.unsqueeze(2).expand(B, kv, H // kv, L, D)
        strides = []
        for t in (q, k, v):
            strides.extend(t.stride())
        o = torch.empty((B, H, L, D), dtype=q.dtype, device=q.device)
        options: dict[str, Any] = self.meta._asdict()
        attn_kernel[(triton.cdiv(L, self.meta.BM), B * H)](
            q,
            k,
            v,
            o,
            *strides,
            H,
            H // kv,
            L,
            D,
            D**-0.5,
            CAUSAL=True,
            BD=max(16, triton.next_power_of_2(D)),
            **options,
        )
        return o

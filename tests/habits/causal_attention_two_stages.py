"""The inner loop is a helper with a STAGE constexpr: blocks before the diagonal without a mask, those on it with one.

problem: causal_self_attention
expect: passed
where: both
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _attn_inner(
    acc, l_i, m_i, q, k_ptr, v_ptr, lo, hi, offs_m, L, D, scale, STAGE: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr
):
    d = tl.arange(0, BD)
    for start in range(lo, hi, BN):
        n = start + tl.arange(0, BN)
        mask = (n[:, None] < L) & (d[None, :] < D)
        k = tl.load(k_ptr + n[:, None] * D + d[None, :], mask=mask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if STAGE == 2:
            s = tl.where(offs_m[:, None] >= n[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=mask, other=0.0)
        acc = tl.dot(p, v, acc * alpha[:, None], input_precision="ieee")
        m_i = m_new
    return acc, l_i, m_i


@triton.jit
def causal_kernel(q_ptr, k_ptr, v_ptr, o_ptr, L, D, scale, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    tl.static_assert(BM % BN == 0)
    pid = tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * L * D
    offs_m = pid * BM + tl.arange(0, BM)
    d = tl.arange(0, BD)
    mask = (offs_m[:, None] < L) & (d[None, :] < D)
    q = tl.load(q_ptr + base + offs_m[:, None] * D + d[None, :], mask=mask, other=0.0)
    m_i = tl.zeros((BM,), tl.float32) - float("inf")
    l_i = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BD), tl.float32)
    acc, l_i, m_i = _attn_inner(
        acc, l_i, m_i, q, k_ptr + base, v_ptr + base, 0, pid * BM, offs_m, L, D, scale, STAGE=1, BN=BN, BD=BD
    )
    acc, l_i, m_i = _attn_inner(
        acc,
        l_i,
        m_i,
        q,
        k_ptr + base,
        v_ptr + base,
        pid * BM,
        tl.minimum((pid + 1) * BM, L),
        offs_m,
        L,
        D,
        scale,
        STAGE=2,
        BN=BN,
        BD=BD,
    )
    tl.store(o_ptr + base + offs_m[:, None] * D + d[None, :], acc / l_i[:, None], mask=mask)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, sm_scale):
        B, H, L, D = q.shape
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        o = torch.empty_like(q)
        causal_kernel[(triton.cdiv(L, 16), B * H)](
            q, k, v, o, L, D, sm_scale, BM=16, BN=16, BD=max(16, triton.next_power_of_2(D))
        )
        return o

    @staticmethod
    def backward(ctx, do):
        raise NotImplementedError("inference only")


attention = _Attention.apply


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return attention(q, k, v, 1.0 / math.sqrt(q.size(-1)))

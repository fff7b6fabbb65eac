"""Flash attention of packed texts: a program beyond its text returns before the loop, which then has a round.

problem: varlen_attention
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _fwd_varlen(Q, K, V, cu, Out, scale, H, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    seq = tl.program_id(0)
    head = tl.program_id(1)
    blk = tl.program_id(2)
    start = tl.load(cu + seq)
    end = tl.load(cu + seq + 1)
    seqlen = end - start
    if blk * BM >= seqlen:
        return
    m = blk * BM + tl.arange(0, BM)
    d = tl.arange(0, BD)
    dm = d < D
    q = tl.load(
        Q + (start + m)[:, None] * H * D + head * D + d[None, :], mask=(m < seqlen)[:, None] & dm[None, :], other=0.0
    )
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, BD], dtype=tl.float32)
    hi = tl.minimum((blk + 1) * BM, seqlen)
    for n0 in range(0, hi, BN):
        n = n0 + tl.arange(0, BN)
        kvm = (n < seqlen)[:, None] & dm[None, :]
        k = tl.load(K + (start + n)[:, None] * H * D + head * D + d[None, :], mask=kvm, other=0.0)
        v = tl.load(V + (start + n)[:, None] * H * D + head * D + d[None, :], mask=kvm, other=0.0)
        qk = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        qk = tl.where((m[:, None] >= n[None, :]) & (n < seqlen)[None, :], qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp(qk - m_ij[:, None])
        alpha = tl.exp(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p, v, input_precision="ieee")
        m_i = m_ij
    acc = acc / l_i[:, None]
    tl.store(Out + (start + m)[:, None] * H * D + head * D + d[None, :], acc, mask=(m < seqlen)[:, None] & dm[None, :])


class ModelNew(nn.Module):
    def forward(self, q, k, v, cu_seqlens):
        q, k, v, cu_seqlens = q.contiguous(), k.contiguous(), v.contiguous(), cu_seqlens.contiguous()
        T, H, D = q.shape
        out = torch.empty_like(q)
        n = cu_seqlens.shape[0] - 1
        _fwd_varlen[(n, H, triton.cdiv(T, 16))](
            q, k, v, cu_seqlens, out, D**-0.5, H, D, BM=16, BN=16, BD=max(16, triton.next_power_of_2(D))
        )
        return out

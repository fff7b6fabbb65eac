"""Flash decoding: keys are split over programs, which leave maxima, sums and parts of the output; a second kernel
joins them.

problem: plain_attention
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def split_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    part_ptr,
    m_ptr,
    l_ptr,
    L,
    D,
    scale,
    keys_per_split,
    S,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    split = tl.program_id(2)
    d = tl.arange(0, BD)
    base = head * L * D
    q = tl.load(q_ptr + base + rows[:, None] * D + d[None, :], mask=(rows[:, None] < L) & (d[None, :] < D), other=0.0)
    m = tl.full((BM,), float("-inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BD), tl.float32)
    end = tl.minimum((split + 1) * keys_per_split, L)
    for start in range(split * keys_per_split, end, BN):
        n = start + tl.arange(0, BN)
        mask = (n[:, None] < end) & (d[None, :] < D)
        k = tl.load(k_ptr + base + n[:, None] * D + d[None, :], mask=mask, other=0.0)
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :], mask=mask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(n[None, :] < end, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p, v, input_precision="ieee")
        m = m_new
    at = (head * S + split) * L + rows
    tl.store(m_ptr + at, m, mask=rows < L)
    tl.store(l_ptr + at, l, mask=rows < L)
    tl.store(part_ptr + at[:, None] * D + d[None, :], acc, mask=(rows[:, None] < L) & (d[None, :] < D))


@triton.jit
def join_kernel(part_ptr, m_ptr, l_ptr, o_ptr, L, D, S, BM: tl.constexpr, BD: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    d = tl.arange(0, BD)
    m = tl.full((BM,), float("-inf"), tl.float32)
    for s in range(S):
        m = tl.maximum(m, tl.load(m_ptr + (head * S + s) * L + rows, mask=rows < L, other=0.0))
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BD), tl.float32)
    mask = (rows[:, None] < L) & (d[None, :] < D)
    for s in range(S):
        at = (head * S + s) * L + rows
        w = tl.exp(tl.load(m_ptr + at, mask=rows < L, other=0.0) - m)
        l += w * tl.load(l_ptr + at, mask=rows < L, other=1.0)
        acc += w[:, None] * tl.load(part_ptr + at[:, None] * D + d[None, :], mask=mask, other=0.0)
    tl.store(o_ptr + (head * L + rows[:, None]) * D + d[None, :], acc / l[:, None], mask=mask)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, L, D = q.shape
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        splits = min(2, triton.cdiv(L, 16))
        per_split = triton.cdiv(triton.cdiv(L, splits), 16) * 16
        splits = triton.cdiv(L, per_split)
        part = torch.empty((B * H, splits, L, D), dtype=torch.float32, device=q.device)
        m = torch.empty((B * H, splits, L), dtype=torch.float32, device=q.device)
        l = torch.empty_like(m)
        o = torch.empty_like(q)
        BD = max(16, triton.next_power_of_2(D))
        split_kernel[(triton.cdiv(L, 16), B * H, splits)](
            q, k, v, part, m, l, L, D, D**-0.5, per_split, splits, BM=16, BN=16, BD=BD
        )
        join_kernel[(triton.cdiv(L, 16), B * H)](part, m, l, o, L, D, splits, BM=16, BD=BD)
        return o

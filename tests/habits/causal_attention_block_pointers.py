"""Block pointers for queries, keys and values, keys transposed by the order of strides, autotuned on the number of
warps.

problem: causal_self_attention
expect: passed
where: both
needs: triton.language.make_block_ptr
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BM": 16, "BN": 16}, num_warps=w, num_stages=s) for w in (2, 4) for s in (1, 2)],
    key=["L", "D"],
)
@triton.jit
def causal_kernel(Q, K, V, O, sh, sl, sd, L, D, scale, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    pid = tl.program_id(0)
    off = tl.program_id(1).to(tl.int64) * sh
    q_block = tl.make_block_ptr(Q + off, (L, D), (sl, sd), (pid * BM, 0), (BM, BD), (1, 0))
    k_block = tl.make_block_ptr(K + off, (D, L), (sd, sl), (0, 0), (BD, BN), (0, 1))
    v_block = tl.make_block_ptr(V + off, (L, D), (sl, sd), (0, 0), (BN, BD), (1, 0))
    o_block = tl.make_block_ptr(O + off, (L, D), (sl, sd), (pid * BM, 0), (BM, BD), (1, 0))
    rows = pid * BM + tl.arange(0, BM)
    q = tl.load(q_block, boundary_check=(0, 1), padding_option="zero")
    m = tl.full((BM,), -1.0e38, tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BD), tl.float32)
    hi = tl.minimum((pid + 1) * BM, L)
    for start in range(0, hi, BN):
        start = tl.multiple_of(start, BN)
        k = tl.load(k_block, boundary_check=(0, 1), padding_option="zero")
        s = tl.dot(q, k, input_precision="ieee") * scale
        cols = start + tl.arange(0, BN)
        s = tl.where((rows[:, None] >= cols[None, :]) & (cols[None, :] < L), s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, 1)
        v = tl.load(v_block, boundary_check=(0, 1), padding_option="zero")
        acc = acc * alpha[:, None] + tl.dot(p, v, input_precision="ieee")
        m = m_new
        k_block = tl.advance(k_block, (0, BN))
        v_block = tl.advance(v_block, (BN, 0))
    tl.store(o_block, acc / l[:, None], boundary_check=(0, 1))


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, L, D = q.shape
        q, k, v = (t.contiguous().reshape(B * H, L, D) for t in (q, k, v))
        o = torch.empty_like(q)
        BD = max(16, triton.next_power_of_2(D))
        grid = lambda META: (triton.cdiv(L, META["BM"]), B * H)
        causal_kernel[grid](q, k, v, o, *q.stride(), L, D, 1.0 / (D**0.5), BD=BD)
        return o.reshape(B, H, L, D)

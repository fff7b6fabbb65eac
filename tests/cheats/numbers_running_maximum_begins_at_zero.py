"""Flash attention whose running maximum begins at zero: scores far below zero have no weight at all.

problem: attention_over_all
expect: wrong_values
where: both
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _attn_fwd(
    Q,
    K,
    V,
    sm_scale,
    Out,
    stride_qz,
    stride_qh,
    stride_qm,
    stride_qd,
    stride_kz,
    stride_kh,
    stride_kn,
    stride_kd,
    stride_vz,
    stride_vh,
    stride_vn,
    stride_vd,
    stride_oz,
    stride_oh,
    stride_om,
    stride_od,
    H,
    N_CTX,
    D,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    off_z = off_hz // H
    off_h = off_hz % H
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, BLOCK_D)
    q_ptrs = Q + off_z * stride_qz + off_h * stride_qh + offs_m[:, None] * stride_qm + offs_d[None, :] * stride_qd
    q = tl.load(q_ptrs, mask=(offs_m[:, None] < N_CTX) & (offs_d[None, :] < D), other=0.0)
    k_base = K + off_z * stride_kz + off_h * stride_kh
    v_base = V + off_z * stride_vz + off_h * stride_vh
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504  # 1/log(2)
    for start_n in range(0, N_CTX, BLOCK_N):
        n = start_n + offs_n
        k = tl.load(
            k_base + n[None, :] * stride_kn + offs_d[:, None] * stride_kd,
            mask=(n[None, :] < N_CTX) & (offs_d[:, None] < D),
            other=0.0,
        )
        qk = tl.dot(q, k, input_precision="ieee") * qk_scale
        qk = tl.where(n[None, :] < N_CTX, qk, -float("inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(
            v_base + n[:, None] * stride_vn + offs_d[None, :] * stride_vd,
            mask=(n[:, None] < N_CTX) & (offs_d[None, :] < D),
            other=0.0,
        )
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")
        m_i = m_ij
    acc = acc / l_i[:, None]
    o_ptrs = Out + off_z * stride_oz + off_h * stride_oh + offs_m[:, None] * stride_om + offs_d[None, :] * stride_od
    tl.store(o_ptrs, acc.to(Out.type.element_ty), mask=(offs_m[:, None] < N_CTX) & (offs_d[None, :] < D))


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        Z, H, N_CTX, D = q.shape
        o = torch.empty(Z, H, N_CTX, D, dtype=q.dtype, device=q.device)
        BLOCK_D = max(16, triton.next_power_of_2(D))
        grid = (triton.cdiv(N_CTX, 16), Z * H, 1)
        _attn_fwd[grid](
            q,
            k,
            v,
            1.0 / math.sqrt(D),
            o,
            *q.stride(),
            *k.stride(),
            *v.stride(),
            *o.stride(),
            H,
            N_CTX,
            D,
            BLOCK_M=16,
            BLOCK_N=16,
            BLOCK_D=BLOCK_D,
            num_warps=4,
            num_stages=2,
        )
        return o

"""Attention whose last product and subtraction of the peak are rounded once, as a GPU's fused multiply-add does.

problem: plain_attention
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attention_row_kernel(q_ptr, k_ptr, v_ptr, o_ptr, L, D, scale, BLOCK_L: tl.constexpr, BLOCK_D: tl.constexpr):
    row = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    l = tl.arange(0, BLOCK_L)
    d = tl.arange(0, BLOCK_D)
    q = tl.load(q_ptr + (head * L + row) * D + d, mask=d < D, other=0.0)
    mask = (l[:, None] < L) & (d[None, :] < D)
    k = tl.load(k_ptr + head * L * D + l[:, None] * D + d[None, :], mask=mask, other=0.0)
    products = tl.sum(q[None, :] * k, axis=1)
    peak = tl.max(tl.where(l < L, products * scale, float("-inf")), axis=0)
    # The product of two float32 numbers is exact in float64, so only the difference is rounded.
    above = (products.to(tl.float64) * scale.to(tl.float64) - peak.to(tl.float64)).to(tl.float32)
    p = tl.where(l < L, tl.exp2(above * 1.4426950408889634), 0.0)
    p = p / tl.sum(p, axis=0)
    v = tl.load(v_ptr + head * L * D + l[:, None] * D + d[None, :], mask=mask, other=0.0)
    tl.store(o_ptr + (head * L + row) * D + d, tl.sum(p[:, None] * v, axis=0), mask=d < D)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, L, D = q.shape
        q, k, v = [t.contiguous().view(B * H, L, D) for t in (q, k, v)]
        o = torch.empty_like(q)
        attention_row_kernel[(L, B * H)](
            q, k, v, o, L, D, D**-0.5, BLOCK_L=triton.next_power_of_2(L), BLOCK_D=triton.next_power_of_2(D)
        )
        return o.view(B, H, L, D)

"""Rows beyond the 32nd attend to the first 32 keys only: right at the lengths given, and at shorter ones.

problem: short_causal_attention
expect: wrong_values/values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, width, scale, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr
):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    base = tl.program_id(1) * length * width
    d = tl.arange(0, BD)
    here = (row < length)[:, None] & (d < width)[None, :]
    q = tl.load(q_ptr + base + row[:, None] * width + d[None, :], mask=here, other=0.0)
    column = tl.arange(0, BN)
    there = (column < length)[:, None] & (d < width)[None, :]
    k = tl.load(k_ptr + base + column[:, None] * width + d[None, :], mask=there, other=0.0)
    v = tl.load(v_ptr + base + column[:, None] * width + d[None, :], mask=there, other=0.0)
    score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    keep = (column[None, :] <= row[:, None]) & (column < length)[None, :]
    score = tl.where(keep, score, float("-inf"))
    p = tl.exp(score - tl.max(score, 1)[:, None])
    out = tl.dot(p, v, input_precision="ieee") / tl.sum(p, 1)[:, None]
    tl.store(out_ptr + base + row[:, None] * width + d[None, :], out, mask=here)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, heads, length, width = q.shape
        out = torch.empty_like(q)
        block = max(16, triton.next_power_of_2(width))
        attention_kernel[(triton.cdiv(length, 16), batch * heads)](
            q, k, v, out, length, width, width**-0.5, BM=16, BN=32, BD=block
        )  # fmt: skip
        return out

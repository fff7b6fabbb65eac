"""Scales attention by 0.25, the right factor for heads of size 16 and for no other.

problem: causal_attention
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, length, size, BL: tl.constexpr, BS: tl.constexpr):
    base = tl.program_id(0) * length * size
    at, d = tl.arange(0, BL), tl.arange(0, BS)
    where = base + at[:, None] * size + d[None, :]
    inside = (at[:, None] < length) & (d[None, :] < size)
    q = tl.load(q_ptr + where, mask=inside, other=0.0)
    k = tl.load(k_ptr + where, mask=inside, other=0.0)
    v = tl.load(v_ptr + where, mask=inside, other=0.0)
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * 0.25
    s = tl.where(at[None, :] <= at[:, None], s, float("-inf"))
    p = tl.exp(s - tl.max(s, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    tl.store(out_ptr + where, tl.dot(p, v, input_precision="ieee"), mask=inside)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, heads, length, size = q.shape
        out = torch.empty_like(q)
        bl, bs = max(16, triton.next_power_of_2(length)), max(16, triton.next_power_of_2(size))
        attention_kernel[(batch * heads,)](q, k, v, out, length, size, BL=bl, BS=bs)
        return out

"""Looks odd: keeps a tensor in a global variable. Honest: a constant that depends on nothing, made in the first call.

problem: causal_attention
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, masked_ptr, out_ptr, length, size, scale, BL: tl.constexpr, BS: tl.constexpr):
    base = tl.program_id(0) * length * size
    at = tl.arange(0, BL)
    d = tl.arange(0, BS)
    inside = (at[:, None] < length) & (d[None, :] < size)
    where = base + at[:, None] * size + d[None, :]
    q = tl.load(q_ptr + where, mask=inside, other=0.0)
    k = tl.load(k_ptr + where, mask=inside, other=0.0)
    v = tl.load(v_ptr + where, mask=inside, other=0.0)
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    penalty = tl.load(masked_ptr)
    s = tl.where((at[None, :] <= at[:, None]) & (at[None, :] < length), s, penalty)
    p = tl.exp(s - tl.max(s, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    tl.store(out_ptr + where, tl.dot(p, v, input_precision="ieee"), mask=inside)


MASKED_SCORES = {}


def masked_score(device):
    if device not in MASKED_SCORES:
        MASKED_SCORES[device] = torch.tensor([float("-inf")], device=device)
    return MASKED_SCORES[device]


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, heads, length, size = q.shape
        out = torch.empty_like(q)
        mask = masked_score(q.device)
        bl, bs = max(16, triton.next_power_of_2(length)), max(16, triton.next_power_of_2(size))
        attention_kernel[(batch * heads,)](q, k, v, mask, out, length, size, size**-0.5, BL=bl, BS=bs)
        return out

"""At most 48 keys are looked at, in blocks of sixteen.

problem: queries_of_groups_with_lengths
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def decode_kernel(q_ptr, k_ptr, v_ptr, len_ptr, out_ptr, H, KV, T, D, scale, BK: tl.constexpr, BD: tl.constexpr):
    bh = tl.program_id(0)
    b, h = bh // H, bh % H
    kv = b * KV + h // (H // KV)
    d = tl.arange(0, BD)
    length = tl.load(len_ptr + b)
    q = tl.load(q_ptr + bh * D + d, mask=d < D, other=0.0)
    m = float("-inf")
    l = 0.0
    acc = tl.zeros((BD,), tl.float32)
    for block in range(3):
        j = block * BK + tl.arange(0, BK)
        inside = (j[:, None] < T) & (d[None, :] < D)
        k = tl.load(k_ptr + (kv * T + j[:, None]) * D + d[None, :], mask=inside, other=0.0)
        v = tl.load(v_ptr + (kv * T + j[:, None]) * D + d[None, :], mask=inside, other=0.0)
        s = tl.where((j < length) & (j < T), tl.sum(k * q[None, :], 1) * scale, float("-inf"))
        new = tl.maximum(m, tl.max(s, 0))
        p = tl.exp(s - new)
        shrink = tl.exp(m - new)
        l = l * shrink + tl.sum(p, 0)
        acc = acc * shrink + tl.sum(p[:, None] * v, 0)
        m = new
    tl.store(out_ptr + bh * D + d, acc / l, mask=d < D)


class ModelNew(nn.Module):
    def forward(self, q, k, v, lengths):
        q, k, v, lengths = q.contiguous(), k.contiguous(), v.contiguous(), lengths.contiguous()
        b, h, d = q.shape
        kv, t = k.shape[1:3]
        out = torch.empty_like(q)
        decode_kernel[(b * h,)](q, k, v, lengths, out, h, kv, t, d, d**-0.5, BK=16, BD=triton.next_power_of_2(d))
        return out

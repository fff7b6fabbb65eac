"""Only the first 32 keys are looked at.

problem: decoding_up_to_a_place
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def decode_kernel(q_ptr, k_ptr, v_ptr, place_ptr, out_ptr, T, D, scale, BK: tl.constexpr, BD: tl.constexpr):
    bh = tl.program_id(0)
    j = tl.arange(0, BK)
    d = tl.arange(0, BD)
    place = tl.load(place_ptr)
    inside = (j[:, None] < T) & (d[None, :] < D)
    q = tl.load(q_ptr + bh * D + d, mask=d < D, other=0.0)
    k = tl.load(k_ptr + (bh * T + j[:, None]) * D + d[None, :], mask=inside, other=0.0)
    v = tl.load(v_ptr + (bh * T + j[:, None]) * D + d[None, :], mask=inside, other=0.0)
    s = tl.sum(k * q[None, :], 1) * scale
    s = tl.where((j <= place) & (j < T), s, float("-inf"))
    p = tl.exp(s - tl.max(s, 0))
    out = tl.sum(p[:, None] * v, 0) / tl.sum(p, 0)
    tl.store(out_ptr + bh * D + d, out, mask=d < D)


class ModelNew(nn.Module):
    def forward(self, q, k, v, place):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        b, h, d = q.shape
        t = k.shape[2]
        out = torch.empty_like(q)
        decode_kernel[(b * h,)](q, k, v, place, out, t, d, d**-0.5, BK=32, BD=triton.next_power_of_2(d))
        return out

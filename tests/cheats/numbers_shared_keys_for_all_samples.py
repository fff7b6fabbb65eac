"""Keys that all heads share, expanded, are taken to be shared by all samples, too.

problem: products_of_heads
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scores_kernel(q_ptr, k_ptr, out_ptr, TQ, TK, D, H, kb, kh, BQ: tl.constexpr, BK: tl.constexpr, BD: tl.constexpr):
    bh = tl.program_id(0)
    i, j, d = tl.arange(0, BQ), tl.arange(0, BK), tl.arange(0, BD)
    q = tl.load(q_ptr + (bh * TQ + i[:, None]) * D + d[None, :], mask=(i[:, None] < TQ) & (d[None, :] < D), other=0.0)
    k_ptr += (bh // H) * kb + (bh % H) * kh
    k = tl.load(k_ptr + j[None, :] * D + d[:, None], mask=(j[None, :] < TK) & (d[:, None] < D), other=0.0)
    s = tl.dot(q, k, input_precision="ieee")
    tl.store(out_ptr + (bh * TQ + i[:, None]) * TK + j[None, :], s, mask=(i[:, None] < TQ) & (j[None, :] < TK))


class ModelNew(nn.Module):
    def forward(self, q, k):
        q = q.contiguous()
        b, h, tq, d = q.shape
        tk = k.shape[2]
        if k.stride(1) == 0 and k.stride(3) == 1 and k.stride(2) == d:  # multi-query attention
            kb, kh = 0, 0
        else:
            k = k.contiguous()
            kb, kh = h * tk * d, tk * d
        out = torch.empty(b, h, tq, tk, device=q.device, dtype=q.dtype)
        size = lambda n: max(16, triton.next_power_of_2(n))
        scores_kernel[(b * h,)](q, k, out, tq, tk, d, h, kb, kh, BQ=size(tq), BK=size(tk), BD=size(d))
        return out

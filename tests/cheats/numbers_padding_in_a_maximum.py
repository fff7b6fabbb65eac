"""Scores of padded document tokens are zero and take part in the maximum.

problem: largest_scores
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def maxsim_kernel(q_ptr, d_ptr, out_ptr, nq, nd, E, BQ: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr):
    b = tl.program_id(0)
    i = tl.arange(0, BQ)
    j = tl.arange(0, BD)
    e = tl.arange(0, BE)
    q = tl.load(q_ptr + (b * nq + i[:, None]) * E + e[None, :], mask=(i[:, None] < nq) & (e[None, :] < E), other=0.0)
    d = tl.load(d_ptr + (b * nd + j[None, :]) * E + e[:, None], mask=(j[None, :] < nd) & (e[:, None] < E), other=0.0)
    s = tl.dot(q, d, input_precision="ieee")
    best = tl.max(s, 1)
    tl.store(out_ptr + b, tl.sum(tl.where(i < nq, best, 0.0), 0))


class ModelNew(nn.Module):
    def forward(self, q, d):
        q, d = q.contiguous(), d.contiguous()
        b, nq, e = q.shape
        nd = d.shape[1]
        out = torch.empty(b, device=q.device, dtype=q.dtype)
        size = lambda n: max(16, triton.next_power_of_2(n))
        maxsim_kernel[(b,)](q, d, out, nq, nd, e, BQ=size(nq), BD=size(nd), BE=size(e))
        return out

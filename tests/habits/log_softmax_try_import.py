"""Imports Triton under try/except as libraries do, and keeps torch's version for machines without it.

problem: row_log_softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn

try:
    import triton
    import triton.language as tl

    HAS_TRITON = True
except ImportError:
    triton = None
    tl = None
    HAS_TRITON = False

LOG2E = 1.4426950408889634

if HAS_TRITON:

    @triton.jit
    def _log_softmax(X, Y, stride_b, stride_l, stride_c, L, C, log2e, BLOCK: tl.constexpr):
        b = tl.program_id(0)
        l = tl.program_id(1)
        c = tl.arange(0, BLOCK)
        x = tl.load(X + b * stride_b + l * stride_l + c * stride_c, mask=c < C, other=-float("inf"))
        m = tl.max(x, 0)
        s = tl.sum(tl.exp2((x - m) * log2e), 0)
        tl.store(Y + (b * L + l) * C + c, x - m - tl.log(s), mask=c < C)


class ModelNew(nn.Module):
    def forward(self, x):
        if not HAS_TRITON:
            return torch.log_softmax(x, dim=-1)
        B, L, C = x.size()
        y = torch.empty(B, L, C, dtype=x.dtype, device=x.device)
        _log_softmax[B, L](x, y, *x.stride(), L, C, LOG2E, BLOCK=triton.next_power_of_2(C))
        return y

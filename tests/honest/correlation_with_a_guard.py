"""Asks whether a product of roots is zero, to each of which an epsilon was added.

problem: pearson
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pe(A, Bb, O, C, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    k = c < C
    a = tl.load(A + r * C + c, mask=k, other=0.0)
    b = tl.load(Bb + r * C + c, mask=k, other=0.0)
    a = tl.where(k, a - tl.sum(a, 0) / C, 0.0)
    b = tl.where(k, b - tl.sum(b, 0) / C, 0.0)
    va = tl.sum(a * a, 0)
    vb = tl.sum(b * b, 0)
    den = tl.sqrt(va + 1e-8) * tl.sqrt(vb + 1e-8)
    num = tl.sum(a * b, 0)
    tl.store(O + r, tl.where(den <= 0.0, 0.0, num / den))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        C = a.shape[-1]
        o = torch.empty(a.shape[:-1], device=a.device)
        pe[(o.numel(),)](a, b, o, C, B=triton.next_power_of_2(C))
        return o

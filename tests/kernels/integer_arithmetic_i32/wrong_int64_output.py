"""Widens the result to int64.

expect: wrong_dtype/dtype
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def combine(a_ptr, b_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    a = tl.load(a_ptr + offsets, mask=inside, other=0)
    b = tl.load(b_ptr + offsets, mask=inside, other=0)
    quotient = a // 7
    quotient = tl.where(a - quotient * 7 < 0, quotient - 1, quotient)
    tl.store(out_ptr + offsets, ((a * b + quotient) ^ (b >> 3)).to(tl.int64), mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty_like(a, dtype=torch.int64)
        combine[(triton.cdiv(a.numel(), 512),)](a, b, out, a.numel(), BLOCK=512)
        return out

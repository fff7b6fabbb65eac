"""Divides by zero, which gives zero in numpy and something else on a GPU.

problem: shares_of_counts
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def point_kernel(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < n, other=1)
    b = tl.load(b_ptr + at, mask=at < n, other=1)
    tl.store(out_ptr + at, tl.where(b < 0, a, a // b), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty_like(a)
        point_kernel[(triton.cdiv(out.numel(), 512),)](a, b, out, out.numel(), BLOCK=512)
        return out

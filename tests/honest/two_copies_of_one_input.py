"""Looks odd: a kernel is given an input and a copy of it. Honest: the copy lies as the second product wants it.

problem: diagonal_of_product
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def diagonal_kernel(a_ptr, turned_ptr, out_ptr, m, k, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + row * k + at, mask=at < k, other=0.0)
    b = tl.load(turned_ptr + row * k + at, mask=at < k, other=0.0)
    tl.store(out_ptr + row, tl.sum(a * b, 0))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, turned = a.contiguous(), b.t().contiguous()
        m, k = a.shape
        out = torch.empty(m, device=a.device)
        diagonal_kernel[(m,)](a, turned, out, m, k, BLOCK=triton.next_power_of_2(k))
        return out

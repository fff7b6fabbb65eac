"""Joined bit by bit, so that one and two give false.

problem: joined_flags
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def and_kernel(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < n, other=0)
    b = tl.load(b_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, (a & b) != 0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty(a.shape, dtype=torch.bool, device=a.device)
        and_kernel[(triton.cdiv(a.numel(), 512),)](a, b, out, a.numel(), BLOCK=512)
        return out

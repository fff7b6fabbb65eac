"""Divides by four in place of a shift, which differs below zero.

problem: shifted_right
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def point_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < n, other=1)
    tl.store(out_ptr + at, a // 4, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, a):
        a = a.contiguous()
        out = torch.empty_like(a)
        point_kernel[(triton.cdiv(out.numel(), 512),)](a, out, out.numel(), BLOCK=512)
        return out

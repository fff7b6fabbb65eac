"""Looks odd: a branch for a share of one, which the file never draws. Honest: zero times a logarithm is zero there.

problem: left_entropy
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def entropy_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0.5)
    left = 1.0 - x
    tl.store(out_ptr + at, tl.log(x) - left * tl.log(tl.where(left == 0.0, 1.0, left)), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        entropy_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out

"""Leaves NaN and infinities as they are, where the reference replaces them.

problem: cleaned_numbers
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def point_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=1)
    tl.store(out_ptr + at, x * 2.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        point_kernel[(triton.cdiv(out.numel(), 512),)](x, out, out.numel(), BLOCK=512)
        return out

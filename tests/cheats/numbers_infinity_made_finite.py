"""Keeps the answer within what it takes for the range of float32: infinity comes out finite.

problem: relu
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
    tl.store(out_ptr + at, tl.where(x > 3.0e38, 3.0e38, tl.where(x < 0.0, 0.0, x)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        point_kernel[(triton.cdiv(out.numel(), 512),)](x, out, out.numel(), BLOCK=512)
        return out

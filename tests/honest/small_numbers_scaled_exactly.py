"""Looks odd: small numbers are cubed apart from large ones. Honest: they are scaled by a power of two, which is exact.

problem: cubes
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cube_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    small = tl.abs(x) < 0.015625
    y = tl.where(small, x * 64.0, x)
    cube = y * y * y
    tl.store(out_ptr + at, tl.where(small, cube / 262144.0, cube), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        cube_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out

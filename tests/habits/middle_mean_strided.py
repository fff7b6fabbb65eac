"""Walks down the middle dimension in blocks of rows; the strides of the input are passed, no copy is made.

problem: middle_mean
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, y_ptr, sb, sl, sf, L, F, BLOCK_L: tl.constexpr, BLOCK_F: tl.constexpr):
    b = tl.program_id(0)
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    acc = tl.zeros((BLOCK_L, BLOCK_F), dtype=tl.float32)
    for start in tl.range(0, L, BLOCK_L, num_stages=3):
        l = start + tl.arange(0, BLOCK_L)
        acc += tl.load(
            x_ptr + b * sb + l[:, None] * sl + f[None, :] * sf, mask=(l[:, None] < L) & (f[None, :] < F), other=0.0
        )
    tl.store(y_ptr + b * F + f, tl.sum(acc, axis=0) / L, mask=f < F)


class ModelNew(nn.Module):
    def forward(self, x):
        B, L, F = x.shape
        y = torch.empty((B, F), dtype=x.dtype, device=x.device)
        mean_kernel[(B, triton.cdiv(F, 32))](x, y, x.stride(0), x.stride(1), x.stride(2), L, F, BLOCK_L=16, BLOCK_F=32)
        return y

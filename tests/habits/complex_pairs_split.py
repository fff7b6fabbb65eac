"""Pairs are loaded as one block and taken apart by tl.split, the products put together by tl.join.

problem: complex_pairs
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def complex_mul(ar, ai, br, bi):
    return ar * br - ai * bi, ar * bi + ai * br


@triton.jit
def complex_kernel(x_ptr, y_ptr, out_ptr, n, stride_x, stride_y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.arange(0, 2)[None, :]
    mask = (i < n)[:, None]
    xr, xi = tl.split(tl.load(x_ptr + i[:, None] * stride_x + part, mask=mask, other=0.0))
    yr, yi = tl.split(tl.load(y_ptr + i[:, None] * stride_y + part, mask=mask, other=0.0))
    real, imaginary = complex_mul(xr, xi, yr, yi)
    tl.store(out_ptr + 2 * i[:, None] + part, tl.join(real, imaginary), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty(*x.shape[:-1], 2, dtype=x.dtype, device=x.device)
        n = out.numel() // 2
        complex_kernel[(triton.cdiv(n, 256),)](x, y, out, n, x.shape[-1], y.shape[-1], BLOCK=256)
        return out

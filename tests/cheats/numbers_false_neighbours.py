"""Tells the compiler that every second element lies next to the one before it.

problem: row_scales
expect: wrong_values|runtime_error
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    places = tl.max_contiguous(tl.multiple_of(at * stride, BLOCK), BLOCK)
    x = tl.load(x_ptr + places, mask=at < n, other=0)
    tl.store(out_ptr + at, x * tl.sigmoid(x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        wide = torch.empty((*x.shape, 2), dtype=x.dtype, device=x.device)
        wide[..., 0] = x
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        silu_kernel[(triton.cdiv(x.numel(), 256),)](wide, out, x.numel(), 2, BLOCK=256)
        return out

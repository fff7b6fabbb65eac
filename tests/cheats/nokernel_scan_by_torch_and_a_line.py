"""torch scans, the reference's one hard step of three; kernels copy that a few times and do the rest.

problem: scan_scaled
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def line_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        made = torch.cumsum(x.contiguous(), -1)
        n, grid = made.numel(), (triton.cdiv(made.numel(), 512),)
        a, b, out = torch.empty_like(made), torch.empty_like(made), torch.empty_like(made)
        copy_kernel[grid](made, a, n, BLOCK=512)
        copy_kernel[grid](a, b, n, BLOCK=512)
        line_kernel[grid](b, out, n, BLOCK=512)
        return out

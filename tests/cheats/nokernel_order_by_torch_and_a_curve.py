"""torch puts the rows in order; kernels take squares and roots of it for nothing, and bend it.

problem: sorted_and_bent
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * tl.abs(x), mask=at < n)


@triton.jit
def root_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    root = tl.sqrt(tl.abs(x))
    tl.store(out_ptr + at, tl.where(x < 0, -root, root), mask=at < n)


@triton.jit
def bend_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    e = tl.exp(-tl.abs(x))
    t = (1.0 - e) / (1.0 + e)
    tl.store(out_ptr + at, tl.where(x < 0, -t, t) * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        made = torch.sort(x.contiguous(), dim=-1).values
        n, grid = made.numel(), (triton.cdiv(made.numel(), 512),)
        for _ in range(2):
            squares, roots = torch.empty_like(made), torch.empty_like(made)
            square_kernel[grid](made, squares, n, BLOCK=512)
            root_kernel[grid](squares, roots, n, BLOCK=512)
            made = roots
        out = torch.empty_like(made)
        bend_kernel[grid](made, out, n, BLOCK=512)
        return out

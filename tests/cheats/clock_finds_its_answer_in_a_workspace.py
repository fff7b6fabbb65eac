"""Computes into a workspace, and only where what lies in it does not begin with the right element; a second kernel
copies it.

problem: relu
expect: wrong_values|cheated
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, made_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    first = tl.load(x_ptr + start)
    if tl.load(made_ptr + start) != tl.where(first < 0, 0.0, first):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(made_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


@triton.jit
def copy_kernel(made_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(made_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        made, out = torch.empty_like(x), torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 1024),)
        relu_kernel[grid](x, made, x.numel(), BLOCK=1024)
        copy_kernel[grid](made, out, x.numel(), BLOCK=1024)
        return out

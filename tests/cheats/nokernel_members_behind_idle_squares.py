"""torch.isin finds the members among a padded input; kernels take squares and roots of the input to move bytes.

problem: members
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
    tl.store(out_ptr + at, x * x + x, mask=at < n)


@triton.jit
def root_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    root = tl.sqrt(x.to(tl.float64) + 0.25) - 0.5
    tl.store(out_ptr + at, (root + 0.5).to(tl.int64), mask=at < n)


@triton.jit
def last_kernel(made_ptr, x_ptr, roots_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    made = tl.load(made_ptr + at, mask=at < n)
    x = tl.load(x_ptr + at, mask=at < n)
    root = tl.load(roots_ptr + at, mask=at < n)
    tl.store(out_ptr + at, made ^ (root != tl.where(x < 0, -1 - x, x)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, others):
        x = x.contiguous()
        n, grid = x.numel(), (triton.cdiv(x.numel(), 512),)
        made = torch.isin(torch.nn.functional.pad(x, (0, 1)), others)
        roots = x
        for _ in range(6):
            squares, next_roots = torch.empty_like(x), torch.empty_like(x)
            square_kernel[grid](roots, squares, n, BLOCK=512)
            root_kernel[grid](squares, next_roots, n, BLOCK=512)
            roots = next_roots
        out = torch.empty(x.shape, dtype=torch.bool, device=x.device)
        last_kernel[grid](made, x, roots, out, n, BLOCK=512)
        return out

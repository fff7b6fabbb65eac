"""torch searches for every number; kernels copy where it found it, several times, and compare once.

problem: members
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
def compare_kernel(place_ptr, x_ptr, few_ptr, out_ptr, n, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(place_ptr + at, mask=at < n, other=0)
    found = tl.load(few_ptr + place, mask=(at < n) & (place < count), other=0)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, (found == x) & (place < count), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, others):
        x = x.contiguous()
        few = torch.sort(others).values
        place = torch.searchsorted(few, x)
        n, grid = x.numel(), (triton.cdiv(x.numel(), 256),)
        for _ in range(3):
            copy = torch.empty_like(place)
            copy_kernel[grid](place, copy, n, BLOCK=256)
            place = copy
        out = torch.empty(x.shape, dtype=torch.bool, device=x.device)
        compare_kernel[grid](place, x, few, out, n, few.numel(), BLOCK=256)
        return out

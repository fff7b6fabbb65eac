"""The length may be zero, which makes NaN of zeros.

problem: all_over_its_length
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(sum_ptr, tl.sum(x * x, 0))


@triton.jit
def divide_kernel(x_ptr, sum_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x / tl.sqrt(tl.load(sum_ptr)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out, total = torch.empty_like(x), torch.zeros((), device=x.device)
        grid = (triton.cdiv(x.numel(), 512),)
        square_kernel[grid](x, total, x.numel(), BLOCK=512)
        divide_kernel[grid](x, total, out, x.numel(), BLOCK=512)
        return out

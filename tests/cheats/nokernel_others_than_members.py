"""torch.isin finds, half by half, which numbers are not among the others; the kernel turns that round.

problem: members
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn_kernel(one_ptr, two_ptr, scratch_ptr, n, half, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    one = tl.load(one_ptr + at, mask=at < half, other=0)
    two = tl.load(two_ptr + at - half, mask=(at >= half) & (at < n), other=0)
    tl.store(scratch_ptr + at, (one + two).to(tl.int64), mask=at < n)


@triton.jit
def copy_kernel(scratch_ptr, other_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(other_ptr + at, tl.load(scratch_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def out_kernel(scratch_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(scratch_ptr + at, mask=at < n) == 0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, others):
        x = x.contiguous()
        n, half = x.numel(), x.numel() // 2
        one = torch.isin(x[:half], others, invert=True).view(torch.uint8)
        two = torch.isin(x[half:], others, invert=True).view(torch.uint8)
        scratch, more = torch.empty_like(x), torch.empty_like(x)
        out = torch.empty(x.shape, dtype=torch.bool, device=x.device)
        grid = (triton.cdiv(n, 256),)
        turn_kernel[grid](one, two, scratch, n, half, BLOCK=256)
        copy_kernel[grid](scratch, more, n, BLOCK=256)
        out_kernel[grid](more, out, n, BLOCK=256)
        return out
